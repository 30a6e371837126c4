package proxy

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func even(n *int) bool { return *n%2 == 0 }

func apply(t *testing.T, rs *Rules[*int], n int) (Fate, int) {
	t.Helper()
	f, err := rs.Apply(t.Context(), &n)
	if err != nil {
		t.Fatal(err)
	}
	return f, n
}

func TestRulesCount(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		from, times int
		want        string // of 0 to 9: d is dropped
	}{
		{"the first", 0, 0, "d........."},
		{"the third", 3, 0, "....d....."},
		{"two from the second on", 2, 2, "..d.d....."},
		{"always", 0, Always, "d.d.d.d.d."},
		{"always from the fourth on", 4, Always, "......d.d."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var rs Rules[*int]
			a := rs.Add(Rule[*int]{Name: "even", Match: even, From: tt.from, Times: tt.times, Act: Drop[*int]()})
			got := ""
			for n := range 10 {
				if f, _ := apply(t, &rs, n); f.Forward {
					got += "."
				} else {
					got += "d"
				}
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if n := strings.Count(tt.want, "d"); a.Hits() != n {
				t.Errorf("hits: got %d, want %d", a.Hits(), n)
			}
		})
	}
}

// Two rules that match: the first acts, then the second; both count.
func TestRulesInTheirOrder(t *testing.T) {
	t.Parallel()
	var rs Rules[*int]
	rs.Add(Rule[*int]{Match: even, Act: Drop[*int]()})
	rs.Add(Rule[*int]{Match: even, Act: Cut[*int]()})
	third := rs.Add(Rule[*int]{Match: even, From: 3, Act: Rewrite(func(n *int) error { *n = 7; return nil })})
	if f, _ := apply(t, &rs, 2); f.Forward || f.Cut {
		t.Errorf("the first: got %+v, want it dropped", f)
	}
	if f, _ := apply(t, &rs, 2); f.Forward || !f.Cut {
		t.Errorf("the second: got %+v, want it cut", f)
	}
	if f, n := apply(t, &rs, 2); !f.Forward || n != 7 || third.Hits() != 1 {
		t.Errorf("the third: got %+v and %d, want it rewritten to 7", f, n)
	}
	if f, n := apply(t, &rs, 2); !f.Forward || n != 2 {
		t.Errorf("the fourth: got %+v and %d, want it as it is", f, n)
	}
}

func TestHoldUntilReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, how := range []func(*Rules[*int], *Armed[*int]){
			func(_ *Rules[*int], a *Armed[*int]) { a.Release() },
			func(_ *Rules[*int], a *Armed[*int]) { a.Remove() },
			func(rs *Rules[*int], _ *Armed[*int]) { rs.Clear() },
		} {
			var rs Rules[*int]
			a := rs.Add(Rule[*int]{Match: even, Times: Always, Act: Hold[*int]()})
			passed := make(chan error, 1)
			go func() {
				n := 2
				_, err := rs.Apply(t.Context(), &n)
				passed <- err
			}()
			if err := a.Wait(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			select {
			case err := <-passed:
				t.Fatalf("it passed while it was held: %v", err)
			default:
			}
			how(&rs, a)
			if err := <-passed; err != nil {
				t.Error(err)
			}
			apply(t, &rs, 2) // nothing is held any more
		}
	})
}

func TestDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rs Rules[*int]
		rs.Add(Rule[*int]{Match: even, Act: Delay[*int](time.Minute)})
		from := time.Now()
		apply(t, &rs, 2)
		if d := time.Since(from); d != time.Minute {
			t.Errorf("it was delayed by %s, want a minute", d)
		}
	})
}

func TestErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	var rs Rules[*int]
	a := rs.Add(Rule[*int]{Name: "a rule", Match: even, Act: Rewrite(func(*int) error { return broken })})
	n := 2
	if _, err := rs.Apply(t.Context(), &n); !errors.Is(err, broken) {
		t.Errorf("a rewriting that fails: got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Wait(ctx, 2); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), `"a rule"`) {
		t.Errorf("a wait in vain: got %v", err)
	}
	rs.Add(Rule[*int]{Match: even, Act: Hold[*int]()})
	if _, err := rs.Apply(ctx, &n); !errors.Is(err, context.Canceled) {
		t.Errorf("a hold of a proxy that is closed: got %v", err)
	}
}
