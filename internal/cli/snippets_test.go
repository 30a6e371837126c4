package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestSnippets: every piece of a pipeline file in the documentation is right as it
// stands, put where it belongs.
func TestSnippets(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/sinks/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal("no pages", err)
	}
	env := map[string]string{
		"PG_DSN": "postgres://app@localhost/app", "PARTNER_TOKEN": "x", "KAFKA_BROKERS": "localhost:9092", "DATA_DIR": t.TempDir(),
	}
	template, err := os.ReadFile("../config/template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	typed, _, _ := strings.Cut(string(template), "\nsinks:\n")
	whole, ofTemplate := 0, 0
	for _, page := range append(pages, "../../README.md", "../../docs/tutorial.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		kind := strings.TrimSuffix(filepath.Base(page), ".md")
		for _, m := range yamlBlock.FindAllSubmatch(text, -1) {
			snippet := string(m[1])
			file := pipelineAround(kind, snippet)
			if file == "" {
				continue // single settings
			}
			whole++
			if strings.Contains(snippet, "event_time") && strings.HasPrefix(file, untyped) { // its fields are those of the template, and have types
				ofTemplate++
				file = typed + "\nsinks:\n" + strings.TrimPrefix(file, untyped)
			}
			path := filepath.Join(t.TempDir(), "pipeline.yaml")
			if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
				t.Fatal(err)
			}
			if code, _, stderr := run(t, env, "validate", path); code != 0 {
				t.Errorf("%s: exit code %d: %s\n%s", page, code, stderr, snippet)
			}
		}
	}
	if ofTemplate == 0 {
		t.Error("no snippet was compiled with the fields of the template")
	}
	if whole < 10 {
		t.Errorf("only %d snippets are more than single settings", whole)
	}
}

// untyped is what comes before a sink whose expressions name any fields.
const untyped = "pipeline: snippets\nkafka: { brokers: [\"localhost:9092\"] }\nsource: { topics: [in] }\nsinks:\n"

// pipelineAround makes a pipeline file of a snippet of the page of a kind of sinks;
// "" where it is only some settings.
func pipelineAround(kind, snippet string) string {
	indented := func(by string) string {
		return by + strings.ReplaceAll(strings.TrimRight(snippet, "\n"), "\n", "\n"+by) + "\n"
	}
	first, rest, _ := strings.Cut(snippet, "\n")
	var sinks string
	switch {
	case strings.HasPrefix(snippet, "pipeline:"):
		return snippet
	case first == "sinks:":
		sinks = rest
	case strings.HasPrefix(first, kind+":"):
		sinks = "  snippet:\n" + indented("    ")
	case strings.HasPrefix(rest, "  "+kind+":"):
		sinks = indented("  ")
	default:
		return ""
	}
	if strings.Contains(sinks, "from: [records]") {
		sinks += "  records: { sqlite: { path: ./x.db, table: payment_records, key: [payment_id] } }\n"
	}
	return untyped + sinks
}
