package object_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"exactly/internal/failpoint"
	"exactly/record"
	"exactly/sink"
	"exactly/sink/object"
)

var start = time.Unix(1_800_000_000, 0)

// apply takes in entries behind prev and gives the verdicts.
func apply(t testing.TB, task sink.OutboxStager, prev, through sink.Pos, es ...sink.Entry) []sink.Verdict {
	t.Helper()
	res, err := task.Apply(t.Context(), sink.Batch{Prev: prev, Through: through, Records: es})
	if err != nil {
		t.Fatal(err)
	}
	if res.Through != through {
		t.Fatalf("came to %s, want %s", res.Through, through)
	}
	return res.Verdicts
}

func stage(t testing.TB, task sink.OutboxStager, now time.Time, force bool) []sink.Committable {
	t.Helper()
	cs, err := task.Stage(t.Context(), now, force)
	if err != nil {
		t.Fatal(err)
	}
	return cs
}

func commit(t testing.TB, task sink.OutboxStager, cs []sink.Committable) {
	t.Helper()
	if err := task.Commit(t.Context(), cs); err != nil {
		t.Fatal(err)
	}
}

func ranges(cs []sink.Committable) string {
	var out []string
	for _, c := range cs {
		out = append(out, fmt.Sprintf("(%s,%s]", c.From, c.Through))
	}
	return strings.Join(out, " ")
}

// TestFilesFollowThePolicy is an hour of epochs of one second (failure mode 30).
func TestFilesFollowThePolicy(t *testing.T) {
	t.Parallel()
	const epochs, perEpoch, line = 3600, 10, 101
	tests := []struct {
		name     string
		roll     object.Roll
		min, max int
	}{
		{"age", object.Roll{Age: 5 * time.Minute}, 12, 12},
		{"size", object.Roll{Age: 24 * time.Hour, Size: 500_000}, 7, 8},
		{"both", object.Roll{Age: 30 * time.Minute, Size: 1_000_000}, 4, 6},
		{"one", object.Roll{Age: 24 * time.Hour}, 1, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			url := fileURL(t.TempDir())
			task := open(t, object.Config{URL: url, Roll: tt.roll}, object.Deps{}, owner(1), sink.Pos{})
			value := `"` + strings.Repeat("x", line-3) + `"`
			var prev sink.Pos
			for n := int64(1); n <= epochs; n++ {
				var es []sink.Entry
				for i := range int64(perEpoch) {
					es = append(es, entry(n, i, value))
				}
				through := sink.Pos{Epoch: n, Index: perEpoch - 1}
				apply(t, task, prev, through, es...)
				prev = through
				commit(t, task, stage(t, task, start.Add(time.Duration(n)*time.Second), n == epochs))
			}
			if n := len(files(t, url)); n < tt.min || n > tt.max {
				t.Errorf("%d files, want %d to %d", n, tt.min, tt.max)
			}
			if n := len(rows(t, url, object.ReadOptions{})); n != epochs*perEpoch {
				t.Errorf("%d rows, want %d", n, epochs*perEpoch)
			}
		})
	}
}

// TestRollEpoch: one file for each epoch that has records, soon.
func TestRollEpoch(t *testing.T) {
	t.Parallel()
	url := fileURL(t.TempDir())
	task := open(t, object.Config{URL: url, Roll: object.Roll{Epoch: true}}, object.Deps{}, owner(1), sink.Pos{})
	p := func(e, i int64) sink.Pos { return sink.Pos{Epoch: e, Index: i} }

	apply(t, task, p(0, 0), p(1, 1), entry(1, 0, "1"), entry(1, 1, "2"))
	if cs := stage(t, task, start, false); len(cs) > 0 {
		t.Errorf("epoch 1 may have more records, but is staged: %s", ranges(cs))
	}
	apply(t, task, p(1, 1), p(1, 2), entry(1, 2, "3"))
	apply(t, task, p(1, 2), p(2, 0), entry(2, 0, "4"))
	cs := stage(t, task, start, false)
	if got, want := ranges(cs), "(0/0,1/2]"; got != want {
		t.Errorf("a later epoch came: got %s, want %s", got, want)
	}
	more := stage(t, task, start, false) // nothing came since
	if got, want := ranges(more), "(1/2,2/0]"; got != want {
		t.Errorf("nothing followed: got %s, want %s", got, want)
	}
	cs = append(cs, more...)
	apply(t, task, p(2, 0), p(4, 9), entry(3, 0, "5"), entry(4, 0, "6")) // 4/1 to 4/9 are for others
	apply(t, task, p(4, 9), p(5, 0))
	more = stage(t, task, start, false)
	if got, want := ranges(more), "(2/0,3/0] (3/0,5/0]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	commit(t, task, append(cs, more...))
	if n := len(files(t, url)); n != 4 {
		t.Errorf("%d files for 4 epochs", n)
	}
	if got, want := fmt.Sprint(rows(t, url, object.ReadOptions{})), "[1 2 3 4 5 6]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestEmptyRange: what holds no record still moves the cursor, by age.
func TestEmptyRange(t *testing.T) {
	t.Parallel()
	url := fileURL(t.TempDir())
	task := open(t, object.Config{URL: url, Roll: object.Roll{Age: time.Minute}}, object.Deps{}, owner(1), sink.Pos{})
	tombstone := entry(2, 3, "")
	tombstone.Value = nil
	apply(t, task, sink.Pos{}, sink.Pos{Epoch: 1, Index: 7})
	apply(t, task, sink.Pos{Epoch: 1, Index: 7}, sink.Pos{Epoch: 2, Index: 4}, tombstone)
	if cs := stage(t, task, start, false); len(cs) > 0 {
		t.Errorf("staged before its age: %s", ranges(cs))
	}
	verdicts := apply(t, task, sink.Pos{Epoch: 2, Index: 4}, sink.Pos{Epoch: 3, Index: 0}, entry(3, 0, "{"))
	if len(verdicts) != 1 || verdicts[0].Pos != (sink.Pos{Epoch: 3}) || verdicts[0].Code != "not_json" || verdicts[0].Reason == "" {
		t.Errorf("verdicts %+v, want one not_json at 3/0", verdicts)
	}
	cs := stage(t, task, start.Add(time.Minute), false)
	if got, want := ranges(cs), "(0/0,3/0]"; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	for range 2 {
		commit(t, task, cs)
	}
	if err := errors.Join(task.Sweep(t.Context(), cs), task.Abort(t.Context(), cs)); err != nil {
		t.Error(err)
	}
	if fs := files(t, url); len(fs) > 0 {
		t.Errorf("files %v, want none", fs)
	}
	if cs := stage(t, task, start.Add(time.Hour), true); len(cs) > 0 {
		t.Errorf("nothing came, but staged %s", ranges(cs))
	}
}

// TestRefusedRecord: its position is inside the range, the record is not in the
// file.
func TestRefusedRecord(t *testing.T) {
	t.Parallel()
	url := fileURL(t.TempDir())
	c := object.Config{URL: url, Format: "parquet", Schema: map[string]string{"n": "int64"}}
	task := open(t, c, object.Deps{}, owner(1), sink.Pos{})
	verdicts := apply(t, task, sink.Pos{}, sink.Pos{Epoch: 1, Index: 4},
		entry(1, 0, `{"n":"x"}`), entry(1, 1, `{"n":1}`), entry(1, 2, `{"n":true}`), entry(1, 3, `{"n":2}`), entry(1, 4, `{"n":{}}`))
	got := ""
	for _, v := range verdicts {
		got += fmt.Sprint(v.Pos, " ", v.Code, ";")
	}
	if want := "1/0 wrong_type;1/2 wrong_type;1/4 wrong_type;"; got != want {
		t.Errorf("verdicts %s, want %s", got, want)
	}
	cs := stage(t, task, start, true)
	if got, want := ranges(cs), "(0/0,1/4]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	commit(t, task, cs)
	if got, want := fmt.Sprint(rows(t, url, object.ReadOptions{})), `[{"n":1} {"n":2}]`; got != want {
		t.Errorf("rows %s, want %s", got, want)
	}
}

// TestVerdictsAreBounded: a group with many verdicts is ripe.
func TestVerdictsAreBounded(t *testing.T) {
	t.Parallel()
	task := open(t, object.Config{URL: fileURL(t.TempDir())}, object.Deps{}, owner(1), sink.Pos{})
	var es []sink.Entry
	for i := range int64(600) {
		es = append(es, entry(1, i, "x"))
	}
	if n := len(apply(t, task, sink.Pos{}, sink.Pos{Epoch: 1, Index: 599}, es...)); n != 600 {
		t.Errorf("%d verdicts, want 600", n)
	}
	if got, want := ranges(stage(t, task, start, false)), "(0/0,1/255] (1/255,1/511]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestApplyStopsShort: a bounded number of files waits for Stage.
func TestApplyStopsShort(t *testing.T) {
	t.Parallel()
	url := fileURL(t.TempDir())
	task := open(t, object.Config{URL: url, Roll: object.Roll{Size: 1}}, object.Deps{}, owner(1), sink.Pos{})
	var es []sink.Entry
	for i := range int64(100) {
		es = append(es, entry(1, i, fmt.Sprint(i)))
	}
	b := sink.Batch{Through: sink.Pos{Epoch: 1, Index: 99}, Records: es}
	total := 0
	for b.Prev.Before(b.Through) {
		res, err := task.Apply(t.Context(), b)
		if err != nil || !b.Prev.Before(res.Through) {
			t.Fatalf("came from %s to %s, %v", b.Prev, res.Through, err)
		}
		again, err := task.Apply(t.Context(), b)
		if err != nil || again.Through != res.Through {
			t.Fatalf("full, but came from %s to %s, %v", res.Through, again.Through, err)
		}
		b.Prev = res.Through
		cs := stage(t, task, start, false)
		if len(cs) > 40 {
			t.Errorf("%d groups at once", len(cs))
		}
		total += len(cs)
		commit(t, task, cs)
	}
	if got := len(rows(t, url, object.ReadOptions{})); got != 100 || total != 100 {
		t.Errorf("%d rows in %d files, want 100 in 100", got, total)
	}
}

// TestStageRepeated: an answer that was lost is given again.
func TestStageRepeated(t *testing.T) {
	t.Parallel()
	o, lost := owner(1), errors.New("lost")
	fail := 3
	o.Failpoints = failpoint.New(func(_ context.Context, p failpoint.Point, _ int32, epoch int64) error {
		if p == failpoint.SinkStageAfter && epoch == 1 && fail > 0 {
			fail--
			return lost
		}
		return nil
	})
	task := open(t, object.Config{URL: fileURL(t.TempDir())}, object.Deps{}, o, sink.Pos{})
	apply(t, task, sink.Pos{}, sink.Pos{Epoch: 1}, entry(1, 0, "1"))
	for range 3 {
		if cs, err := task.Stage(t.Context(), start, true); !errors.Is(err, lost) || cs != nil {
			t.Fatalf("got %s, %v", ranges(cs), err)
		}
	}
	apply(t, task, sink.Pos{Epoch: 1}, sink.Pos{Epoch: 2}, entry(2, 0, "2"))
	if got, want := ranges(stage(t, task, start, true)), "(0/0,1/0] (1/0,2/0]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestClose: what Stage gave stays, the rest goes.
func TestClose(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := object.Config{URL: fileURL(dir), Roll: object.Roll{Size: 1_000_000}}
	task := open(t, c, object.Deps{}, owner(1), sink.Pos{})
	apply(t, task, sink.Pos{}, sink.Pos{Epoch: 1}, entry(1, 0, "1"))
	cs := stage(t, task, start, true)
	big := `"` + strings.Repeat("x", 700_000) + `"`
	apply(t, task, sink.Pos{Epoch: 1}, sink.Pos{Epoch: 4}, entry(2, 0, big), entry(3, 0, big), entry(4, 0, big))
	if n := len(stagedFiles(t, dir)); n != 3 {
		t.Errorf("%d staged files, want 3", n)
	}
	for range 2 {
		if err := task.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := len(stagedFiles(t, dir)); n != 1 {
		t.Errorf("%d staged files after Close, want the one that Stage gave", n)
	}
	if _, err := task.Apply(t.Context(), sink.Batch{Prev: sink.Pos{Epoch: 4}, Through: sink.Pos{Epoch: 5}}); err == nil {
		t.Errorf("Apply after Close succeeds")
	}
	commit(t, open(t, c, object.Deps{}, owner(2), sink.Pos{Epoch: 1}), cs)
	if got := fmt.Sprint(rows(t, c.URL, object.ReadOptions{})); got != "[1]" {
		t.Errorf("rows %s", got)
	}
}

// TestAtLeastOnce: a replay shows as a second file.
func TestAtLeastOnce(t *testing.T) {
	t.Parallel()
	url := fileURL(t.TempDir())
	o := owner(1)
	o.Guarantee = sink.AtLeastOnce
	for range 2 {
		task := open(t, object.Config{URL: url}, object.Deps{}, o, sink.Pos{})
		apply(t, task, sink.Pos{Epoch: 7}, sink.Pos{Epoch: 8}, entry(8, 0, "1"))
		cs := stage(t, task, start, true)
		commit(t, task, cs)
		commit(t, task, cs)
	}
	fs := files(t, url)
	if len(fs) != 2 || fs[0].Name.Nonce == "" || fs[0].Name.Nonce == fs[1].Name.Nonce {
		t.Errorf("files %+v, want two with nonces", fs)
	}
	if got := fmt.Sprint(rows(t, url, object.ReadOptions{})); got != "[1 1]" {
		t.Errorf("rows %s, want the record twice", got)
	}
}

func TestPartitions(t *testing.T) {
	t.Parallel()
	url := fileURL(t.TempDir())
	c := object.Config{URL: url, PartitionBy: `"day=" + day + "/" + kind`, MaxOpen: 2}
	task := open(t, c, object.Deps{}, owner(1), sink.Pos{})
	var es []sink.Entry
	var bad int
	for i := range int64(30) {
		value := fmt.Sprintf(`{"day":"%d","kind":"%c","i":%d}`, i%3, 'a'+byte(i/15), i)
		if i%10 == 9 {
			value, bad = []string{`{"day":7,"kind":"a"}`, `{"day":"1"}`, `{"day":"1","kind":""}`}[bad], bad+1
		}
		es = append(es, entry(1+i/10, i%10, value))
	}
	verdicts := apply(t, task, sink.Pos{}, sink.Pos{Epoch: 3, Index: 9}, es...)
	got := ""
	for _, v := range verdicts {
		got += v.Pos.String() + " " + v.Code + ";"
	}
	if want := "1/9 wrong_type;2/9 expression;3/9 partition_value;"; got != want {
		t.Errorf("verdicts %s, want %s: %+v", got, want, verdicts)
	}
	cs := stage(t, task, start, true)
	if got, want := ranges(cs), "(0/0,3/9]"; got != want {
		t.Errorf("files that were open together are one work: got %s, want %s", got, want)
	}
	commit(t, task, cs)
	seen := map[int]int{}
	for row, err := range object.Rows(t.Context(), url, object.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		folder := row.File[:strings.LastIndex(row.File, "/")]
		var v struct {
			Day, Kind string
			I         int
		}
		if err := json.Unmarshal(row.Value, &v); err != nil {
			t.Fatalf("%s: %v", row.Value, err)
		}
		if want := "day=" + v.Day + "/" + v.Kind; folder != want {
			t.Errorf("%s lies in %s, want %s", row.Value, folder, want)
		}
		seen[v.I]++
	}
	if len(seen) != 27 {
		t.Errorf("%d records, want 27: %v", len(seen), seen)
	}
	for _, f := range files(t, url) {
		if f.Name.From != (sink.Pos{}) || (sink.Pos{Epoch: 3, Index: 9}).Before(f.Name.Through) {
			t.Errorf("%s is outside of its group", f.Path)
		}
	}
}

// TestManyPartitions: a committable stays small however many folders there are.
func TestManyPartitions(t *testing.T) {
	t.Parallel()
	url := fileURL(t.TempDir())
	d := object.Deps{Folder: func(r *record.Record) (string, error) { return strings.Repeat("f", 150) + "=" + string(r.Value), nil }}
	task := open(t, object.Config{URL: url}, d, owner(1), sink.Pos{})
	b := sink.Batch{Through: sink.Pos{Epoch: 1, Index: 299}}
	for i := range int64(300) {
		b.Records = append(b.Records, entry(1, i, fmt.Sprint(i)))
	}
	for b.Prev.Before(b.Through) {
		res, err := task.Apply(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		b.Prev = res.Through
		cs := stage(t, task, start, b.Prev == b.Through)
		for _, c := range cs {
			if len(c.Data) >= 64<<10 {
				t.Errorf("a committable of %d bytes", len(c.Data))
			}
		}
		commit(t, task, cs)
	}
	if n := len(files(t, url)); n != 300 {
		t.Errorf("%d files, want 300", n)
	}
}
