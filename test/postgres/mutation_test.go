//go:build services && mutations

package postgres

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"exactly/internal/mutation"
	"exactly/internal/services"
)

// TestMutations: each rule that the sink could break by itself turns the suite red.
// At full size the whole suite is run against each, and what noticed is listed;
// otherwise only scenarios that are known to notice.
func TestMutations(t *testing.T) {
	if os.Getenv(mutation.Var) != "" {
		return // a child
	}
	full, err := services.Full()
	if err != nil {
		t.Fatal(err)
	}
	known := map[mutation.Rule]string{
		mutation.LedgerIgnored:     "append/SameBatchTwice",
		mutation.MarkApart:         "append/FailPoints",
		mutation.IncarnationLost:   "upsert/ForeignMark",
		mutation.GenerationIgnored: "append/OtherOwnersUntouched",
		mutation.VerdictDropped:    "upsert/VerdictSurvives",
		mutation.SweepAll:          "two_phase/Sweep",
		mutation.LostIsDone:        "two_phase/CommitOfLostWork",
	}
	for _, rule := range mutation.SinkRules() {
		t.Run(string(rule), func(t *testing.T) {
			what := known[rule]
			if full {
				what = ""
			}
			out, err := child(t, rule, what)
			noticed := failed(out)
			if err == nil || len(noticed) == 0 {
				t.Fatalf("nobody noticed: %v\n%s", err, out)
			}
			t.Logf("noticed by %s", strings.Join(noticed, ", "))
			if full && !slices.Contains(noticed, known[rule]) {
				t.Errorf("%s did not notice", known[rule])
			}
		})
	}
	// And nobody cries without a reason.
	if out, err := child(t, "", known[mutation.LedgerIgnored]); err != nil {
		t.Errorf("with every rule kept: %v\n%s", err, out)
	}
}

// child runs scenarios of the conformance suite with a rule broken.
func child(t *testing.T, rule mutation.Rule, what string) ([]byte, error) {
	t.Helper()
	pattern := "^TestConformance$"
	for _, part := range strings.Split(what, "/") {
		if part != "" {
			pattern += "/^" + part + "$"
		}
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+pattern, "-test.v", "-test.timeout=10m")
	cmd.Env = append(os.Environ(), mutation.Var+"="+string(rule))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.Bytes(), err
}

// failed lists the scenarios that failed, as variant/scenario.
func failed(out []byte) (names []string) {
	for line := range bytes.Lines(out) {
		rest, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("--- FAIL: TestConformance/"))
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(string(rest), " ")
		if strings.Count(name, "/") == 1 {
			names = append(names, name)
		}
	}
	return names
}
