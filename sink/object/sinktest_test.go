package object_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"exactly/record"
	"exactly/sink"
	"exactly/sink/object"
	"exactly/sinktest"
)

var variants = map[string]object.Config{
	"jsonl":       {},
	"gzip":        {Compression: "gzip", Envelope: true, Roll: object.Roll{Epoch: true}},
	"zstd":        {Compression: "zstd", Roll: object.Roll{Size: 200}},
	"parquet":     {Format: "parquet", Schema: map[string]string{"id": "string", "value": "int64", "extra": "string"}},
	"partitioned": {MaxOpen: 2},
}

func TestConformance(t *testing.T) {
	names := []string{}
	for name := range variants {
		names = append(names, name)
	}
	sinktest.Run(t, sinktest.Subject{Variants: names, Rounds: 15, Large: 3000, Open: conformanceTarget})
}

func conformanceTarget(t sinktest.TB, variant string) sinktest.Target {
	c := variants[variant]
	c.URL = "file://" + filepath.ToSlash(t.TempDir())
	var d object.Deps
	if variant == "partitioned" {
		d.Folder = func(r *record.Record) (string, error) { return "k=" + string(r.Key[len(r.Key)-1:]), nil }
	}
	return sinktest.Target{
		New: func(t sinktest.TB) sink.Sink {
			s, err := object.New("out", c, d)
			if err != nil {
				t.Fatalf("New: %v", err)
			}
			return s
		},
		Read: func(t sinktest.TB) []sinktest.Row { return conformanceRows(t, c) },
		Poison: func(s sinktest.Spec) record.Record {
			r := sinktest.Make(s)
			r.Value = []byte(`{"id":"` + strings.Repeat("x", 3) + `"`) // cut off
			return r
		},
	}
}

func conformanceRows(t sinktest.TB, c object.Config) []sinktest.Row {
	var rows []sinktest.Row
	for row, err := range object.Rows(t.Context(), c.URL, object.ReadOptions{Envelope: c.Envelope}) {
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		var v struct {
			ID, Extra string
			Value     int64
		}
		if err := json.Unmarshal(row.Value, &v); err != nil {
			t.Fatalf("%s: %v", row.File, err)
		}
		rows = append(rows, sinktest.Row{ID: v.ID, Value: v.Value, Extra: v.Extra})
	}
	return rows
}
