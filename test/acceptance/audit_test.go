//go:build services

package acceptance

import (
	"encoding/json"
	"fmt"
	"testing"
)

// row is one sink in the JSON report of `exactly audit`.
type row struct {
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

// report is the outcome of an audit.
type report struct {
	Source int64 `json:"source"`
	Sinks  []row `json:"sinks"`
}

func (r report) sink(t *testing.T, name string) row {
	t.Helper()
	for _, s := range r.Sinks {
		if s.Sink == name {
			return s
		}
	}
	t.Fatalf("the audit says nothing of sink %s", name)
	return row{}
}

// audit runs `exactly audit` and gives its exit code and report.
func (p *pipeline) audit() (int, report) {
	p.t.Helper()
	file := p.file
	if p.auditor != nil {
		q := *p
		q.Brokers, q.Connection = p.auditor.brokers, p.auditor.lines
		file = q.writeAs("audit.yaml")
	}
	args := []string{"audit", file, "--json"}
	if p.Has("partner") {
		args = append(args, "--listing", "partner="+p.URL)
	}
	code, out, errs := p.command(args...)
	var r report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		p.t.Fatalf("exactly audit: exit code %d, %v\n%s%s", code, err, out, errs)
	}
	return code, r
}

// wantRight audits, and wants every sink to be right and to hold n records.
func (p *pipeline) wantRight(n int64) {
	p.t.Helper()
	code, r := p.audit()
	if code != 0 || r.Source < n {
		p.t.Errorf("audit: exit code %d, %d source records; want 0 and at least %d", code, r.Source, n)
	}
	for _, name := range p.Sinks {
		s := r.sink(p.t, name)
		p.t.Logf("audit of %s: expected %d, unique %d", name, s.Expected, s.Unique)
		if s.Expected != n || s.Unique != n {
			p.t.Errorf("audit of %s: expected %d, unique %d; want %d", name, s.Expected, s.Unique, n)
		}
		if bad := s.Missing + s.Duplicate + s.OutOfOrder + s.Changed + s.Unexpected + s.ConflictingWrites; bad != 0 {
			p.t.Errorf("audit of %s: %s", name, text(s))
		}
	}
	if d := r.sink(p.t, "dead letters"); d.Total != 0 {
		p.t.Errorf("dead letters: %s", text(d))
	}
}

func text(r row) string { return fmt.Sprintf("%+v", r) }
