package config_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"exactly/internal/config"
)

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := config.JSONSchema(kinds())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(config.SchemaID, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(config.SchemaID)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func valid(t *testing.T, s *jsonschema.Schema, text []byte) error {
	t.Helper()
	j, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(j))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(doc)
}

// TestSchemaTakesGoodFiles: what Parse accepts, the schema accepts.
func TestSchemaTakesGoodFiles(t *testing.T) {
	t.Parallel()
	s := compileSchema(t)
	files, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := valid(t, s, data); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestSchemaRefuses: mistakes of shape are found by editors too.
func TestSchemaRefuses(t *testing.T) {
	t.Parallel()
	s := compileSchema(t)
	for _, prefix := range []string{
		"unknown-", "missing-", "word-for-", "list-", "quoted-number", "two-", "no-kind", "empty-step", "duration-without-unit",
		"negative-", "out-of-range", "sasl-unknown", "steps-mapping", "bad-pipeline-name", "bad-sink-name", "null-block",
	} {
		files, err := filepath.Glob("testdata/malformed/" + prefix + "*.yaml")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files, %v", prefix, err)
		}
		for _, path := range files {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			name := filepath.Base(path)
			if strings.HasPrefix(name, "unknown-variable") || strings.HasPrefix(name, "unknown-anchor") || name == "missing-file.yaml" {
				continue // needs the environment, or is no YAML
			}
			if err := valid(t, s, data); err == nil {
				t.Errorf("%s is accepted by the schema", name)
			}
		}
	}
}

// TestTagsAreChecked: a mistake in the description of a sink is found by the
// first Parse, not by a user.
func TestTagsAreChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		sink any
		want string
	}{
		{"no pointer", kafkaSink{}, "not a pointer"},
		{"nil", nil, "not a pointer"},
		{"no struct", new(int), "int is not a struct"},
		{"no doc", &struct {
			A string `yaml:"a"`
		}{}, `setting "a" has no doc`},
		{"default", &struct {
			A int `yaml:"a" default:"x" doc:"d"`
		}{}, "invalid syntax"},
		{"enum", &struct {
			A string `yaml:"a" default:"x" enum:"y|z" doc:"d"`
		}{}, `"x" is not in the enum`},
		{"min", &struct {
			A int64 `yaml:"a" unit:"bytes" min:"1XB" doc:"d"`
		}{}, `there is no unit "XB"`},
		{"type", &struct {
			A chan int `yaml:"a" doc:"d"`
		}{}, "chan int are not supported"},
		{"pattern", &struct {
			A string `yaml:"a" pattern:"(" doc:"d"`
		}{}, "pattern"},
		{"expr", &struct {
			A string `yaml:"a" expr:"text" doc:"d"`
		}{}, `there is no type "text"`},
		{"default of a map", &struct {
			A map[string]string `yaml:"a" default:"x" doc:"d"`
		}{}, "default: not for"},
		{"nested", &struct {
			A struct {
				B string `yaml:"b"`
			} `yaml:"a" doc:"d"`
		}{}, `setting "b" has no doc`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Parse("p.yaml", []byte(config.Template()), config.Kinds{"x": c.sink}, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) || config.List(err) != nil {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestCodesAreUnique(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range config.Codes() {
		if seen[c.Code] || c.Title == "" || len(c.Text) < 40 || !strings.HasPrefix(c.Code, "config_") {
			t.Errorf("%+v", c)
		}
		seen[c.Code] = true
	}
}
