package sqlite

import (
	"strings"
	"testing"
)

func TestSchemaIsTried(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, def string
		key       []string
		want      string
	}{
		{"plain", "TEXT", []string{"id"}, ""},
		{"primary key said twice", "TEXT PRIMARY KEY", []string{"id"}, ""},
		{"no such syntax", "TEXT NOT NOT", []string{"id"}, "schema: SQLite does not take it"},
		{"key is no column", "TEXT", []string{"other"}, "other"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := New("rows", Config{Path: "x.db", Table: "t", Key: tc.key, Create: true, Schema: map[string]string{"id": tc.def}})
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("got %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %q in it", err, tc.want)
			}
		})
	}
}
