package object_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	pq "github.com/parquet-go/parquet-go"

	"exactly/record"
	"exactly/sink"
	"exactly/sink/object"
)

// TestMemory holds a task to its memory while one file (or eight) grows to
// 24 MiB. It runs alone, since it measures the whole process.
func TestMemory(t *testing.T) {
	const total, limit = 24 << 20, 13 << 20
	spread := object.Deps{Folder: func(r *record.Record) (string, error) { return fmt.Sprint("p=", r.Source.Offset%8), nil }}
	tests := []struct {
		name string
		c    object.Config
		d    object.Deps
	}{
		{"jsonl", object.Config{}, object.Deps{}},
		{"jsonl gzip in 8 folders", object.Config{Compression: "gzip"}, spread},
		{"jsonl zstd in 8 folders", object.Config{Compression: "zstd"}, spread},
		{"parquet", object.Config{Format: "parquet"}, object.Deps{}},
		{"parquet in 8 folders", object.Config{Format: "parquet"}, spread},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.c.URL = fileURL(t.TempDir())
			tt.c.Roll.Size = 1 << 40
			task := open(t, tt.c, tt.d, owner(1), sink.Pos{})
			rng := rand.New(rand.NewPCG(1, 2))
			before, most := heap(), int64(0)
			var prev sink.Pos
			written := 0
			for n := int64(1); written < total; n++ {
				b := sink.Batch{Prev: prev}
				for i := range int64(512) {
					b.Records = append(b.Records, entry(n, i, fmt.Sprintf(`{"a":"%x","b":{"n":%d},"c":%g}`, rng.Uint64(), rng.Uint64(), rng.Float64())))
					written += len(b.Records[i].Value)
				}
				b.Through = sink.Pos{Epoch: n, Index: 511}
				if _, err := task.Apply(t.Context(), b); err != nil {
					t.Fatal(err)
				}
				prev, b.Records = b.Through, nil
				if n%50 == 0 {
					most = max(most, heap()-before)
				}
			}
			if most > limit {
				t.Errorf("the heap grew by %d KiB, want at most %d", most>>10, limit>>10)
			}
			t.Logf("%d KiB", most>>10)
			commit(t, task, stage(t, task, start, true))
			if err := task.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// heap is what is alive.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the second empties the pools of the first
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestRowGroups: they are bounded by bytes, and not by small ones.
func TestRowGroups(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	task := open(t, object.Config{URL: fileURL(dir), Format: "parquet", Compression: "none"}, object.Deps{}, owner(1), sink.Pos{})
	const total = 20 << 20
	b := sink.Batch{}
	for i := range int64(total / 10_000) {
		b.Through = sink.Pos{Epoch: 1, Index: i}
		b.Records = append(b.Records, entry(1, i, text(1, i, 10_000)))
	}
	apply(t, task, b.Prev, b.Through, b.Records...)
	commit(t, task, stage(t, task, start, true))
	fs := files(t, fileURL(dir))
	f, err := os.Open(filepath.Join(dir, fs[0].Path))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := pq.OpenFile(f, fs[0].Size)
	if err != nil {
		t.Fatal(err)
	}
	groups := p.Metadata().RowGroups
	for i, g := range groups {
		if size := g.TotalByteSize; size > 5<<20 || size < 3<<20 && i < len(groups)-1 {
			t.Errorf("row group %d of %d has %d KiB", i, len(groups), size>>10)
		}
	}
	if len(groups) < 5 {
		t.Errorf("%d row groups", len(groups))
	}
}
