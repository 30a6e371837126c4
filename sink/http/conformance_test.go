package httpsink

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"exactly/record"
	"exactly/sink"
	"exactly/sinktest"
	"exactly/step/cel"
)

// refuseMe in a record makes the test partner refuse it for good.
const refuseMe = "refuse me"

// The partner keeps no ledger and no mark of an incarnation: keys are all there
// is, and the suite holds the sink to what they are worth.
func TestConformance(t *testing.T) {
	env, err := cel.NewEnv(cel.Options{}) // one for all: it takes long to make
	if err != nil {
		t.Fatal(err)
	}
	sinktest.Run(t, sinktest.Subject{
		Open:  func(t sinktest.TB, _ string) sinktest.Target { return conformanceTarget(t, env) },
		Large: 2000,
		Marks: sinktest.Marks{NoLedger: true, NoIncarnation: true},
	})
}

func conformanceTarget(t sinktest.TB, env *cel.Env) sinktest.Target {
	f := &faults{}
	p := unstarted(f.script)
	p.Start()
	t.Cleanup(p.stop)
	return sinktest.Target{
		New: func(t sinktest.TB) sink.Sink {
			c := quick(p.URL)
			c.Retry.Budget = 200 * time.Millisecond
			c.CheckURL = p.URL + "/health"
			c.IdempotencyKey = `value.id + ":" + string(value.value)`
			s, err := New("out", c, Deps{Env: env})
			if err != nil {
				t.Fatalf("new sink: %v", err)
			}
			return s
		},
		Read: func(t sinktest.TB) []sinktest.Row {
			p.mu.Lock()
			defer p.mu.Unlock()
			rows := make([]sinktest.Row, len(p.bodies))
			for i, body := range p.bodies {
				row, err := sinktest.RowOf(record.Record{Value: []byte(body)})
				if err != nil {
					t.Fatalf("%v", err)
				}
				rows[i] = row
			}
			return rows
		},
		Poison: func(s sinktest.Spec) record.Record {
			s.Extra = refuseMe
			return sinktest.Make(s)
		},
		Down:     func(sinktest.TB) { p.away.Store(true) },
		Up:       func(sinktest.TB) { p.away.Store(false) },
		Kill:     func(sinktest.TB) { p.CloseClientConnections() },
		SetFault: func(_ sinktest.TB, x sinktest.Fault) { f.set(func(f *faults) { f.next, f.left = x, x.Nth }) },
		InMemory: true,
	}
}

// faults is the script of a partner that the suite steers.
type faults struct {
	mu   sync.Mutex
	next sinktest.Fault
	left int // requests until next; 0: none is set
}

func (f *faults) set(edit func(*faults)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	edit(f)
}

func (f *faults) script(q query) act {
	f.mu.Lock()
	defer f.mu.Unlock()
	if q.method == http.MethodGet { // check_url
		return act{refuse: http.StatusOK}
	}
	if f.left > 0 {
		if f.left--; f.left == 0 {
			if f.next.After {
				return act{cut: true}
			}
			panic(http.ErrAbortHandler)
		}
	}
	if strings.Contains(q.body, refuseMe) {
		return act{refuse: http.StatusBadRequest, body: "cannot take this"}
	}
	return act{}
}
