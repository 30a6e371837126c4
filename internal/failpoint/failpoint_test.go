package failpoint

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		want []Arm
		err  string
	}{
		{text: "", want: nil},
		{text: " ; ;", want: nil},
		{text: "epoch/filled=kill", want: []Arm{{Point: Filled, Task: -1, Epoch: -1, Action: Kill}}},
		{
			text: "epoch/before-decision:task=2:epoch=5:hit=3=freeze; takeover/claimed:task=0=delay(200ms)",
			want: []Arm{
				{Point: EndBefore, Task: 2, Epoch: 5, Hit: 3, Action: Freeze},
				{Point: ClaimAfter, Task: 0, Epoch: -1, Action: Delay, Delay: 200 * time.Millisecond},
			},
		},
		{text: "epoch/filled=error;epoch/applied=hold", want: []Arm{
			{Point: Filled, Task: -1, Epoch: -1, Action: Error},
			{Point: ApplyAfter, Task: -1, Epoch: -1, Action: Hold},
		}},
		{text: "epoch/filled", err: "no action"},
		{text: "epoch/full=kill", err: `no such point "epoch/full"`},
		{text: "epoch/filled=explode", err: `action "explode"`},
		{text: "epoch/filled=delay(-1s)", err: "action"},
		{text: "epoch/filled=delay(1s", err: "action"},
		{text: "epoch/filled:task=x=kill", err: "condition"},
		{text: "epoch/filled:hit=0=kill", err: "condition"},
		{text: "epoch/filled:task=2147483648=kill", err: "condition"},
		{text: "epoch/filled:colour=1=kill", err: "condition"},
	}
	for _, tt := range tests {
		got, err := Parse(tt.text)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("Parse(%q): error %v, want one with %q", tt.text, err, tt.err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("Parse(%q) = %+v, %v, want %+v", tt.text, got, err, tt.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("epoch/before-decision:task=2:epoch=5:hit=3=delay(1h2m3.5s);epoch/filled=kill")
	f.Add("epoch/filled:task=01=hold")
	f.Add("=;:=kill")
	f.Fuzz(func(t *testing.T, text string) {
		arms, err := Parse(text)
		if err != nil {
			return
		}
		var again string
		for _, a := range arms {
			again += a.String() + ";"
		}
		got, err := Parse(again)
		if err != nil || !reflect.DeepEqual(got, arms) {
			t.Fatalf("Parse(%q) = %+v; written as %q it reads as %+v, %v", text, arms, again, got, err)
		}
	})
}

func env(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

func TestFromEnvNeedsTheFlag(t *testing.T) {
	t.Parallel()
	for _, name := range []string{ArmVar, ControlVar} {
		_, err := FromEnv(env(map[string]string{name: "epoch/filled=kill"}), false, slog.New(slog.DiscardHandler))
		if !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s without the flag: error %v, want ErrUnsafe that names it", name, err)
		}
	}
	s, err := FromEnv(env(nil), false, slog.New(slog.DiscardHandler))
	if s != nil || err != nil {
		t.Errorf("neither flag nor variables: %v, %v, want nil, nil", s, err)
	}
	if err := s.Hit(t.Context(), Filled, 0, 1); err != nil || s.Hits() != nil || s.Last() != nil {
		t.Errorf("Hit of a nil set: %v; it counts %v", err, s.Hits())
	}
}

func TestFromEnvArmsNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{" ", ";;", " ; "} {
		_, err := FromEnv(func(k string) string { return map[string]string{ArmVar: text}[k] }, true, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), "arms nothing") {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

func TestFromEnvLogsAnError(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	log := slog.New(slog.NewTextHandler(&out, nil))
	if _, err := FromEnv(env(nil), true, log); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "level=ERROR") {
		t.Errorf("log %q, want an error line", got)
	}
	if _, err := FromEnv(env(map[string]string{ArmVar: "nonsense"}), true, log); err == nil {
		t.Error("nonsense was taken")
	}
}

func TestHit(t *testing.T) {
	t.Parallel()
	arms, err := Parse("epoch/filled:task=1:hit=2=error;epoch/applied:epoch=7=kill;epoch/decided=freeze;epoch/trimmed=delay(1h)")
	if err != nil {
		t.Fatal(err)
	}
	w := newArmed(arms, slog.New(slog.DiscardHandler))
	errKilled, errFrozen := errors.New("killed"), errors.New("frozen")
	w.kill = func() error { return errKilled }
	w.freeze = func() error { return errFrozen }
	s := New(w.hook)
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	steps := []struct {
		point Point
		task  int32
		epoch int64
		want  error
	}{
		{Filled, 0, 1, nil},
		{Filled, 1, 1, nil},
		{Filled, 1, 2, ErrInjected},
		{Filled, 1, 3, nil},
		{ApplyAfter, 3, 6, nil},
		{ApplyAfter, 3, 7, errKilled},
		{EndAfter, 0, 0, errFrozen},
		{TrimAfter, 0, 0, context.DeadlineExceeded},
		{FlushDone, 0, 0, nil},
	}
	for i, st := range steps {
		if got := s.Hit(short, st.point, st.task, st.epoch); !errors.Is(got, st.want) {
			t.Errorf("hit %d at %s: %v, want %v", i, st.point, got, st.want)
		}
	}
	hits := s.Hits()
	if hits[Filled] != 4 || hits[ApplyAfter] != 2 || hits[ClaimAfter] != 0 || len(hits) != len(Points()) {
		t.Errorf("hits %v, want 4 filled, 2 applied, 0 claimed, all points listed", hits)
	}
}

func TestHoldWithoutControl(t *testing.T) {
	t.Parallel()
	s, err := FromEnv(env(map[string]string{ArmVar: "epoch/filled=hold"}), true, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Hit(t.Context(), Filled, 0, 1); err == nil || !strings.Contains(err.Error(), ControlVar) {
		t.Errorf("Hit: %v, want an error that names %s", err, ControlVar)
	}
}

// socket gives a path that is short enough for a Unix socket.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "c")
}

func TestControl(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	path := socket(t)
	parent, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	w := newArmed(nil, slog.New(slog.DiscardHandler))
	killed := make(chan struct{})
	w.kill = func() error { close(killed); return nil }
	s := New(w.hook)
	if s.close, err = w.connect(path, s); err != nil {
		t.Fatal(err)
	}
	worker, err := parent.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if worker.PID != os.Getpid() {
		t.Errorf("pid %d, want %d", worker.PID, os.Getpid())
	}
	if err := s.Hit(ctx, Filled, 0, 1); err != nil {
		t.Errorf("nothing armed: %v", err)
	}
	if err := worker.Arm(ctx, Arm{Point: "nowhere", Action: Kill, Task: -1, Epoch: -1}); err == nil {
		t.Error("an unknown point was armed")
	}
	if err := worker.Arm(ctx, Arm{Point: Filled, Task: -1, Epoch: -1, Hit: 1, Action: Hold}); err != nil {
		t.Fatal(err)
	}
	released := make(chan error)
	go func() { released <- s.Hit(ctx, Filled, 3, 42) }()
	select {
	case r := <-worker.Held():
		if r.Point != Filled || r.Task != 3 || r.Epoch != 42 {
			t.Errorf("held %+v, want %s task 3 epoch 42", r, Filled)
		}
	case <-ctx.Done():
		t.Fatal("no report of the hold")
	}
	select {
	case err := <-released:
		t.Fatalf("Hit returned %v before go", err)
	case <-time.After(20 * time.Millisecond):
	}
	if err := worker.Go(); err != nil {
		t.Fatal(err)
	}
	if err := <-released; err != nil {
		t.Errorf("released with %v", err)
	}
	hits, last, err := worker.Hits(ctx)
	if err != nil || hits[Filled] != 2 || last == nil || *last != (Passed{Filled, 3, 42}) {
		t.Errorf("hits %v, last %v, %v, want 2 filled, the last in epoch 42", hits, last, err)
	}
	if err := parent.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-killed:
	case <-ctx.Done():
		t.Error("the worker lives on without its parent")
	}
	<-worker.Gone()
	if _, _, err := worker.Hits(ctx); !errors.Is(err, ErrGone) {
		t.Errorf("a gone worker answers %v, want ErrGone", err)
	}
}

func TestControlClosedInPeace(t *testing.T) {
	t.Parallel()
	path := socket(t)
	parent, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	w := newArmed(nil, slog.New(slog.DiscardHandler))
	w.kill = func() error { t.Error("killed at a peaceful end"); return nil }
	s := New(w.hook)
	if s.close, err = w.connect(path, s); err != nil {
		t.Fatal(err)
	}
	worker, err := parent.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	<-worker.Gone()
	if err := parent.Close(); err != nil {
		t.Fatal(err)
	}
}
