package watch

// txn identifies one transaction of a transactional id.
type txn struct {
	id    string
	pid   int64
	epoch int16
	start int64 // Unix milliseconds
}

// states is what the brokers say about a task's transactions at one moment.
type states struct {
	ongoing   map[txn]bool
	preparing bool // one is between its decision and its last marker
}

// verdict is what is known about an effect that was seen at or beyond the
// committed offset.
type verdict int

const (
	open verdict = iota
	cleared
	undetermined
	violation
)

// suspect is an effect seen at or beyond the committed offset.
type suspect struct {
	id     string
	at     Position
	first  states // taken after the effect and the offsets
	behind bool   // the offset had not passed it after first
}

// judge takes the next look: the committed offset, then the states.
func (s *suspect) judge(committed int64, now states) verdict {
	if committed <= s.at.Offset {
		s.behind = true
		return open
	}
	ended := false
	for t := range s.first.ongoing {
		ended = ended || !now.ongoing[t]
	}
	switch {
	case !ended: // also if none was Ongoing: it was decided
		return cleared
	case s.first.preparing || !s.behind:
		return undetermined
	}
	return violation
}
