package exercise

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
)

// TestRefusal: what proves itself is offered to --fresh, and the rest is refused with it
// as without, by name.
func TestRefusal(t *testing.T) {
	t.Parallel()
	id := func(b byte) kadm.TopicID { return kadm.TopicID{b} }
	n := note{Incarnation: "00000000000000aa"}
	n.made(Raw, id(1))
	n.made(own+"meta", id(2))
	n.made("old.broker", kadm.TopicID{})
	noted, err := n.comment()
	if err != nil {
		t.Fatal(err)
	}
	mine := []tableFound{{table, noted}, {orders, noted}}
	const fresh = "--fresh removes that"
	tests := []struct {
		name         string
		f            found
		plain, fresh string // parts of the refusals; "": none
		spares       string // not named
	}{
		{name: "nothing"},
		{name: "tables of an earlier run", f: found{tables: mine}, plain: fresh},
		{
			name:  "all of an earlier run",
			f:     found{tables: mine, topics: []topic{{Raw, id(1)}, {own + "meta", id(2)}}, marks: []string{"00000000000000aa"}},
			plain: fresh,
		},
		{
			name:  "one table of an earlier run",
			f:     found{tables: mine[:1], topics: []topic{{Raw, id(1)}}},
			plain: fresh,
		},
		{
			name: "a table of somebody else", f: found{tables: []tableFound{{table, "payments, since 2019"}}},
			plain: "(" + table + ")", fresh: "(" + table + ")", spares: "--fresh",
		},
		{
			name: "topics without tables", f: found{topics: []topic{{Raw, id(1)}}},
			plain: "(" + Raw + ")", fresh: "(" + Raw + ")", spares: "--fresh",
		},
		{
			name: "a topic that was made again", f: found{tables: mine, topics: []topic{{Raw, id(9)}, {own + "meta", id(2)}}},
			plain: "(" + Raw + ")", fresh: "(" + Raw + ")", spares: "meta",
		},
		{
			name: "an id under another name", f: found{tables: mine, topics: []topic{{Enriched, id(1)}}},
			plain: "(" + Enriched + ")", fresh: "(" + Enriched + ")",
		},
		{
			name: "topics that the run did not live to note", f: found{tables: mine, topics: []topic{{own + "g1.journal", id(3)}, {own + "g1.outbox", id(4)}}},
			plain: "g1.journal, exactly.payments.g1.outbox)", fresh: "remove them by hand", spares: "--fresh",
		},
		{
			name: "topics without ids", f: found{tables: mine, topics: []topic{{"old.broker", kadm.TopicID{}}}},
			plain: "(old.broker)", fresh: "(old.broker)",
		},
		{
			name: "a comment of an older version", f: found{tables: []tableFound{{table, madeHere}}, topics: []topic{{Raw, id(1)}}},
			plain: "(" + Raw + ")", fresh: "(" + Raw + ")", spares: table,
		},
		{
			name: "marks of another pipeline", f: found{tables: mine, marks: []string{"00000000000000aa", "00000000000000bb"}},
			plain: "IN ('00000000000000bb')", fresh: "IN ('00000000000000bb')", spares: "--fresh",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for fresh, want := range map[bool]string{false: tt.plain, true: tt.fresh} {
				got := ""
				if err := tt.f.refusal(fresh); err != nil {
					got = err.Error()
				}
				if (got == "") != (want == "") || !strings.Contains(got, want) || tt.spares != "" && strings.Contains(got, tt.spares) {
					t.Errorf("fresh %t: got %q, want %q and nothing of %q", fresh, got, want, tt.spares)
				}
			}
		})
	}
}
