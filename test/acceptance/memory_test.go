//go:build services

package acceptance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"exactly/internal/services"
	"exactly/sink/object"
	"exactly/test/rig"
)

// mostMemory is what a worker may have resident at its peak.
const mostMemory = 250 << 20

// TestBacklogMemory: two workers with every setting at its default work through
// a backlog, in bounded memory.
func TestBacklogMemory(t *testing.T) {
	n := rig.Sized(t, int64(500_000), 5_000_000)
	p := rig.New(t, services.Kafka(t, one), rig.Shape{Sinks: []string{"enriched", "records", "lake"}, RollAge: "5s"})
	code, out, errs := p.Command("produce", p.File, "--count", fmt.Sprint(n), "--rate", "0")
	if code != 0 {
		t.Fatalf("produce: exit code %d\n%s%s", code, out, errs)
	}
	begin := time.Now()
	ws := []*rig.Worker{p.Run(0), p.Run(1)}
	took, files := map[string]time.Duration{}, map[string]int64{}
	rig.Await(t, "the backlog to be worked off", func(ctx context.Context) (string, bool) {
		counts := map[string]int64{"enriched": enriched(p, ctx), "records": rows(p, ctx), "lake": lakeRows(p, ctx, files)}
		for name, have := range counts {
			if _, ok := took[name]; !ok && have >= n {
				took[name] = time.Since(begin)
			}
		}
		for _, w := range ws {
			w.MustLive()
		}
		return fmt.Sprint(counts), len(took) == len(counts)
	})
	for name, d := range took {
		t.Logf("%s: %d records in %s, %.0f per second", name, n, d.Round(time.Millisecond), float64(n)/d.Seconds())
	}
	for _, w := range ws {
		peak, err := w.PeakRSS()
		rig.Check(t, err)
		t.Logf("worker %d: at most %d MB resident (VmHWM)", w.Slot, peak>>20)
		if peak > mostMemory {
			t.Errorf("worker %d had %d MB resident, want %d at most", w.Slot, peak>>20, mostMemory>>20)
		}
	}
	p.Stop(ws...)
	p.WantRight(n)
}

// enriched counts what the output topic holds by the offsets that were committed
// with it.
func enriched(p *rig.Pipeline, ctx context.Context) int64 {
	committed, err := p.Admin.FetchOffsets(ctx, p.Group())
	if err != nil {
		return 0 // no worker has made the group yet
	}
	var n int64
	for _, r := range committed[p.Raw] {
		n += r.At
	}
	return n
}

// rows counts the table's rows; none are ever deleted here.
func rows(p *rig.Pipeline, ctx context.Context) int64 {
	if _, err := os.Stat(p.DB); err != nil {
		return 0 // not yet made by a worker
	}
	db, err := rig.OpenDB(p.DB, "ro")
	rig.Check(p.T, err)
	defer db.Close()
	var n int64
	if err := db.QueryRowContext(ctx, "SELECT coalesce(max(rowid), 0) FROM payment_records").Scan(&n); err != nil {
		return 0 // nor the table
	}
	return n
}

// lakeRows adds up what the files' footers say; known are those of before.
func lakeRows(p *rig.Pipeline, ctx context.Context, known map[string]int64) int64 {
	p.T.Helper()
	var n int64
	for f, err := range object.Files(ctx, p.Lake) {
		if errors.Is(err, fs.ErrNotExist) {
			return 0
		}
		rig.Check(p.T, err)
		if _, ok := known[f.Path]; !ok {
			known[f.Path] = footerRows(p.T, filepath.Join(p.Dir, "lake", f.Path))
		}
		n += known[f.Path]
	}
	return n
}

func footerRows(t *testing.T, path string) int64 {
	t.Helper()
	f, err := os.Open(path)
	rig.Check(t, err)
	defer f.Close()
	info, err := f.Stat()
	rig.Check(t, err)
	pf, err := parquet.OpenFile(f, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	rig.Check(t, err)
	return pf.NumRows()
}
