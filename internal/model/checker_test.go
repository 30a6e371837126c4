package model

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"exactly/internal/epoch"
	"exactly/internal/journal"
	"exactly/sink"
)

// feed gives a trace to a checker.
func feed(steps []step, broker bool) (*Checker, error) {
	c := NewChecker(Config{Incarnation: "i", Generation: 1, Staging: true, Broker: broker})
	for _, s := range steps {
		var err error
		switch what := s.what.(type) {
		case epoch.Event:
			err = c.Event(s.owner, what)
		case epoch.Action:
			err = c.Action(s.owner, what)
		case *journal.Record:
			if broker {
				err = c.Committed(s.owner, what)
			}
		case epoch.Producer:
			switch {
			case !broker:
			case s.owner == 0:
				err = c.Aborted(what)
			default:
				err = c.Fenced(s.owner, what)
			}
		}
		if err != nil {
			return c, err
		}
	}
	return c, nil
}

// TestTracesOfMachines: what the real state machine does is allowed, with what
// the broker did and without.
func TestTracesOfMachines(t *testing.T) {
	t.Parallel()
	steps, decided, attempts := 0, 0, 0
	for seed := range uint64(150) {
		trace := record(seed, seed%4 == 0)
		for _, broker := range []bool{true, false} {
			if _, err := feed(trace, broker); err != nil {
				t.Fatalf("seed %d, broker %t: %v", seed, broker, err)
			}
		}
		steps += len(trace)
		for _, s := range trace {
			if r, ok := s.what.(*journal.Record); ok && r.Claim {
				attempts++
			} else if ok {
				decided++
			}
		}
	}
	if decided < 1000 || attempts < 300 {
		t.Errorf("%d epochs and %d takeovers are too few to show anything", decided, attempts)
	}
	t.Logf("%d steps, %d epochs, %d takeovers", steps, decided, attempts)
}

// forgery changes a trace at one place; false: this trace has no such place.
type forgery struct {
	name string
	do   func([]step) ([]step, bool)
	// broker: only what the broker did gives it away.
	broker bool
}

// replace changes the first step that f gives something for.
func replace[T any](f func(T) (any, bool)) func([]step) ([]step, bool) {
	return func(steps []step) ([]step, bool) {
		for i, s := range steps {
			if what, ok := s.what.(T); ok {
				if forged, ok := f(what); ok {
					out := slices.Clone(steps)
					out[i].what = forged
					return out, true
				}
			}
		}
		return nil, false
	}
}

// without drops the first step that f finds, and that has consequences.
func without[T any](f func(T) bool) func([]step) ([]step, bool) {
	return func(steps []step) ([]step, bool) {
		for i, s := range steps {
			if what, ok := s.what.(T); ok && f(what) && answered(steps[i+1:], s.owner) {
				return slices.Delete(slices.Clone(steps), i, i+1), true
			}
		}
		return nil, false
	}
}

// answered: the next thing that the owner is told is no failure.
func answered(steps []step, id int) bool {
	for _, s := range steps {
		if ev, ok := s.what.(epoch.Event); ok && s.owner == id {
			_, failed := ev.(epoch.Failed)
			return !failed
		}
	}
	return false
}

// twice repeats the first step that f finds.
func twice[T any](f func(T) bool) func([]step) ([]step, bool) {
	return func(steps []step) ([]step, bool) {
		for i, s := range steps {
			if what, ok := s.what.(T); ok && f(what) {
				return slices.Insert(slices.Clone(steps), i, s), true
			}
		}
		return nil, false
	}
}

// early moves the first step that f finds in front of the owner's last step of
// another kind.
func early[T, U any](f func(T, U) bool) func([]step) ([]step, bool) {
	return func(steps []step) ([]step, bool) {
		for i, s := range steps {
			what, ok := s.what.(T)
			for j := i - 1; ok && j >= 0; j-- {
				if before, isU := steps[j].what.(U); isU && steps[j].owner == s.owner && f(what, before) {
					out := slices.Delete(slices.Clone(steps), i, i+1)
					return slices.Insert(out, j, s), true
				}
			}
		}
		return nil, false
	}
}

func anyOf[T any](T) bool { return true }

func forgeries() []forgery {
	changed := func(r *journal.Record, f func(*journal.Record)) *journal.Record {
		c := r.Clone()
		f(c)
		return c
	}
	journals := func(when func(*journal.Record) bool, f func(*journal.Record)) func([]step) ([]step, bool) {
		return replace(func(a epoch.Journal) (any, bool) {
			if !when(a.Record) {
				return nil, false
			}
			a.Record = changed(a.Record, f)
			return a, true
		})
	}
	claims := func(when func(*journal.Record) bool, f func(*journal.Record)) func([]step) ([]step, bool) {
		return replace(func(a epoch.Claim) (any, bool) {
			if !when(a.Record) {
				return nil, false
			}
			a.Record = changed(a.Record, f)
			return a, true
		})
	}
	pending := func(r *journal.Record) bool { return len(r.Pending) > 0 }
	committed := func(r *journal.Record) bool { return len(r.Committed) > 0 }
	far := func(r *journal.Record) bool { return r.Epoch > 0 }
	return []forgery{
		{name: "a journal record forgets a committable", do: journals(pending, func(r *journal.Record) { r.Pending = r.Pending[1:] })},
		{name: "a journal record forgets what was committed", do: journals(committed, func(r *journal.Record) { r.Committed = nil })},
		{name: "a claim forgets what was committed", do: claims(committed, func(r *journal.Record) { r.Committed = nil })},
		{name: "a journal record forgets a cursor", do: journals(far, func(r *journal.Record) { delete(r.Cursors, "rows") })},
		{name: "a journal record skips an epoch", do: journals(far, func(r *journal.Record) { r.Epoch++ })},
		{name: "a journal record of another attempt", do: journals(far, func(r *journal.Record) { r.Attempt++ })},
		{name: "a journal record with other offsets", do: journals(far, func(r *journal.Record) { r.Sources = nil })},
		{name: "a claim forgets a committable", do: claims(pending, func(r *journal.Record) { r.Pending = r.Pending[1:] })},
		{name: "a claim forgets the cursors", do: claims(func(r *journal.Record) bool { return r.Cursors["rows"] != nil && !r.Cursors["rows"].Pos.IsZero() }, func(r *journal.Record) {
			for _, c := range r.Cursors {
				c.Pos, c.Offset = sink.Pos{}, 0
			}
		})},
		{name: "a claim goes back", do: claims(far, func(r *journal.Record) { r.Epoch-- })},
		{name: "a claim counts no attempt", do: claims(far, func(r *journal.Record) { r.Attempt-- })},
		{name: "another generation", do: claims(far, func(r *journal.Record) { r.Generation++ })},
		{name: "another incarnation", do: claims(far, func(r *journal.Record) { r.Incarnation = "j" })},
		{name: "a verdict is dropped", do: replace(func(a epoch.Journal) (any, bool) {
			if len(a.Verdicts) == 0 {
				return nil, false
			}
			a.Verdicts = a.Verdicts[1:]
			return a, true
		})},
		{name: "a verdict comes twice", do: replace(func(a epoch.Journal) (any, bool) {
			if len(a.Verdicts) == 0 {
				return nil, false
			}
			a.Verdicts = append(slices.Clone(a.Verdicts), a.Verdicts[0])
			return a, true
		})},
		{name: "the outbox is trimmed too far", do: replace(func(a epoch.Trim) (any, bool) { return epoch.Trim{Offset: a.Offset + 1}, true })},
		{name: "a cursor moves over what is not decided", do: replace(func(e epoch.Applied) (any, bool) {
			e.Cursor.Pos.Epoch += 2
			return e, true
		})},
		{name: "a cursor moves back", do: cursorBack},
		{name: "a file is staged without a cursor", do: replace(func(e epoch.Staged) (any, bool) {
			e.Cursor.Pos = e.Pending[0].From
			return e, true
		})},
		{name: "the sweep keeps what is not pending", do: replace(func(a epoch.Sweep) (any, bool) {
			return epoch.Sweep{Keep: append(slices.Clone(a.Keep), journal.Pending{Offset: 1})}, true
		})},
		{name: "recovery leaves something out", do: replace(func(a epoch.Recover) (any, bool) {
			if len(a.Pending) == 0 {
				return nil, false
			}
			return epoch.Recover{Pending: a.Pending[1:]}, true
		})},
		{name: "the end is asked for twice", do: twice(anyOf[epoch.End])},
		{name: "an epoch is published twice", do: twice(anyOf[epoch.Publish])},
		{name: "work is committed twice", do: twice(anyOf[epoch.Commit])},
		{name: "an epoch is decided twice", do: twice(anyOf[epoch.Decided])},
		{name: "no flush", do: without(anyOf[epoch.Flush])},
		{name: "no fence of b", do: without(func(a epoch.Fence) bool { return a.Producer == epoch.B })},
		{name: "no verification", do: without(anyOf[epoch.Verify])},
		{name: "no recovery", do: without(anyOf[epoch.Recover])},
		{name: "no sweep", do: without(anyOf[epoch.Sweep])},
		{name: "the journal is read before b is fenced", do: early(func(epoch.ReadJournal, epoch.Fence) bool { return true })},
		{name: "the end before the journal record is there", do: early(func(a epoch.End, e epoch.Journaled) bool { return a.Epoch == e.Epoch })},
		{name: "the end before the offsets are there", do: early(func(a epoch.End, e epoch.OffsetsSent) bool { return a.Epoch == e.Epoch })},
		{name: "published before the decision", do: early(func(a epoch.Publish, e epoch.Decided) bool { return a.Epoch == e.Epoch })},
		{name: "committed before the decision", do: early(func(a epoch.Commit, e epoch.Decided) bool { return a.Items[0].Epoch == e.Epoch })},
		{name: "begun before the records in front were acknowledged", do: early(func(a epoch.Begin, e epoch.Flushed) bool { return a.Epoch == e.Epoch+1 })},
		{name: "something after the end", do: func(steps []step) ([]step, bool) {
			for i, s := range steps {
				if _, ok := s.what.(epoch.Over); ok {
					return slices.Insert(slices.Clone(steps), i+1, step{s.owner, "asks for", epoch.Fence{}}), true
				}
			}
			return nil, false
		}},
		{name: "an old record is read", do: oldRead},
		{name: "a claim after the seal", do: afterSeal},
		{name: "an owner is told of a fence that was not", broker: true, do: without(anyOf[epoch.Producer])},
		{name: "an owner is told of a decision that was not", broker: true, do: without(func(r *journal.Record) bool { return !r.Claim })},
		{name: "an owner is told of a claim that was not", broker: true, do: without(func(r *journal.Record) bool { return r.Claim })},
		{name: "a decision after a fence", broker: true, do: zombieDecides},
	}
}

// cursorBack lets the second report of an owner take the first one back.
func cursorBack(steps []step) ([]step, bool) {
	seen := map[int]bool{}
	for i, s := range steps {
		if e, ok := s.what.(epoch.Applied); ok {
			if seen[s.owner] {
				out := slices.Clone(steps)
				out[i].what = epoch.Applied{Sink: e.Sink}
				return out, true
			}
			seen[s.owner] = true
		}
	}
	return nil, false
}

// oldRead lets a takeover read the record before the last.
func oldRead(steps []step) ([]step, bool) {
	var log []*journal.Record
	for i, s := range steps {
		switch what := s.what.(type) {
		case *journal.Record:
			log = append(log, what)
		case epoch.Read:
			if n := slices.Index(log, what.Record); n > 0 && !log[n-1].Same(what.Record) {
				out := slices.Clone(steps)
				out[i].what = epoch.Read{Record: log[n-1], Offset: what.Offset - 1}
				return out, true
			}
		}
	}
	return nil, false
}

// afterSeal lets a worker claim after it read a sealed record.
func afterSeal(steps []step) ([]step, bool) {
	for i, s := range steps {
		read, ok := s.what.(epoch.Read)
		if !ok || read.Record == nil || !read.Record.Sealed || i+1 >= len(steps) {
			continue
		}
		if _, ends := steps[i+1].what.(epoch.Over); ends {
			c := read.Record.Clone()
			c.Attempt, c.Claim, c.Sealed = c.Attempt+1, true, false
			out := slices.Clone(steps[:i+2])
			out[i+1].what = epoch.Claim{Record: c}
			return out, true
		}
	}
	return nil, false
}

// zombieDecides moves a commit behind the fence of the next owner.
func zombieDecides(steps []step) ([]step, bool) {
	for i, s := range steps {
		r, ok := s.what.(*journal.Record)
		if !ok || r.Claim {
			continue
		}
		for j := i + 1; j < len(steps); j++ {
			if p, ok := steps[j].what.(epoch.Producer); ok && steps[j].owner != s.owner && p == epoch.Of(r.Epoch) {
				out := slices.Insert(slices.Clone(steps), j+1, s)
				return slices.Delete(out, i, i+1), true
			}
			if e, ok := steps[j].what.(epoch.Decided); ok && steps[j].owner == s.owner && e.Epoch == r.Epoch {
				break
			}
		}
	}
	return nil, false
}

// TestForgedTraces: a trace that was changed at one place must be refused, with
// its tail.
func TestForgedTraces(t *testing.T) {
	t.Parallel()
	for _, f := range forgeries() {
		t.Run(strings.ReplaceAll(f.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			tried, refused := 0, 0
			for seed := uint64(0); seed < 100 && tried < 20; seed++ {
				forged, ok := f.do(record(seed, seed%4 == 0))
				if !ok {
					continue
				}
				tried++
				_, err := feed(forged, true)
				if err == nil || !errors.Is(err, errNotAllowed) {
					t.Errorf("seed %d: got %v", seed, err)
					continue
				}
				if !strings.Contains(err.Error(), "asks for") && !strings.Contains(err.Error(), "is told") {
					t.Errorf("seed %d: no trace in %v", seed, err)
				}
				if _, err := feed(forged, false); err != nil {
					refused++
				}
			}
			if tried == 0 {
				t.Fatal("no trace has such a place")
			}
			if !f.broker && refused != tried {
				t.Errorf("without the broker's truth %d of %d were refused", refused, tried)
			}
		})
	}
}

// TestErrorStays: after the first refusal nothing else is looked at.
func TestErrorStays(t *testing.T) {
	t.Parallel()
	c := NewChecker(Config{})
	first := c.Action(1, epoch.Fence{})
	if first == nil || c.Event(2, epoch.Start{}) == nil || c.Err() == nil || c.Steps() != 1 {
		t.Errorf("got %v, then %v after %d steps", first, c.Err(), c.Steps())
	}
}
