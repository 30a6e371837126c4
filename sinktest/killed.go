package sinktest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"exactly/internal/failpoint"
)

// Killed is a sink whose processes RunKilled kills.
type Killed struct {
	// Open gives the target that lives in dir: the same one for the same dir,
	// in whichever process.
	Open  func(t TB, dir string) Target
	Kills int // 0: 20
	Seed  uint64
}

// The environment of a child process.
const (
	envDir     = "EXACTLY_SINKTEST_DIR"
	envJournal = "EXACTLY_SINKTEST_JOURNAL"
	envEpochs  = "EXACTLY_SINKTEST_EPOCHS"
	envKill    = "EXACTLY_SINKTEST_KILL" // point:hit
)

// RunKilled runs the test binary again as a worker, kills it at fail points and
// at random moments, and then demands every record exactly once. Outbox sinks
// are also applied to by two processes at once. Call it at the top of a test
// function of its own, without t.Parallel before it.
func RunKilled(t *testing.T, k Killed) {
	t.Helper()
	if dir := os.Getenv(envDir); dir != "" {
		k.work(t, dir)
		return
	}
	if k.Kills == 0 {
		k.Kills = 20
	}
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(k.Seed, 1))
	points := []failpoint.Point{failpoint.SinkTxnBefore, failpoint.SinkTxnAfter, failpoint.SinkStageAfter}
	hits := map[string]int{}
	epochs := 0
	for i := range k.Kills {
		epochs += 3
		env := []string{envEpochs + "=" + strconv.Itoa(epochs)}
		after, at := time.Minute, "a random moment"
		if i%3 == 2 {
			after = time.Duration(40+rng.IntN(160)) * time.Millisecond
		} else {
			at = fmt.Sprintf("%s:%d", points[i%len(points)], 1+rng.IntN(12))
			env = append(env, envKill+"="+at)
		}
		if k.child(t, dir, after, env) {
			hits[strings.Split(at, ":")[0]]++
		}
	}
	t.Logf("kills: %v", hits)
	if hits[string(failpoint.SinkTxnBefore)]+hits[string(failpoint.SinkTxnAfter)] == 0 {
		t.Errorf("no process died at a fail point of the sink")
	}
	k.verify(t, dir, epochs, rng)
}

// child runs a worker process and reports whether it was killed.
func (k Killed) child(t *testing.T, dir string, after time.Duration, env []string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), after)
	defer cancel()
	cmd := childCommand(ctx, t, dir, env)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == -1 || ctx.Err() != nil {
		return true // by a signal, as is meant to be
	}
	t.Fatalf("a worker failed by itself: %v\n%s", err, out)
	return false
}

func childCommand(ctx context.Context, t *testing.T, dir string, env []string) *exec.Cmd {
	name := "^" + strings.ReplaceAll(regexp.QuoteMeta(t.Name()), "/", "$/^") + "$"
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run="+name, "-test.timeout=2m")
	cmd.Env = append(append(os.Environ(), envDir+"="+dir), env...)
	return cmd
}

// verify lets two processes race to the end, where the sink is an outbox sink,
// and checks the target.
func (k Killed) verify(t *testing.T, dir string, epochs int, rng *rand.Rand) {
	t.Helper()
	w := k.world(t, dir)
	epochs += 10
	if w.kind == kindOutbox {
		copyFile(t, filepath.Join(dir, "journal"), filepath.Join(dir, "journal-2"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var cmds []*exec.Cmd
		var outs []*bytes.Buffer
		for _, j := range []string{"journal", "journal-2"} {
			cmd := childCommand(ctx, t, dir, []string{
				envEpochs + "=" + strconv.Itoa(epochs), envJournal + "=" + j,
			})
			out := &bytes.Buffer{}
			cmd.Stdout, cmd.Stderr = out, out
			outs = append(outs, out)
			if err := cmd.Start(); err != nil {
				t.Fatalf("start a worker: %v", err)
			}
			cmds = append(cmds, cmd)
		}
		for i, cmd := range cmds {
			if err := cmd.Wait(); err != nil {
				t.Errorf("one of two workers at once: %v\n%s", err, outs[i])
			}
		}
	}
	l := k.lane(w, dir, "journal", epochs+rng.IntN(3))
	w.mend(l)
	w.finish()
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err != nil {
		t.Fatalf("copy the journal: %v", err)
	}
}

func (k Killed) world(t *testing.T, dir string) *world {
	target := k.Open(Wrap(t), filepath.Join(dir, "target"))
	snk := target.New(Wrap(t))
	f := snk.Features()
	kd := kindOf(Wrap(t), snk)
	if err := snk.Close(); err != nil {
		t.Fatalf("close the sink: %v", err)
	}
	return &world{t: Wrap(t), target: target, kind: kd, feat: f}
}

// lane feeds the story, the same in every process, and reads the journal.
func (k Killed) lane(w *world, dir, name string, epochs int) *lane {
	w.t.Helper()
	l := w.lane(baseOwner())
	for e := range epochs {
		in := numbered(fmt.Sprintf("e%d", e), 0, 40+e%7*10)
		in = append(in, specs(Spec{ID: "hot", Value: int64(e)}, Spec{ID: fmt.Sprintf("warm%d", e%5), Value: int64(e)})...)
		if w.feat.Rejects {
			in[e%len(in)].poison = true
		}
		l.feed(in)
	}
	path := filepath.Join(dir, name)
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &l.j)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Fatalf("read the journal: %v", err)
	}
	l.save = func(j journal) {
		b, err := json.Marshal(j)
		if err == nil {
			err = os.WriteFile(path+".new", b, 0o600)
		}
		if err == nil {
			err = os.Rename(path+".new", path)
		}
		if err != nil {
			w.t.Fatalf("write the journal: %v", err)
		}
	}
	return l
}

// work is what a child does: take over, go on, perhaps die.
func (k Killed) work(t *testing.T, dir string) {
	epochs, err := strconv.Atoi(os.Getenv(envEpochs))
	if err != nil {
		t.Fatalf("read %s: %v", envEpochs, err)
	}
	name := os.Getenv(envJournal)
	if name == "" {
		name = "journal"
	}
	w := k.world(t, dir)
	l := k.lane(w, dir, name, epochs)
	l.zombie = name != "journal" // its decisions count for nothing
	point, nth, _ := strings.Cut(os.Getenv(envKill), ":")
	left, _ := strconv.Atoi(nth)
	h := func(_ context.Context, at failpoint.Point, _ int32, _ int64) error {
		if string(at) != point {
			return nil
		}
		if left--; left == 0 {
			die()
		}
		return nil
	}
	w.mendFrom(l, h, 30)
}

// die ends this process as SIGKILL does.
func die() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {}
}
