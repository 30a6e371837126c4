package object

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"exactly/record"
	"exactly/sink"
	"exactly/sink/object/file"
	"exactly/sink/object/store"
)

var errFull = errors.New("no space left")

// flaky is a file store of which every other call that makes a file fails, and
// the first that completes it.
type flaky struct {
	*file.Store
	broken bool // Finish breaks the upload for good
	calls  int
	tried  map[string]bool // to complete
}

func (s *flaky) fails() bool { s.calls++; return s.calls%2 == 1 }

func (s *flaky) Create(ctx context.Context, name string) (store.Upload, error) {
	if s.fails() {
		return nil, errFull
	}
	u, err := s.Store.Create(ctx, name)
	return &flakyUpload{Upload: u, s: s}, err
}

func (s *flaky) Complete(ctx context.Context, st store.Staged) error {
	if !s.tried[st.Name] {
		s.tried[st.Name] = true
		return errFull
	}
	return s.Store.Complete(ctx, st)
}

type flakyUpload struct {
	store.Upload
	s *flaky
}

func (u *flakyUpload) Put(ctx context.Context, p []byte) error {
	if u.s.fails() {
		return errFull
	}
	return u.Upload.Put(ctx, p)
}

func (u *flakyUpload) Finish(ctx context.Context, final string) (store.Staged, error) {
	if u.s.broken {
		return store.Staged{}, fmt.Errorf("flush: %w", store.ErrBroken)
	}
	if u.s.fails() {
		return store.Staged{}, errFull
	}
	return u.Upload.Finish(ctx, final)
}

func flakyTask(t *testing.T, c Config, broken bool) *task {
	t.Helper()
	s, err := New("lake", c, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	s.store = &flaky{Store: s.store.(*file.Store), broken: broken, tried: map[string]bool{}}
	opened, _, err := s.OpenOutbox(t.Context(), sink.Owner{
		Incarnation: "00c0ffee00c0ffee", Pipeline: "p", Sink: "lake", Generation: 1, Attempt: 1, Guarantee: sink.ExactlyOnce,
	}, sink.Pos{})
	if err != nil {
		t.Fatal(err)
	}
	return opened.(*task)
}

// retry calls again while the error may pass.
func retry(t *testing.T, f func() error) {
	t.Helper()
	for range 500 {
		err := f()
		if err == nil {
			return
		}
		if !errors.Is(err, errFull) || sink.Classify(err) != sink.ClassTransient {
			t.Fatalf("got %v, want a transient error", err)
		}
	}
	t.Fatal("500 calls failed")
}

// TestFullDisk: a store that fails now and then costs calls, and neither bytes
// nor memory.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for _, c := range []Config{
		{}, {Compression: "zstd"}, {Format: "parquet"}, {Roll: Roll{Size: 300 << 10}}, {Format: "parquet", Roll: Roll{Size: 1 << 20}},
	} {
		t.Run(fmt.Sprint(c.Format, c.Compression, c.Roll.Size), func(t *testing.T) {
			t.Parallel()
			c.URL = "file://" + filepath.ToSlash(t.TempDir())
			tk := flakyTask(t, c, false)
			var want []string
			b := sink.Batch{}
			for i := range int64(60) {
				want = append(want, fmt.Sprintf(`"%d%s"`, i, strings.Repeat("x", 100_000)))
				b.Through = sink.Pos{Epoch: 1, Index: i}
				b.Records = append(b.Records, sink.Entry{Pos: b.Through, Record: record.Record{Value: []byte(want[i])}})
			}
			retry(t, func() error {
				res, err := tk.Apply(t.Context(), b)
				if res.Through.Before(b.Prev) {
					t.Errorf("went back from %s to %s", b.Prev, res.Through)
				}
				b.Prev = res.Through
				return err
			})
			var cs []sink.Committable
			retry(t, func() (err error) {
				cs, err = tk.Stage(t.Context(), time.Unix(1, 0), true)
				return err
			})
			retry(t, func() error { return tk.Commit(t.Context(), cs) })
			i := 0
			for row, err := range Rows(t.Context(), c.URL, ReadOptions{}) {
				if err != nil {
					t.Fatal(err)
				}
				if i >= len(want) || string(row.Value) != want[i] {
					t.Fatalf("row %d is %.30s", i, row.Value)
				}
				i++
			}
			if i != len(want) {
				t.Errorf("%d rows, want %d", i, len(want))
			}
		})
	}
}

// TestBrokenUpload: a flush that failed ends the attempt.
func TestBrokenUpload(t *testing.T) {
	t.Parallel()
	tk := flakyTask(t, Config{URL: "file://" + filepath.ToSlash(t.TempDir())}, true)
	b := sink.Batch{Through: sink.Pos{Epoch: 1}, Records: []sink.Entry{{Pos: sink.Pos{Epoch: 1}, Record: record.Record{Value: []byte("1")}}}}
	if _, err := tk.Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	var err error
	for range 5 {
		if _, err = tk.Stage(t.Context(), time.Unix(1, 0), true); sink.Classify(err) == sink.ClassFatal {
			break
		}
	}
	if !errors.Is(err, store.ErrBroken) {
		t.Fatalf("got %v, want ErrBroken", err)
	}
	for range 2 { // and for ever
		if _, err := tk.Stage(t.Context(), time.Unix(1, 0), true); sink.Classify(err) != sink.ClassFatal {
			t.Errorf("got %v, want fatal", err)
		}
		if _, err := tk.Apply(t.Context(), b); sink.Classify(err) != sink.ClassFatal {
			t.Errorf("got %v, want fatal", err)
		}
	}
}
