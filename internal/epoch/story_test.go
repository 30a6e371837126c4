package epoch

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"exactly/internal/journal"
	"exactly/sink"
)

// TestStories replays the crash stories of testdata: each line under "tell" is
// an event, and below the dashes stands what the machine wants done. They are
// meant to be read; -rewrite writes the answers anew.
func TestStories(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &story{t: t}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "machine":
				cfg := Config{Incarnation: "i1", Pipeline: "pay", Generation: 1, Staging: d.HasArg("staging"), Seal: d.HasArg("seal")}
				if d.HasArg("outbox") {
					var names string
					d.ScanArgs(t, "outbox", &names)
					cfg.Outbox = strings.Split(names, "+")
				}
				if d.HasArg("max-pending") {
					d.ScanArgs(t, "max-pending", &cfg.MaxPending)
				}
				s.m = New(cfg)
				return ""
			case "tell":
				return s.tell(d.Input)
			}
			d.Fatalf(t, "unknown command %s", d.Cmd)
			return ""
		})
	})
}

// story drives one machine.
type story struct {
	t   *testing.T
	m   *Machine
	out strings.Builder
}

func (s *story) tell(input string) string {
	s.out.Reset()
	for _, line := range strings.Split(strings.TrimSpace(input), "\n") {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		fmt.Fprintf(&s.out, "%s\n", strings.Join(f, " "))
		switch f[0] {
		case "takeover":
			s.takeover(f[1:])
		case "epoch":
			n := s.int(f[1])
			for _, ev := range []Event{
				Fill{},
				Barrier{Sources: s.sources(n)},
				Flushed{Epoch: n, Tail: s.tail(n)},
				Prepared{Epoch: n},
				Journaled{Epoch: n},
				OffsetsSent{Epoch: n},
				Decided{Epoch: n},
			} {
				if _, ok := ev.(Prepared); ok && !s.m.cfg.Staging {
					continue
				}
				s.step(ev)
			}
		default:
			s.step(s.event(f))
		}
	}
	return s.out.String()
}

func (s *story) int(v string) int64 {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *story) sources(n int64) []journal.Source {
	return []journal.Source{{Topic: "raw", ID: "t1", Partitions: []journal.Partition{{Offset: n * 10}}}}
}

func (s *story) tail(n int64) journal.Tail {
	return journal.Tail{Pos: sink.Pos{Epoch: n, Index: 9}, Offset: n * 100, Bytes: n * 1000}
}

// record builds what a journal holds from words like epoch=5 attempt=2
// pending=db:4:1,files:5:2 cursor=rows:4 sealed claim.
func (s *story) record(words []string) *journal.Record {
	r := &journal.Record{Format: 1, Incarnation: "i1", Pipeline: "pay", Generation: 1, Attempt: 1, Cursors: map[string]*journal.Cursor{}}
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		switch k {
		case "epoch":
			r.Epoch = s.int(v)
		case "attempt":
			r.Attempt = s.int(v)
		case "sealed":
			r.Sealed = true
		case "claim":
			r.Claim = true
		case "incarnation":
			r.Incarnation = v
		case "pending":
			for _, p := range strings.Split(v, ",") {
				r.Pending = append(r.Pending, s.pending(p))
			}
		case "cursor":
			for _, c := range strings.Split(v, ",") {
				name, at, _ := strings.Cut(c, ":")
				n := s.int(at)
				r.Cursors[name] = &journal.Cursor{Pos: sink.Pos{Epoch: n, Index: 9}, Offset: n * 100}
			}
		}
	}
	r.Sources, r.Tail = s.sources(r.Epoch), s.tail(r.Epoch)
	return r
}

// pending parses SINK:EPOCH:ATTEMPT; a sink named files is an outbox stager.
func (s *story) pending(w string) journal.Pending {
	f := strings.Split(w, ":")
	n := s.int(f[1])
	p := journal.Pending{Committable: sink.Committable{Sink: f[0], Epoch: n, Attempt: s.int(f[2]), Data: []byte(w)}}
	if f[0] == "files" {
		p.From, p.Through, p.Offset = sink.Pos{Epoch: n - 1, Index: 9}, sink.Pos{Epoch: n, Index: 9}, (n-1)*100
	}
	return p
}

func (s *story) event(f []string) Event {
	arg := func(i int) int64 { return s.int(f[i]) }
	switch f[0] {
	case "start":
		return Start{}
	case "fenced":
		return Fenced{Producer: map[string]Producer{"a": A, "b": B}[f[1]]}
	case "read":
		if f[1] == "none" {
			return Read{}
		}
		return Read{Record: s.record(f[1:]), Offset: 7}
	case "resolved":
		return Resolved{Record: &journal.Record{Sources: s.sources(0), Tail: journal.Tail{Offset: 3}}}
	case "claimed":
		return Claimed{}
	case "verified":
		return Verified{Undisturbed: true}
	case "disturbed":
		return Verified{}
	case "recovered":
		return Recovered{}
	case "swept":
		return Swept{}
	case "opened":
		return Opened{}
	case "fill":
		return Fill{}
	case "barrier":
		return Barrier{Sources: s.sources(s.m.next)}
	case "flushed":
		return Flushed{Epoch: arg(1), Tail: s.tail(arg(1))}
	case "prepared":
		ev := Prepared{Epoch: arg(1)}
		for _, name := range f[2:] {
			ev.Committables = append(ev.Committables, sink.Committable{Sink: name, Data: []byte(name + f[1])})
		}
		return ev
	case "journaled":
		return Journaled{Epoch: arg(1)}
	case "offsets":
		return OffsetsSent{Epoch: arg(1)}
	case "decided":
		return Decided{Epoch: arg(1)}
	case "applied":
		n := arg(2)
		ev := Applied{Sink: f[1], Cursor: journal.Cursor{Pos: sink.Pos{Epoch: n, Index: 9}, Offset: n * 100}}
		if len(f) > 3 {
			ev.Verdicts = []Verdict{{Sink: f[1], Verdict: sink.Verdict{Pos: sink.Pos{Epoch: n, Index: 3}, Code: f[3]}}}
		}
		return ev
	case "staged":
		p := s.pending(fmt.Sprintf("%s:%s:%d", f[1], f[2], s.m.attempt))
		return Staged{Sink: f[1], Pending: []journal.Pending{p}, Cursor: journal.Cursor{Pos: p.Through, Offset: s.int(f[2]) * 100}}
	case "committed":
		return Committed{Items: s.handed(f[1], arg(2))}
	case "renew":
		return Renew{}
	case "moved":
		return Moved{}
	case "stop":
		return Stop{}
	case "failed":
		return Failed{Err: errors.New(strings.Join(f[1:], " "))}
	}
	s.t.Fatalf("unknown event %v", f)
	return nil
}

func (s *story) handed(name string, n int64) []journal.Pending {
	var out []journal.Pending
	for _, it := range s.m.pending {
		if it.handed && it.Sink == name && it.Epoch == n {
			out = append(out, it.Pending)
		}
	}
	return out
}

// takeover runs a whole one over what the journal holds.
func (s *story) takeover(words []string) {
	read := Event(Read{})
	if len(words) > 0 && words[0] != "none" {
		read = Read{Record: s.record(words), Offset: 7}
	}
	for _, ev := range []Event{Start{}, Fenced{A}, Fenced{B}, read} {
		s.step(ev)
	}
	if len(words) == 0 || words[0] == "none" {
		s.step(s.event([]string{"resolved"}))
	}
	for _, ev := range []Event{Claimed{}, Verified{Undisturbed: true}, Recovered{}, Swept{}, Opened{}} {
		s.step(ev)
	}
}

func (s *story) step(ev Event) {
	for _, a := range s.m.Step(ev) {
		fmt.Fprintf(&s.out, "  %s\n", s.describe(a))
	}
	if e, ok := ev.(Fill); ok && s.m.Open() == 0 {
		fmt.Fprintf(&s.out, "  (%T waits)\n", e)
	}
}

func (s *story) describe(a Action) string {
	switch a := a.(type) {
	case Fence:
		return "fence " + a.Producer.String()
	case Claim:
		return "claim " + rec(a.Record)
	case Verify:
		return fmt.Sprintf("verify from offset %d", a.PrevOffset)
	case Recover:
		return "recover " + pendings(a.Pending)
	case Sweep:
		return "sweep, keeping " + pendings(a.Keep)
	case Open:
		return "open at epoch " + strconv.FormatInt(a.Record.Epoch, 10)
	case Begin:
		return fmt.Sprintf("begin %d on %s", a.Epoch, a.Producer)
	case Flush:
		return fmt.Sprintf("flush %d", a.Epoch)
	case Prepare:
		return fmt.Sprintf("prepare %d", a.Epoch)
	case Journal:
		out := "journal " + rec(a.Record)
		for _, v := range a.Verdicts {
			out += fmt.Sprintf(" dead letter %s %s %s", v.Sink, v.Pos, v.Code)
		}
		return out
	case Offsets:
		return fmt.Sprintf("offsets %d: %d", a.Epoch, a.Sources[0].Partitions[0].Offset)
	case End:
		return fmt.Sprintf("end %d", a.Epoch)
	case Publish:
		return fmt.Sprintf("publish %d", a.Epoch)
	case Commit:
		return "commit " + pendings(a.Items)
	case Confirm:
		return "confirm" + cursors(a.Cursors)
	case Trim:
		return fmt.Sprintf("trim to %d", a.Offset)
	case Over:
		return "over: " + a.Err.Error()
	}
	return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", a), "epoch."))
}

func rec(r *journal.Record) string {
	out := fmt.Sprintf("epoch %d attempt %d", r.Epoch, r.Attempt)
	if r.Sealed {
		out += " sealed"
	}
	return out + " pending " + pendings(r.Pending) + cursors(r.Cursors)
}

func pendings(ps []journal.Pending) string {
	if len(ps) == 0 {
		return "none"
	}
	var out []string
	for _, p := range ps {
		out = append(out, fmt.Sprintf("%s@%d/a%d", p.Sink, p.Epoch, p.Attempt))
	}
	return strings.Join(out, ",")
}

func cursors(cs map[string]*journal.Cursor) string {
	var names []string
	for n := range cs {
		names = append(names, n)
	}
	slices.Sort(names)
	out := ""
	for _, n := range names {
		out += fmt.Sprintf(" %s=%s", n, cs[n].Pos)
	}
	return out
}
