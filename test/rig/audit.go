//go:build services

package rig

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"exactly/internal/payments"
)

// Row is one sink in the JSON report of `exactly audit`.
type Row struct {
	Sink       string `json:"sink"`
	Expected   int64  `json:"expected"`
	Total      int64  `json:"total"`
	Unique     int64  `json:"unique"`
	Missing    int64  `json:"missing"`
	Duplicate  int64  `json:"duplicate"`
	OutOfOrder int64  `json:"out_of_order"`
	Changed    int64  `json:"changed"`
	Unexpected int64  `json:"unexpected"`

	DeadLettered      int64 `json:"dead_lettered"`
	ConflictingWrites int64 `json:"conflicting_writes"`
	Findings          []struct {
		Kind, ID, Source, Place, Detail string
	} `json:"findings"`
}

// Report is the outcome of an audit.
type Report struct {
	Source int64 `json:"source"`
	Sinks  []Row `json:"sinks"`
}

// Sink gives what the audit says of one sink.
func (r Report) Sink(t *testing.T, name string) Row {
	t.Helper()
	for _, s := range r.Sinks {
		if s.Sink == name {
			return s
		}
	}
	t.Fatalf("the audit says nothing of sink %s", name)
	return Row{}
}

// Audit runs `exactly audit` and gives its exit code and report.
func (p *Pipeline) Audit() (int, Report) {
	p.T.Helper()
	q, file := *p, p.File
	if p.Auditor != nil {
		q.Brokers, q.Connection = p.Auditor.Brokers, p.Auditor.Lines
	}
	q.Sinks = slices.DeleteFunc(slices.Clone(p.Sinks), func(name string) bool { return !audited(name) })
	if p.Auditor != nil || len(q.Sinks) < len(p.Sinks) {
		file = q.WriteAs("audit.yaml")
	}
	args := []string{"audit", file, "--json"}
	if p.Has("partner") {
		args = append(args, "--listing", "partner="+p.URL)
	}
	code, out, errs := p.Command(args...)
	var r Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		p.T.Fatalf("exactly audit: exit code %d, %v\n%s%s", code, err, out, errs)
	}
	return code, r
}

// WantRight audits, and wants every sink to be right and to hold n records.
func (p *Pipeline) WantRight(n int64) {
	p.T.Helper()
	if p.Has("balances") {
		p.WantBalances()
	}
	p.wantInOrder()
	if !slices.ContainsFunc(p.Sinks, audited) {
		return
	}
	code, r := p.Audit()
	if code != 0 || r.Source < n {
		p.T.Errorf("audit: exit code %d, %d source records; want 0 and at least %d", code, r.Source, n)
	}
	for name, want := range p.rows(n) {
		s := r.Sink(p.T, name)
		p.T.Logf("audit of %s: expected %d, unique %d", name, s.Expected, s.Unique)
		if s.Expected != want || s.Unique != want {
			p.T.Errorf("audit of %s: expected %d, unique %d; want %d", name, s.Expected, s.Unique, want)
		}
		if bad := s.Missing + s.Duplicate + s.OutOfOrder + s.Changed + s.Unexpected + s.ConflictingWrites; bad != 0 {
			p.T.Errorf("audit of %s: %s", name, Text(s))
		}
	}
	if d := r.Sink(p.T, "dead letters"); d.Total != 0 {
		p.T.Errorf("dead letters: %s", Text(d))
	}
}

// wantInOrder wants rows that are only ever added to stand in the order of each source
// partition. The audit cannot: a table does not say when a row was written, but for the
// identity column that the tables of a test have.
func (p *Pipeline) wantInOrder() {
	p.T.Helper()
	type place struct {
		partition int32
		offset    int64
	}
	var source map[string]place // of payments
	for table, sink := range map[string]string{"appended": "appended", "staged_log": "staged_log", "balances_log": "balances"} {
		if !p.Has(sink) {
			continue
		}
		if source == nil {
			source = map[string]place{}
			for _, r := range p.Read(p.Raw) {
				var in struct {
					ID string `json:"payment_id"`
				}
				if json.Unmarshal(r.Value, &in) == nil {
					source[in.ID] = place{r.Partition, r.Offset}
				}
			}
		}
		last, rows, wrong := map[int32]int64{}, 0, 0
		for _, id := range p.inPlace(table) {
			at, known := source[id]
			if before, any := last[at.partition]; any && at.offset <= before || !known {
				wrong++
			}
			last[at.partition] = at.offset
			rows++
		}
		p.T.Logf("%s: %d rows, %d behind a later one of their source partition", table, rows, wrong)
		if wrong > 0 || rows == 0 {
			p.T.Errorf("%s: %d of %d rows stand behind a later one of their source partition", table, wrong, rows)
		}
	}
}

// inPlace gives the payments of a table in the order of their rows.
func (p *Pipeline) inPlace(table string) (ids []string) {
	p.T.Helper()
	c, err := pgx.Connect(p.T.Context(), p.DSN)
	Check(p.T, err)
	defer func() { _ = c.Close(p.T.Context()) }()
	rows, err := c.Query(p.T.Context(), "SELECT payment_id::text FROM "+table+" ORDER BY place")
	Check(p.T, err)
	ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
	Check(p.T, err)
	return ids
}

// audited: what a statement does the audit cannot know, and refuses it.
func audited(sink string) bool { return sink != "balances" }

// rows are those of the report, and how many records each is to have after n
// payments.
func (p *Pipeline) rows(n int64) map[string]int64 {
	rows := map[string]int64{}
	for _, name := range p.Sinks {
		switch {
		case name == "paired":
			rows["paired: paired"], rows["paired: paired_entries"] = n, 2*n
		case audited(name):
			rows[name] = n
		}
	}
	if p.Totals != "" {
		rows["totals"] = min(n, payments.Merchants)
	}
	return rows
}

// Text is a row for messages and comparisons.
func Text(r Row) string { return fmt.Sprintf("%+v", r) }
