package object_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"exactly/record"
	"exactly/sink"
	"exactly/sink/object"
	"exactly/sinktest"
)

const (
	envKind = "EXACTLY_OBJECT_KIND"
	envDir  = "EXACTLY_OBJECT_DIR"
	envKill = "EXACTLY_OBJECT_KILL" // at which act the worker kills itself; 0: never
)

func TestMain(m *testing.M) {
	if kind := os.Getenv(envKind); kind != "" {
		if err := child(kind); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child is a worker process: it prints a line at each act, and kills itself at
// one.
func child(kind string) error {
	kill, err := strconv.Atoi(os.Getenv(envKill))
	if err != nil {
		return err
	}
	w := killed[kind]()
	w.place(os.Getenv(envDir))
	acts := 0
	w.hit = func(point string) {
		acts++
		fmt.Println(point)
		if acts == kill {
			die()
		}
	}
	return w.run(context.Background())
}

func die() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill() // SIGKILL
	}
	if err != nil {
		panic(err)
	}
	select {}
}

func (w *worker) place(dir string) {
	w.dir = dir
	w.config.URL = fileURL(dir)
}

func text(n, index int64, size int) string {
	if size < 3 {
		return fmt.Sprint((n + index) % 10) // one byte
	}
	rng := rand.New(rand.NewPCG(uint64(n), uint64(index)))
	b := make([]byte, size)
	for i := range b {
		b[i] = 'a' + byte(rng.Uint32()%26)
	}
	b[0], b[size-1] = '"', '"'
	return string(b)
}

// killed are the workers of the kill tests, by kind.
var killed = map[string]func() worker{
	// 1 byte to 5 MiB per epoch; few files (failure mode 28).
	"sizes": func() worker { return sizes(object.Config{Roll: object.Roll{Size: 3 << 20, Age: 4 * time.Second}}) },
	"sizes-zstd": func() worker {
		return sizes(object.Config{Compression: "zstd", Roll: object.Roll{Size: 2 << 20, Age: time.Hour}})
	},
	"sizes-parquet": func() worker {
		return sizes(object.Config{Format: "parquet", Roll: object.Roll{Size: 4 << 20, Age: time.Hour}})
	},
	// A new file at every barrier, and within epochs (failure mode 29).
	"rotate":         func() worker { return rotating(object.Config{Roll: object.Roll{Age: time.Nanosecond}}) },
	"rotate-size":    func() worker { return rotating(object.Config{Envelope: true, Roll: object.Roll{Size: 300}}) },
	"rotate-epoch":   func() worker { return rotating(object.Config{Compression: "gzip", Roll: object.Roll{Epoch: true}}) },
	"rotate-parquet": func() worker { return rotating(object.Config{Format: "parquet", Roll: object.Roll{Size: 3000}}) },
}

func everySecond(n int64) time.Time { return time.Unix(n, 0) }

func sizes(c object.Config) worker {
	bytes := []int{1, 1, 200, 64 << 10, 5 << 20, 1, 0, 1 << 20, 3}
	return worker{config: c, epochs: 18, cut: 3, now: everySecond, epoch: func(n int64) []sink.Entry {
		size := bytes[n%int64(len(bytes))]
		switch {
		case size == 0:
			return nil
		case size < 100:
			return []sink.Entry{entry(n, 0, text(n, 0, size))}
		}
		var es []sink.Entry
		for i := range int64(5) {
			es = append(es, entry(n, i*2, text(n, i, size/5)))
		}
		return es
	}}
}

func rotating(c object.Config) worker {
	return worker{config: c, epochs: 25, cut: 4, now: everySecond, epoch: func(n int64) []sink.Entry {
		var es []sink.Entry
		for i := range n % 9 {
			es = append(es, entry(n, i, text(n, i, 40)))
		}
		return es
	}}
}

// TestKilled kills a worker over and over, at its acts and in between, and
// demands every byte once, in order.
func TestKilled(t *testing.T) {
	t.Parallel()
	for kind, make := range killed {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := make()
			w.place(t.TempDir())
			rng := rand.New(rand.NewPCG(42, uint64(len(kind))))
			kills := 0
			for {
				// The first ones die by themselves, at an exact act, so that a quick
				// machine cannot come to the end before it was killed often enough.
				itself, at := rng.IntN(2) == 0, 1+rng.IntN(14)
				if kills < 6 {
					itself, at = true, 1+at%5
				}
				if kills >= 12 {
					at = 0 // to the end
				}
				if w.child(t, kind, at, itself) {
					kills++
				}
				j, err := w.load()
				if err != nil {
					t.Fatal(err)
				}
				if j.Done {
					break
				}
			}
			if kills < 5 {
				t.Errorf("killed only %d times", kills)
			}
			w.check(t)
		})
	}
}

// child runs a worker process until it is killed at act number at, by itself
// or by us, and reports whether it was.
func (w *worker) child(t *testing.T, kind string, at int, itself bool) bool {
	t.Helper()
	self := "0"
	if itself {
		self = strconv.Itoa(at)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envKind+"="+kind, envDir+"="+w.dir, envKill+"="+self)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for n := 1; lines.Scan(); n++ {
		if n == at && !itself { // it goes on while we do it
			if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Fatal(err)
			}
		}
	}
	var exit *exec.ExitError
	switch err := cmd.Wait(); {
	case err == nil:
		return false
	case errors.As(err, &exit) && exit.ExitCode() < 0:
		return true
	default:
		t.Fatalf("the worker failed: %v\n%s", err, stderr.String())
		return false
	}
}

func TestConformanceKilled(t *testing.T) {
	sinktest.RunKilled(t, sinktest.Killed{Seed: 7, Open: func(t sinktest.TB, dir string) sinktest.Target {
		c := object.Config{URL: fileURL(filepath.Join(dir, "lake")), Roll: object.Roll{Size: 400}}
		return sinktest.Target{
			New: func(t sinktest.TB) sink.Sink {
				s, err := object.New("out", c, object.Deps{})
				if err != nil {
					t.Fatalf("New: %v", err)
				}
				return s
			},
			Read: func(t sinktest.TB) []sinktest.Row { return conformanceRows(t, c) },
			Poison: func(s sinktest.Spec) record.Record {
				r := sinktest.Make(s)
				r.Value = []byte("{")
				return r
			},
		}
	}})
}
