package watch

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// watched is one sink under watch, worked on by one goroutine.
type watched struct {
	w    *Watcher
	name string
	feed Feed

	found    []effect   // seen, not yet compared with the offsets
	suspects []*suspect // at or beyond the offset

	mu   sync.Mutex
	seen Seen
}

// effect is one that was seen. Its offsets are those fetched right after it.
type effect struct {
	id     string
	after  offsets           // nil: not yet fetched
	states map[string]states // likewise
}

func (s *watched) run(ctx context.Context, stop <-chan struct{}) error {
	tick := time.NewTicker(s.w.cfg.Interval)
	defer tick.Stop()
	last := time.Now() // of a look that succeeded
	var ending time.Time
	for {
		if err := s.look(ctx); err == nil {
			last = time.Now()
		} else if time.Since(last) > s.w.cfg.Grace {
			return fmt.Errorf("watch sink %s: %w", s.name, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		select {
		case <-stop:
			if ending.IsZero() {
				ending = time.Now()
				continue // one more look: the last effects
			}
			if len(s.suspects)+len(s.found) == 0 || time.Since(ending) > s.w.cfg.Grace {
				s.giveUp()
				return nil
			}
		default:
		}
	}
}

// look is one round, in the order that the proof needs.
func (s *watched) look(ctx context.Context) error {
	n := len(s.found)
	err := s.feed.New(ctx, func(id string) { s.found = append(s.found, effect{id: id}) })
	s.count(func(seen *Seen) { seen.Looks++; seen.Effects += int64(len(s.found) - n) })
	if s.w.cfg.Blind {
		s.found = s.found[:0]
	}
	if err != nil || len(s.found)+len(s.suspects) == 0 {
		return err
	}
	now, err := s.w.committed(ctx)
	if err != nil {
		return err
	}
	ids := s.decide(now)
	if len(ids) == 0 {
		return nil
	}
	states, err := s.w.transactions(ctx, ids)
	if err != nil {
		return err
	}
	s.judge(now, states)
	s.accuse(states)
	return nil
}

// decide drops effects below the offsets, and gives the transactional ids that
// matter to the others.
func (s *watched) decide(now offsets) map[string]bool {
	ids := map[string]bool{}
	need := func(partition int32) {
		for _, id := range s.w.cfg.TxnIDs(partition) {
			ids[id] = true
		}
	}
	kept := s.found[:0]
	for _, e := range s.found {
		if e.after == nil {
			e.after = now
		}
		at, ok := s.w.cfg.Locate(e.id)
		if ok && at.Offset < e.after.of(at) {
			continue
		}
		if ok {
			need(at.Partition)
		} else {
			for _, parts := range now { // its place is not known yet
				for p := range parts {
					need(p)
				}
			}
		}
		kept = append(kept, e)
	}
	s.found = kept
	for _, sus := range s.suspects {
		need(sus.at.Partition)
	}
	return ids
}

// accuse makes suspects of the effects that are left and whose place is known.
func (s *watched) accuse(now map[string]states) {
	kept := s.found[:0]
	for _, e := range s.found {
		if e.states == nil {
			e.states = now
		}
		at, ok := s.w.cfg.Locate(e.id)
		switch {
		case !ok:
			kept = append(kept, e)
		case at.Offset >= e.after.of(at):
			s.suspects = append(s.suspects, &suspect{id: e.id, at: at, seen: s.w.task(e.states, at.Partition)})
			s.count(func(seen *Seen) { seen.Suspects++ })
		}
	}
	s.found = kept
}

func (s *watched) judge(now offsets, m map[string]states) {
	kept := s.suspects[:0]
	for _, sus := range s.suspects {
		switch v := sus.judge(now.of(sus.at), s.w.task(m, sus.at.Partition)); v {
		case open:
			kept = append(kept, sus)
		case undetermined:
			s.count(func(seen *Seen) { seen.Undetermined++ })
		case violation:
			s.convict(sus, "its transaction was ongoing, and decided only later")
		}
	}
	s.suspects = kept
}

// giveUp convicts what was never decided.
func (s *watched) giveUp() {
	for _, sus := range s.suspects {
		s.convict(sus, "its offset was never committed")
	}
	for _, e := range s.found {
		s.convict(&suspect{id: e.id}, "no source record gives it")
	}
	s.suspects, s.found = nil, nil
}

// firsts bounds how many violations are told in full.
const firsts = 20

func (s *watched) convict(sus *suspect, why string) {
	s.count(func(seen *Seen) {
		seen.Violations++
		if len(seen.First) < firsts {
			seen.First = append(seen.First, fmt.Sprintf("%s of %s-%d@%d: %s", sus.id, sus.at.Topic, sus.at.Partition, sus.at.Offset, why))
		}
	})
}

func (s *watched) count(fn func(*Seen)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(&s.seen)
}
