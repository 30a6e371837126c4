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
	id string
	at Position
	// seen are states taken after the effect was seen, when nothing that was
	// undecided then had been decided yet.
	seen states
	// settled: at one moment after the effect was seen, no transaction was being
	// committed, and afterwards the offset was still behind. So whatever decides
	// the effect was decided later.
	settled bool
}

// judge takes the next look: the committed offset, then the states.
func (s *suspect) judge(committed int64, now states) verdict {
	ended := false
	for t := range s.seen.ongoing {
		ended = ended || !now.ongoing[t]
	}
	if committed <= s.at.Offset {
		s.settled = s.settled || !s.seen.preparing
		if !ended { // the later the states, the shorter the time that is left to doubt
			s.seen = now
		}
		return open
	}
	switch {
	case !ended: // also if none was Ongoing: it was decided
		return cleared
	case s.settled:
		return violation
	}
	return undetermined
}
