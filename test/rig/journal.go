//go:build services

package rig

import (
	"encoding/json"

	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/journal"
)

// WantSmallJournal wants the journal to list pending work, in records of at most
// 64 KiB.
func (p *Pipeline) WantSmallJournal() {
	p.T.Helper()
	largest, most := 0, 0
	p.Scan(p.Journal(), kgo.ReadCommitted(), func(r *kgo.Record) {
		var rec journal.Record
		if r.Attrs.IsControl() || json.Unmarshal(r.Value, &rec) != nil {
			return
		}
		largest, most = max(largest, len(r.Value)), max(most, len(rec.Pending))
	})
	p.T.Logf("journal records of at most %d bytes, with at most %d committables", largest, most)
	if largest == 0 || largest > 64<<10 || most == 0 {
		p.T.Errorf("journal records of at most %d bytes with at most %d committables, want some, and 64 KiB at most", largest, most)
	}
}
