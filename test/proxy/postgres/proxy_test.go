package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"exactly/test/proxy"
)

// within is far beyond what any of it takes.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// Each fault strikes the second b of a, b, b, c, which is sent as Query, or in one
// series each. What arrived tells statements that were not carried out from answers
// that were not told.
func TestFaults(t *testing.T) {
	t.Parallel()
	upper := Rewrite(strings.ToUpper)
	for _, tt := range []struct {
		name    string
		rule    Rule
		arrived string
		told    string
	}{
		{"nothing", Rule{SQL: "other"}, "a b b c", "a b b c"},
		{"counted", Rule{SQL: "b"}, "a b b c", "a b b c"},
		{"statement cut", Rule{Act: Cut()}, "a b", "a b lost lost"},
		{"answer cut", Rule{Answer: true, Act: Cut()}, "a b b", "a b lost lost"},
		{"statement delayed", Rule{Act: Delay(10 * time.Millisecond)}, "a b b c", "a b b c"},
		{"answer delayed", Rule{Answer: true, Act: Delay(10 * time.Millisecond)}, "a b b c", "a b b c"},
		{"statement rewritten", Rule{Act: upper}, "a b B c", "a b B c"},
		{"all from the second on", Rule{Times: proxy.Always, Act: upper}, "a b B c", "a b B c"},
		{"statement made wrong", Rule{Act: Rewrite(func(string) string { return "wrong" })}, "a b wrong c", "a b 42601 c"},
		{"answer refused", Rule{Answer: true, Act: Refuse("40001", "no")}, "a b b c", "a b 40001 c"},
		{"answer another", Rule{Answer: true, Act: Tell("INSERT 0 7")}, "a b b c", "a b INSERT 0 7 c"},
	} {
		for _, how := range []string{"query", "parsed"} {
			t.Run(tt.name+"/"+how, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				rule := tt.rule
				if rule.SQL == "" {
					rule.SQL = "B" // in any case
				}
				rule.From = 2
				armed := b.p.Add(rule)
				var told []string
				for _, sql := range []string{"a", "b", "b", "c"} {
					if how == "query" {
						told = append(told, b.simple(within(t), sql))
					} else {
						told = append(told, b.series(within(t), sql))
					}
				}
				if got := strings.Join(told, " "); got != tt.told {
					t.Errorf("told: got %q, want %q", got, tt.told)
				}
				want := strings.Fields(tt.arrived)
				got := b.s.has(t, len(want))
				if strings.Join(got, " ") != tt.arrived {
					t.Errorf("arrived: got %q, want %q", got, tt.arrived)
				}
				hits := 1
				if rule.SQL == "other" {
					hits = 0
				}
				if armed.Hits() != hits {
					t.Errorf("the rule struck %d times, want %d", armed.Hits(), hits)
				}
			})
		}
	}
}

// A client without patience gives up once the rule has struck the second b. What was
// held arrives when it is released, what was dropped never does.
func TestHoldAndDrop(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		rule    Rule
		arrived string
	}{
		{"statement held", Rule{Act: Hold()}, "b b"},
		{"answer held", Rule{Answer: true, Act: Hold()}, "b b"},
		{"statement dropped", Rule{Act: Drop()}, "b"},
		{"answer dropped", Rule{Answer: true, Act: Drop()}, "b b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			tt.rule.SQL, tt.rule.From = "b", 2
			armed := b.p.Add(tt.rule)
			if got := b.simple(within(t), "b"); got != "b" {
				t.Errorf("before: %q", got)
			}
			ctx, give := context.WithCancel(within(t))
			gone := make(chan error, 1)
			go func() {
				gone <- armed.Wait(within(t), 1)
				give()
			}()
			if got := b.simple(ctx, "b"); got != "lost" {
				t.Errorf("told: %q, want nothing", got)
			}
			if err := <-gone; err != nil {
				t.Fatal(err)
			}
			armed.Release()
			want := strings.Fields(tt.arrived)
			if got := b.s.has(t, len(want)); !slices.Equal(got, want) {
				t.Errorf("arrived: got %q, want %q", got, want)
			}
			other := &bench{t: t, s: b.s, p: b.p, c: dial(t, b.p)} // connections are by themselves
			if got := other.simple(within(t), "c"); got != "c" {
				t.Errorf("on another connection: %q", got)
			}
			if got := b.s.has(t, 0); !slices.Equal(got, append(want, "c")) {
				t.Errorf("arrived in the end: got %q, want %q and c", got, want)
			}
		})
	}
}

// A held answer comes in the end where the client waits.
func TestHeldAnswerComes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	armed := b.p.Add(Rule{SQL: "b", Answer: true, Act: Hold()})
	told := make(chan string, 1)
	go func() { told <- b.simple(within(t), "b") }()
	if err := armed.Wait(within(t), 1); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-told:
		t.Errorf("told while it was held: %q", got)
	case <-time.After(20 * time.Millisecond):
	}
	armed.Release()
	if got := <-told; got != "b" {
		t.Errorf("told: %q", got)
	}
}

// In a series, what follows an error is skipped by servers: a client that is told an
// error in the middle sees nothing of the rest, although it was carried out.
func TestRewrittenInSeries(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, arrived, told string
		rule                Rule
	}{
		{"first refused", "a b c d", "40001 d", Rule{SQL: "a", Answer: true, Act: Refuse("40001", "no")}},
		{"second refused", "a b c d", "a 40001 d", Rule{SQL: "b", Answer: true, Act: Refuse("40001", "no")}},
		{"second rewritten", "a x c d", "a x c d", Rule{SQL: "b", Act: Rewrite(func(string) string { return "x" })}},
		{"last told otherwise", "a b c d", "a b y d", Rule{SQL: "c", Answer: true, Act: Tell("y")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.p.Add(tt.rule)
			told := b.series(within(t), "a", "b", "c") + " " + b.series(within(t), "d")
			if told != tt.told {
				t.Errorf("told: got %q, want %q", told, tt.told)
			}
			if got := strings.Join(b.s.has(t, 4), " "); got != tt.arrived {
				t.Errorf("arrived: got %q, want %q", got, tt.arrived)
			}
		})
	}
}

// An error of the server is told with another code, or as if it had been none.
func TestErrorRewritten(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	other := b.p.Add(Rule{SQL: "wrong", Answer: true, Act: proxy.Rewrite(func(m *Message) error {
		if !m.Failed || m.Error.Code != "42601" {
			t.Errorf("failed: %v, %+v", m.Failed, m.Error)
		}
		m.Error.Code = "53300"
		return nil
	})})
	b.p.Add(Rule{SQL: "wrong", Answer: true, From: 2, Act: Tell("INSERT 0 1")})
	for _, want := range []string{"53300", "INSERT 0 1", "42601"} {
		if got := b.simple(within(t), "wrong"); got != want {
			t.Errorf("told: got %q, want %q", got, want)
		}
	}
	if other.Hits() != 1 {
		t.Errorf("the rule struck %d times", other.Hits())
	}
}

// A statement that is prepared once is known by its text at each execution.
func TestPreparedStatement(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := within(t)
	for _, name := range []string{"a", "b"} {
		if _, err := b.c.Prepare(ctx, name, "text of "+name, nil); err != nil {
			t.Fatal(err)
		}
	}
	b.p.Add(Rule{SQL: "text of a", Answer: true, From: 2, Act: Refuse("40001", "no")})
	var told []string
	for _, name := range []string{"a", "b", "a", "b"} {
		r := b.c.ExecPrepared(ctx, name, nil, nil, nil).Read()
		told = append(told, outcome([]string{r.CommandTag.String()}, r.Err))
	}
	if want := []string{"text of a", "text of b", " 40001", "text of b"}; !slices.Equal(told, want) {
		t.Errorf("told: got %q, want %q", told, want)
	}
}

// A rule that cannot do what it says ends the connection, and the test hears of it.
func TestRuleThatCannot(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		rule Rule
		want error
	}{
		{"rewrite an answer", Rule{Answer: true, Act: Rewrite(strings.ToUpper)}, errAnswer},
		{"refuse a statement", Rule{Act: Refuse("40001", "no")}, errStatement},
		{"tell of a statement", Rule{Act: Tell("x")}, errStatement},
		{"again", Rule{Act: proxy.Again[*Message]()}, errAgain},
		{"again of an answer", Rule{Answer: true, Act: proxy.Again[*Message]()}, errAgain},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := start(newServer(t).ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			b := &bench{t: t, p: p, c: dial(t, p)}
			p.Add(tt.rule)
			if got := b.simple(within(t), "a"); got != "lost" {
				t.Errorf("told: %q, want nothing", got)
			}
			if err := p.close(); !errors.Is(err, tt.want) {
				t.Errorf("got error %v, want %v", err, tt.want)
			}
		})
	}
}

// All connections are cut, and new ones serve.
func TestCutAll(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.p.CutAll()
	if got := b.simple(within(t), "a"); got != "lost" {
		t.Errorf("told: %q, want nothing", got)
	}
	b.c = dial(t, b.p)
	if got := b.simple(within(t), "a"); got != "a" {
		t.Errorf("on a new connection: %q", got)
	}
}
