package httpsink

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"exactly/sink"
)

// Failure mode 34: same key with another body, a concurrent same key, a stored
// failure that is replayed.
func TestFailureMode34(t *testing.T) {
	t.Parallel()
	once := func(a act) func(query) act {
		return func(q query) act {
			if q.nth == 1 {
				return a
			}
			return act{}
		}
	}
	tests := []struct {
		name     string
		script   func(query) act
		edit     func(*Config)
		want     sink.Class // of the error; with through: none
		through  bool
		verdict  string // code
		requests int    // 0: more than one
		executed int
	}{
		{
			name:     "409 in progress is asked again with the same key",
			script:   once(act{slow: 300 * time.Millisecond}),
			edit:     func(c *Config) { c.Timeout = 50 * time.Millisecond },
			through:  true,
			executed: 1,
		},
		{
			name:    "409 for ever is transient, never a dead letter",
			script:  func(query) act { return act{refuse: http.StatusConflict} },
			edit:    func(c *Config) { c.Retry.Budget = 30 * time.Millisecond },
			want:    sink.ClassTransient,
			through: false,
		},
		{
			name:     "409 where the user says that it means done",
			script:   func(query) act { return act{refuse: http.StatusConflict} },
			edit:     func(c *Config) { c.Conflict = "done" },
			through:  true,
			requests: 1,
		},
		{
			name:     "409 where the user's table says that it means done",
			script:   func(query) act { return act{refuse: http.StatusConflict} },
			edit:     func(c *Config) { c.Answers = map[string]string{"409": "done"} },
			through:  true,
			requests: 1,
		},
		{
			name:     "bare 422 is in doubt",
			script:   func(query) act { return act{refuse: http.StatusUnprocessableEntity} },
			want:     sink.ClassInDoubt,
			requests: 1,
		},
		{
			name: "400 that names the key is in doubt",
			script: func(query) act {
				return act{
					refuse: http.StatusBadRequest, header: http.Header{"Content-Type": {"application/json"}},
					body: `{"error":{"type":"idempotency_error","message":"Keys can only be used with the same parameters"}}`,
				}
			},
			want:     sink.ClassInDoubt,
			requests: 1,
		},
		{
			name: "422 that names the key is in doubt, also where 422 means poison",
			script: func(query) act {
				return act{
					refuse: http.StatusUnprocessableEntity, header: http.Header{"Content-Type": {"application/problem+json"}},
					body: `{"type":"https://p.example/idempotency","title":"Idempotency-Key is already used"}`,
				}
			},
			edit:     func(c *Config) { c.Answers = map[string]string{"422": "poison"} },
			want:     sink.ClassInDoubt,
			requests: 1,
		},
		{
			name:     "422 where the user's table says poison",
			script:   func(query) act { return act{refuse: http.StatusUnprocessableEntity, body: "amount missing"} },
			edit:     func(c *Config) { c.Answers = map[string]string{"422": "poison"} },
			through:  true,
			verdict:  "http_status_422",
			requests: 1,
		},
		{
			name:     "other 400 is a dead letter",
			script:   func(query) act { return act{refuse: http.StatusBadRequest, body: "no"} },
			through:  true,
			verdict:  "http_status_400",
			requests: 1,
		},
		{
			name:     "a stored 500 that is replayed is in doubt",
			script:   once(act{store: http.StatusInternalServerError}),
			want:     sink.ClassInDoubt,
			requests: 2,
			executed: 1,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPartner(t, tt.script)
			c := quick(p.URL)
			if tt.edit != nil {
				tt.edit(&c)
			}
			e := entry(0, "a", "k")
			res, err := openTask(t, newTestSink(t, c), testOwner).Apply(t.Context(), batchOf(e))
			switch {
			case tt.through && (err != nil || res.Through != e.Pos):
				t.Errorf("apply: got through %s, %v; want through %s", res.Through, err, e.Pos)
			case !tt.through && (err == nil || res.Through == e.Pos):
				t.Errorf("apply: got through %s, %v; want an error", res.Through, err)
			case !tt.through && sink.Classify(err) != tt.want:
				t.Errorf("class: got %s (%v), want %s", sink.Classify(err), err, tt.want)
			}
			switch {
			case tt.verdict == "" && len(res.Verdicts) > 0:
				t.Errorf("verdicts: got %+v, want none", res.Verdicts)
			case tt.verdict != "" && (len(res.Verdicts) != 1 || res.Verdicts[0].Code != tt.verdict || res.Verdicts[0].Pos != e.Pos):
				t.Errorf("verdicts: got %+v, want one %s", res.Verdicts, tt.verdict)
			}
			got := len(p.asked("a"))
			if tt.requests == 0 && got < 2 || tt.requests > 0 && got != tt.requests {
				t.Errorf("requests: got %d, want %d (0: at least 2)", got, tt.requests)
			}
			p.wantExecuted(t, tt.executed, "a")
			p.wantSameBytes(t, "a", e.Value)
		})
	}
}

// A key that is used with another body is in doubt, and the first body stays
// the only one that was carried out.
func TestFailureMode34ReusedKey(t *testing.T) {
	t.Parallel()
	p := newPartner(t, nil)
	c := quick(p.URL)
	c.IdempotencyKey = `"one-key-for-all"`
	task := openTask(t, newTestSink(t, c), testOwner)
	b := batchOf(entry(0, "a", "x"), entry(1, "b", "y"), entry(2, "c", "z"))
	res, err := task.Apply(t.Context(), b)
	if sink.Classify(err) != sink.ClassInDoubt || res.Through != pos(0) || len(res.Verdicts) != 0 {
		t.Fatalf("apply: got %+v, %v; want through 1/0 and in doubt", res, err)
	}
	if !strings.Contains(err.Error(), "make idempotency_key unique") {
		t.Errorf("error: got %q, want the remedy in it", err)
	}
	p.wantExecuted(t, 1, "a")
	p.wantExecuted(t, 0, "b", "c")
	if n := len(p.asked("c")); n != 0 {
		t.Errorf("requests behind the record in doubt: got %d, want 0", n)
	}
}

// Failure mode 35: the partner executed but was slower than the time-out, or
// the connection was cut before its answer.
func TestFailureMode35(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		a    act
	}{
		{"slower than the time-out", act{slow: 250 * time.Millisecond}},
		{"connection cut after it was carried out", act{cut: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPartner(t, func(q query) act {
				if q.nth == 1 {
					return tt.a
				}
				return act{}
			})
			c := quick(p.URL)
			c.Timeout = 50 * time.Millisecond
			task := openTask(t, newTestSink(t, c), testOwner)
			var es []sink.Entry
			for i := range 40 {
				es = append(es, entry(i, fmt.Sprintf("r%d", i), fmt.Sprintf("k%d", i%20)))
			}
			if v := drive(t, task, batchOf(es...)); len(v) != 0 {
				t.Errorf("verdicts: got %v, want none", v)
			}
			for i, e := range es {
				id := fmt.Sprintf("r%d", i)
				p.wantExecuted(t, 1, id)
				p.wantSameBytes(t, id, e.Value)
				if n := len(p.asked(id)); n < 2 {
					t.Errorf("requests for %s: got %d, want at least 2", id, n)
				}
			}
		})
	}
}

// Failure mode 36: 98 good records, one poison, one that fails for a while:
// only the last is repeated.
func TestFailureMode36(t *testing.T) {
	t.Parallel()
	const bad, flaky = 30, 60
	p := newPartner(t, func(q query) act {
		switch {
		case q.id == "r30":
			return act{refuse: http.StatusBadRequest, body: "cannot take this"}
		case q.id == "r60" && q.nth < 40:
			return act{refuse: http.StatusServiceUnavailable}
		}
		return act{}
	})
	c := quick(p.URL)
	c.Retry.Budget = 20 * time.Millisecond // so that Apply gives up more than once
	task := openTask(t, newTestSink(t, c), testOwner)
	var es []sink.Entry
	for i := range 100 {
		es = append(es, entry(i, fmt.Sprintf("r%d", i), fmt.Sprintf("k%d", i)))
	}
	res, err := task.Apply(t.Context(), batchOf(es...))
	if sink.Classify(err) != sink.ClassTransient || err == nil {
		t.Fatalf("first apply: got %v, want a transient error", err)
	}
	if res.Through != pos(flaky-1) || len(res.Verdicts) != 1 || res.Verdicts[0].Pos != pos(bad) {
		t.Fatalf("first apply: got %+v, want through 1/59 and the verdict on 1/30", res)
	}
	if v := drive(t, task, rest(batchOf(es...), res)); len(v) != 0 {
		t.Errorf("later verdicts: got %v, want none", v)
	}
	for i := range 100 {
		id, want := fmt.Sprintf("r%d", i), 1
		if i == flaky {
			want = 40
		}
		if got := len(p.asked(id)); got != want {
			t.Errorf("requests for %s: got %d, want %d", id, got, want)
		}
		if i != bad {
			p.wantExecuted(t, 1, id)
		}
	}
	p.wantExecuted(t, 0, "r30")
}
