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
)

// mostMemory is what a worker may have resident at its peak.
const mostMemory = 250 << 20

// TestBacklogMemory: two workers with every setting at its default work through
// a backlog, in bounded memory.
func TestBacklogMemory(t *testing.T) {
	n := sized(t, int64(500_000), 5_000_000)
	p := newPipeline(t, services.Kafka(t, one), shape{Sinks: []string{"enriched", "records", "lake"}, RollAge: "5s"})
	code, out, errs := p.command("produce", p.file, "--count", fmt.Sprint(n), "--rate", "0")
	if code != 0 {
		t.Fatalf("produce: exit code %d\n%s%s", code, out, errs)
	}
	begin := time.Now()
	ws := []*worker{p.start(0), p.start(1)}
	took, files := map[string]time.Duration{}, map[string]int64{}
	await(t, "the backlog to be worked off", func(ctx context.Context) (string, bool) {
		counts := map[string]int64{"enriched": p.enriched(ctx), "records": p.rows(ctx), "lake": p.lakeRows(ctx, files)}
		for name, have := range counts {
			if _, ok := took[name]; !ok && have >= n {
				took[name] = time.Since(begin)
			}
		}
		for _, w := range ws {
			w.mustLive()
		}
		return fmt.Sprint(counts), len(took) == len(counts)
	})
	for name, d := range took {
		t.Logf("%s: %d records in %s, %.0f per second", name, n, d.Round(time.Millisecond), float64(n)/d.Seconds())
	}
	for _, w := range ws {
		peak, err := w.PeakRSS()
		check(t, err)
		t.Logf("worker %d: at most %d MB resident (VmHWM)", w.slot, peak>>20)
		if peak > mostMemory {
			t.Errorf("worker %d had %d MB resident, want %d at most", w.slot, peak>>20, mostMemory>>20)
		}
	}
	p.stop(ws...)
	p.wantRight(n)
}

// enriched counts what the output topic holds by the offsets that were committed
// with it.
func (p *pipeline) enriched(ctx context.Context) int64 {
	committed, err := p.adm.FetchOffsets(ctx, p.group())
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
func (p *pipeline) rows(ctx context.Context) int64 {
	if _, err := os.Stat(p.DB); err != nil {
		return 0 // not yet made by a worker
	}
	db, err := openDB(p.DB, "ro")
	check(p.t, err)
	defer db.Close()
	var n int64
	if err := db.QueryRowContext(ctx, "SELECT coalesce(max(rowid), 0) FROM payment_records").Scan(&n); err != nil {
		return 0 // nor the table
	}
	return n
}

// lakeRows adds up what the files' footers say; known are those of before.
func (p *pipeline) lakeRows(ctx context.Context, known map[string]int64) int64 {
	p.t.Helper()
	var n int64
	for f, err := range object.Files(ctx, p.Lake) {
		if errors.Is(err, fs.ErrNotExist) {
			return 0
		}
		check(p.t, err)
		if _, ok := known[f.Path]; !ok {
			known[f.Path] = footerRows(p.t, filepath.Join(p.dir, "lake", f.Path))
		}
		n += known[f.Path]
	}
	return n
}

func footerRows(t *testing.T, path string) int64 {
	t.Helper()
	f, err := os.Open(path)
	check(t, err)
	defer f.Close()
	info, err := f.Stat()
	check(t, err)
	pf, err := parquet.OpenFile(f, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	check(t, err)
	return pf.NumRows()
}
