package lint

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
)

// place says where a package stands: it imports packages of lower levels, and
// of its own level only those named beside it.
type place struct {
	level  int
	beside []string
}

// testing is the level of what only tests import and nothing is built from.
const testingLevel = 9

// levels is the whole table; a package that is not in it is an error. It
// follows docs/adr/0002-levels.md. Folders below a sink are its own parts.
func levels() map[string]place {
	return map[string]place{
		"record":             {level: 0},
		"internal/decimal":   {level: 0},
		"internal/embedded":  {level: 0},
		"internal/failpoint": {level: 0},
		"internal/mutation":  {level: 0},
		"internal/payments":  {level: 0},

		"sink":            {level: 1},
		"state":           {level: 1},
		"internal/tables": {level: 1, beside: []string{"sink", "step/cel"}},
		"step":            {level: 1, beside: []string{"step/cel"}},
		"step/cel":        {level: 1},

		"sink/http":           {level: 2},
		"sink/kafka":          {level: 2},
		"sink/object":         {level: 2},
		"sink/postgres":       {level: 2},
		"sink/saga":           {level: 2},
		"sink/search":         {level: 2},
		"sink/sqlite":         {level: 2},
		"sinktest":            {level: 2},
		"internal/broker":     {level: 2},
		"internal/deadletter": {level: 2},
		"internal/journal":    {level: 2},
		"internal/outbox":     {level: 2},

		"internal/epoch":  {level: 3},
		"internal/engine": {level: 3, beside: []string{"internal/epoch"}},

		"": {level: 4}, // the root, the public library

		"internal/audit":     {level: 5, beside: []string{"internal/config"}},
		"internal/bench":     {level: 5},
		"internal/catalog":   {level: 5, beside: []string{"internal/config"}},
		"internal/config":    {level: 5},
		"internal/exercise":  {level: 5, beside: []string{"internal/audit", "internal/catalog", "internal/config"}},
		"internal/demo":      {level: 5, beside: []string{"internal/audit", "internal/catalog", "internal/config", "internal/telemetry", "internal/watch"}},
		"internal/telemetry": {level: 5},
		"internal/watch":     {level: 5},

		"internal/cli": {level: 6},
		"cmd/exactly":  {level: 6, beside: []string{"internal/cli"}},

		"internal/lint":     {level: testingLevel},
		"internal/model":    {level: testingLevel},
		"internal/services": {level: testingLevel},
		"internal/simtest":  {level: testingLevel},
	}
}

// concreteFrom is the lowest level that may know concrete sinks: the engine
// does not, and the library links only those that the user imports.
const concreteFrom = 5

func TestImportsGoDownward(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, f := range tree(t) {
		if f.ast == nil {
			continue
		}
		for _, spec := range f.ast.Imports {
			to := strings.Trim(spec.Path.Value, `"`)
			if to == "exactly" || strings.HasPrefix(to, "exactly/") {
				seen++
				if err := allowed(f.pkg(), to, f.isTest()); err != nil {
					t.Errorf("%s: %v", f.at(spec.Pos()), err)
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no import was looked at")
	}
	for name := range levels() {
		for _, b := range levels()[name].beside {
			if got, want := levels()[b].level, levels()[name].level; got != want {
				t.Errorf("the table says %s is beside %s, which are of levels %d and %d", b, name, got, want)
			}
		}
	}
}

func TestEveryPackageHasALevel(t *testing.T) {
	t.Parallel()
	for _, f := range tree(t) {
		if f.ast != nil {
			if _, _, err := find(f.pkg()); err != nil {
				t.Errorf("%s: %v", f.path, err)
			}
		}
	}
}

func TestAllowedOnSamples(t *testing.T) {
	t.Parallel()
	tests := []struct {
		from, to string
		test     bool
		want     bool
	}{
		{"exactly/sink", "exactly/record", false, true},
		{"exactly/record", "exactly/sink", false, false},
		{"exactly/step", "exactly/step/cel", false, true},
		{"exactly/step/cel", "exactly/step", false, false},
		{"exactly/sink/kafka", "exactly/sink/http", false, false},
		{"exactly/sink/kafka", "exactly/internal/broker", false, false},
		{"exactly/sink/object", "exactly/sink/object/parquet", false, true},
		{"exactly/sink/object/parquet", "exactly/sink/object/store", false, true},
		{"exactly/sink/object/parquet", "exactly/sink/sqlite", false, false},
		{"exactly/internal/engine", "exactly/internal/epoch", false, true},
		{"exactly/internal/engine", "exactly/sink/kafka", false, false},
		{"exactly", "exactly/internal/engine", false, true},
		{"exactly", "exactly/sink/sqlite", false, false},
		{"exactly/internal/catalog", "exactly/sink/sqlite", false, true},
		{"exactly/internal/cli", "exactly/internal/services", false, false},
		{"exactly/internal/cli", "exactly/internal/services", true, true},
		{"exactly/sink/kafka", "exactly/sinktest", true, true},
		{"exactly/sink/kafka", "exactly/sinktest", false, false},
		{"exactly/test/e2e", "exactly/internal/demo", false, true},
		{"exactly/internal/util", "exactly/record", false, false},
		{"exactly/record", "exactly/internal/util", false, false},
	}
	for _, tt := range tests {
		if err := allowed(tt.from, tt.to, tt.test); (err == nil) != tt.want {
			t.Errorf("%s imports %s, test %t: got %v, want allowed: %t", tt.from, tt.to, tt.test, err, tt.want)
		}
	}
}

// find returns the entry of a package, and its name there: parts of a sink
// belong to it.
func find(pkg string) (string, place, error) {
	name := strings.TrimPrefix(strings.TrimPrefix(pkg, "exactly"), "/")
	if strings.HasPrefix(name, "test/") || strings.HasPrefix(name, "examples/") || name == "examples" {
		return name, place{level: testingLevel}, nil
	}
	if p, ok := levels()[name]; ok {
		return name, p, nil
	}
	if d := path.Dir(name); strings.HasPrefix(d, "sink/") {
		if p, ok := levels()[d]; ok {
			return d, p, nil
		}
	}
	return "", place{}, fmt.Errorf("package %s has no level: add it to the table in internal/lint and docs/adr", pkg)
}

// allowed says why a package must not import another. Tests may also import
// what is beside them, and what is made for tests.
func allowed(from, to string, test bool) error {
	f, fp, err := find(from)
	if err != nil {
		return err
	}
	t, tp, err := find(to)
	if err != nil {
		return err
	}
	switch {
	case f == t:
		return nil
	case strings.HasPrefix(t, "sink/") && fp.level < concreteFrom && !test:
		return fmt.Errorf("%s, below level %d, imports the concrete sink %s", from, concreteFrom, to)
	case tp.level < fp.level, slices.Contains(fp.beside, t):
		return nil
	case fp.level == testingLevel, test && (tp.level == testingLevel || tp.level == fp.level):
		return nil
	}
	return fmt.Errorf("%s (level %d) imports %s (level %d): imports go downward", from, fp.level, to, tp.level)
}
