package audit

import "testing"

// A record that the sink refused takes no part in what its row must be.
func TestRefusedInAGroup(t *testing.T) {
	t.Parallel()
	id, v1, v2 := sum([]byte("id")), sum([]byte("v1")), sum([]byte("v2"))
	for name, c := range map[string]struct {
		mode    Mode
		refused []int // of the two records of the row, v1 and v2
		holds   []hash
		want    Row
	}{
		"last refused, first held":          {Latest, []int{1}, []hash{v1}, Row{Expected: 1, Unique: 1, DeadLettered: 1}},
		"last refused, row missing":         {Latest, []int{1}, nil, Row{Expected: 1, Missing: 1, DeadLettered: 1}},
		"last refused, and held":            {Latest, []int{1}, []hash{v2}, Row{Expected: 1, Unique: 1, Unexpected: 1, Missing: 1}},
		"first refused, last held":          {Latest, []int{0}, []hash{v2}, Row{Expected: 1, Unique: 1, DeadLettered: 1}},
		"first refused, of the first":       {Once, []int{0}, []hash{v2}, Row{Expected: 1, Unique: 1, DeadLettered: 1}},
		"both refused, none held":           {Latest, []int{0, 1}, nil, Row{DeadLettered: 2}},
		"both refused, another held":        {Latest, []int{0, 1}, []hash{sum([]byte("v3"))}, Row{DeadLettered: 2, Unexpected: 1}},
		"every, one refused":                {Every, []int{1}, []hash{v1}, Row{Expected: 1, Unique: 1, DeadLettered: 1}},
		"every, one refused, other missing": {Every, []int{1}, nil, Row{Expected: 1, Missing: 1, DeadLettered: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &sinkState{name: "s", canon: newCanon(Shape{}, nil)}
			s.table.mode = c.mode
			s.table.add(entry{id: id, value: v1, offset: 1})
			s.table.add(entry{id: id, value: v2, offset: 2})
			s.table.seal()
			dead := &deadLetters{letters: map[deadKey]int64{}}
			for _, n := range c.refused {
				dead.letters[deadKey{offset: int64(n + 1), sink: "s"}]++
			}
			dead.mark(s)
			row := Row{kinds: map[Kind]int{}}
			cmp := comparison{sink: s, row: &row, parts: []partition{{"t", 0}}, last: map[streamPart]place{}, orphan: map[hash]int64{}}
			for _, v := range c.holds {
				h := &Held{}
				if c.mode == Every {
					cmp.every(h, []byte("id"), v, s.table.find(id))
				} else {
					cmp.one(h, []byte("id"), v, s.table.find(id))
				}
			}
			cmp.finish()
			got := Row{Expected: row.Expected, Unique: row.Unique, Missing: row.Missing, Unexpected: row.Unexpected, Changed: row.Changed, Duplicate: row.Duplicate, DeadLettered: row.DeadLettered}
			if got.Expected != c.want.Expected || got.Unique != c.want.Unique || got.Missing != c.want.Missing || got.Unexpected != c.want.Unexpected ||
				got.Changed != c.want.Changed || got.Duplicate != c.want.Duplicate || got.DeadLettered != c.want.DeadLettered {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// A missing row has no place: the finding names the table where a sink has several.
func TestMissingNamesTheTable(t *testing.T) {
	t.Parallel()
	s := &sinkState{name: "orders", sink: Sink{Name: "orders", Table: "order_lines"}, canon: newCanon(Shape{}, nil)}
	s.table.add(entry{id: sum([]byte("id")), offset: 208})
	s.table.seal()
	row := Row{kinds: map[Kind]int{}}
	c := comparison{sink: s, row: &row, limit: 1, parts: []partition{{"payments.raw", 0}}, orphan: map[hash]int64{}}
	c.finish()
	if len(row.Findings) != 1 {
		t.Fatalf("got findings %v, want one", row.Findings)
	}
	if got, want := row.Findings[0].String(), "orders: order_lines: missing from payments.raw-0@208"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
