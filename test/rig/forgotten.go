//go:build services

package rig

// Forgotten deletes the group with its offsets, and wants those back that it had once
// takeOver is done.
func (p *Pipeline) Forgotten(takeOver func()) {
	p.T.Helper()
	before, err := p.Admin.FetchOffsets(p.T.Context(), p.Group())
	Check(p.T, err)
	_, err = p.Admin.DeleteGroup(p.T.Context(), p.Group())
	Check(p.T, err)
	takeOver()
	after, err := p.Admin.FetchOffsets(p.T.Context(), p.Group())
	Check(p.T, err)
	for i := range int32(2) {
		b, _ := before.Lookup(p.Raw, i)
		a, ok := after.Lookup(p.Raw, i)
		if !ok || a.At != b.At {
			p.T.Errorf("offset of partition %d: %d before it was forgotten, %d (%t) after the takeover", i, b.At, a.At, ok)
		}
	}
}
