package sqlite

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"exactly/sink"
)

// FuzzDeleteKey: whatever the key of a tombstone is, it names every key column
// or is refused.
func FuzzDeleteKey(f *testing.F) {
	for _, s := range []string{"", "x", "12", `"x"`, `{"a":1,"b":[2]}`, `[1,2]`, `[1,2,3]`, `[`, `{"a":1}`, "\xff", `"\ud800"`, ` [1,2]`, `[99999999999999999999,1e999]`} {
		f.Add([]byte(s), 1)
		f.Add([]byte(s), 2)
	}
	f.Fuzz(func(t *testing.T, key []byte, n int) {
		cols := []column{{"a", affinityInteger}, {"b", affinityNone}}
		if n%2 != 0 {
			cols = cols[:1]
		}
		vs, err := deleteKey(key, cols)
		if err == nil && len(vs) != len(cols) {
			t.Errorf("deleteKey(%q) gives %v for %d columns", key, vs, len(cols))
		}
		if err != nil && sink.Classify(err) != sink.ClassPoison {
			t.Errorf("deleteKey(%q) is %v, want poison: %v", key, sink.Classify(err), err)
		}
	})
}

// FuzzJSONValue: every JSON value becomes something that SQLite takes, or is
// refused, and integers come back as they were.
func FuzzJSONValue(f *testing.F) {
	for _, s := range []string{"1", "-9223372036854775809", "1.5e400", `"\u0000"`, "null", "true", "{}", "[1]", `"é"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !jsontext.Value(raw).IsValid() {
			return
		}
		v := jsontext.Value(raw)
		if v.Compact() != nil || len(v) == 0 {
			return
		}
		for a := affinityNone; a <= affinityReal; a++ {
			got, err := jsonValue(v, a)
			if err != nil {
				if sink.Classify(err) != sink.ClassPoison {
					t.Errorf("jsonValue(%s) is %v, want poison", v, sink.Classify(err))
				}
				continue
			}
			switch got.(type) {
			case nil, int64, string:
			default:
				t.Errorf("jsonValue(%s) is a %T", v, got)
			}
		}
	})
}

func TestAffinity(t *testing.T) {
	t.Parallel()
	for declared, want := range map[string]affinity{
		"": affinityNone, "BLOB": affinityNone, "any": affinityNone, "INTEGER NOT NULL": affinityInteger, "bigint": affinityInteger,
		"VARCHAR(20)": affinityText, "clob": affinityText, "REAL": affinityReal, "double precision": affinityReal,
		"DECIMAL(10,2)": affinityNumeric, "BOOLEAN": affinityNumeric, "TIMESTAMP": affinityNumeric, "CHARINT": affinityInteger,
	} {
		if got := affinityOf(declared); got != want {
			t.Errorf("affinityOf(%q) = %v, want %v", declared, got, want)
		}
	}
}
