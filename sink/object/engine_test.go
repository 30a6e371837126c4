package object_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"exactly/internal/failpoint"
	"exactly/record"
	"exactly/sink"
	"exactly/sink/object"
)

var quiet = slog.New(slog.DiscardHandler)

func owner(attempt int64) sink.Owner {
	return sink.Owner{
		Incarnation: "00c0ffee00c0ffee", Pipeline: "payments", Sink: "lake", Generation: 1, Task: 0, Tasks: 1,
		Attempt: attempt, Guarantee: sink.ExactlyOnce, Log: quiet,
	}
}

func open(t testing.TB, c object.Config, d object.Deps, o sink.Owner, from sink.Pos) sink.OutboxStager {
	t.Helper()
	s, err := object.New(o.Sink, c, d)
	if err != nil {
		t.Fatal(err)
	}
	task, resume, err := s.OpenOutbox(t.Context(), o, from)
	if err != nil {
		t.Fatal(err)
	}
	if resume.Through != from {
		t.Fatalf("resumes at %s, want %s", resume.Through, from)
	}
	return task.(sink.OutboxStager)
}

func fileURL(dir string) string { return "file://" + filepath.ToSlash(dir) }

func entry(epoch, index int64, value string) sink.Entry {
	return sink.Entry{Pos: sink.Pos{Epoch: epoch, Index: index}, Record: record.Record{
		Key: []byte("k"), Value: []byte(value), Timestamp: epoch,
		Source: record.Position{Topic: "t", Offset: epoch*1000 + index},
	}}
}

// rows reads everything below a url.
func rows(t testing.TB, url string, o object.ReadOptions) []string {
	t.Helper()
	var out []string
	for row, err := range object.Rows(t.Context(), url, o) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(row.Value))
	}
	return out
}

func files(t testing.TB, url string) []object.File {
	t.Helper()
	var out []object.File
	for f, err := range object.Files(t.Context(), url) {
		if err != nil {
			t.Fatal(err)
		}
		if !f.Ours {
			t.Errorf("file %s does not parse", f.Path)
		}
		out = append(out, f)
	}
	return out
}

func stagedFiles(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "_exactly", "staging"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// worker plays the engine in one process: its journal is a file.
type worker struct {
	dir    string
	config object.Config
	epochs int64
	epoch  func(n int64) []sink.Entry // the outbox
	cut    int                        // records of a batch
	hit    func(point string)         // between any two acts
	now    func(n int64) time.Time
}

type journal struct {
	Attempt int64
	Cursor  sink.Pos
	Pending []sink.Committable
	Done    bool
}

func (w *worker) journalPath() string { return filepath.Join(w.dir, "journal.json") }

func (w *worker) load() (j journal, err error) {
	b, err := os.ReadFile(w.journalPath())
	if errors.Is(err, fs.ErrNotExist) {
		return journal{}, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &j)
	}
	return j, err
}

// decide replaces the journal at once, as a transaction does.
func (w *worker) decide(j journal) error {
	b, err := json.Marshal(j)
	if err != nil {
		return err
	}
	w.hit("before decision")
	tmp := w.journalPath() + ".tmp"
	if err := os.WriteFile(tmp, b, 0o644); err != nil {
		return err
	}
	if err := os.Rename(tmp, w.journalPath()); err != nil {
		return err
	}
	w.hit("decided")
	return nil
}

// run takes over and brings the pipeline to its end.
func (w *worker) run(ctx context.Context) error {
	j, err := w.load()
	if err != nil {
		return err
	}
	j.Attempt++
	if err := w.decide(j); err != nil { // the claim
		return err
	}
	s, err := object.New("lake", w.config, object.Deps{})
	if err != nil {
		return err
	}
	o := owner(j.Attempt)
	o.Failpoints = failpoint.New(func(_ context.Context, p failpoint.Point, _ int32, _ int64) error {
		w.hit(string(p))
		return nil
	})
	opened, _, err := s.OpenOutbox(ctx, o, j.Cursor)
	if err != nil {
		return err
	}
	t := opened.(sink.OutboxStager)
	if err := errors.Join(t.Commit(ctx, j.Pending), t.Sweep(ctx, j.Pending)); err != nil {
		return err
	}
	j.Pending = nil
	taken := j.Cursor
	for n := max(taken.Epoch, 1); n <= w.epochs; n++ {
		if taken, err = w.feed(ctx, t, n, taken); err != nil {
			return err
		}
		if err := w.barrier(ctx, t, n, &j); err != nil {
			return err
		}
	}
	j.Done = true
	return errors.Join(w.decide(j), t.Close())
}

// feed applies epoch n from taken on.
func (w *worker) feed(ctx context.Context, t sink.OutboxStager, n int64, taken sink.Pos) (sink.Pos, error) {
	es := w.epoch(n)
	for len(es) > 0 && !taken.Before(es[0].Pos) {
		es = es[1:]
	}
	for len(es) > 0 {
		k := min(w.cut, len(es))
		b := sink.Batch{Prev: taken, Through: es[k-1].Pos, Records: es[:k]}
		res, err := t.Apply(ctx, b)
		if err != nil || res.Through != b.Through {
			return taken, fmt.Errorf("apply (%s, %s] came to %s: %w", b.Prev, b.Through, res.Through, err)
		}
		taken, es = b.Through, es[k:]
		w.hit("applied")
	}
	return taken, nil
}

// barrier is stage, decide, commit.
func (w *worker) barrier(ctx context.Context, t sink.OutboxStager, n int64, j *journal) error {
	cs, err := t.Stage(ctx, w.now(n), n == w.epochs)
	if err != nil || len(cs) == 0 {
		return err
	}
	for i := range cs {
		cs[i].Epoch = n
		if cs[i].From != j.Cursor {
			return fmt.Errorf("range begins at %s, the one before ended at %s", cs[i].From, j.Cursor)
		}
		j.Cursor = cs[i].Through
	}
	j.Pending = cs
	if err := w.decide(*j); err != nil {
		return err
	}
	if err := t.Commit(ctx, cs); err != nil {
		return err
	}
	w.hit("committed")
	j.Pending = nil
	return nil
}

// check demands the records of all epochs, byte by byte, once and in order, and
// that ranges join.
func (w *worker) check(t *testing.T) {
	t.Helper()
	var want [][]byte
	for n := int64(1); n <= w.epochs; n++ {
		for _, e := range w.epoch(n) {
			want = append(want, e.Value)
		}
	}
	i := 0
	for row, err := range object.Rows(t.Context(), w.config.URL, object.ReadOptions{Envelope: w.config.Envelope}) {
		if err != nil {
			t.Fatal(err)
		}
		if i >= len(want) || !bytes.Equal(row.Value, want[i]) {
			t.Fatalf("row %d (%s, row %d) is %.60s, which is not what was written (%d rows in all)", i, row.File, row.Index, row.Value, len(want))
		}
		i++
	}
	if i != len(want) {
		t.Errorf("%d rows, want %d", i, len(want))
	}
	last := sink.Pos{}
	for _, f := range files(t, w.config.URL) {
		if f.Name.From.Before(last) {
			t.Errorf("the range of %s overlaps the one before", f.Path)
		}
		last = f.Name.Through
	}
	if left := stagedFiles(t, w.dir); len(left) > 0 {
		t.Errorf("staged files remain: %v", left)
	}
}
