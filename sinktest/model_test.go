package sinktest_test

import (
	"fmt"
	"strings"
	"testing"

	"exactly/record"
	"exactly/sink"
	"exactly/sinktest"
)

// subject runs the suite against the model sinks of one kind.
func subject(kind string, defects ...sinktest.Defect) sinktest.Subject {
	return sinktest.Subject{
		Variants: []string{"keyed", "keyless"},
		Rounds:   200, Large: 2000,
		Open: func(t sinktest.TB, variant string) sinktest.Target {
			srv := sinktest.NewServer(defects...)
			opt := sinktest.Options{Keyed: variant == "keyed"}
			return sinktest.Target{
				InMemory: variant == "keyless", // rows with keys are written over
				New:      func(sinktest.TB) sink.Sink { return newModel(kind, srv, opt) },
				Read: func(t sinktest.TB) []sinktest.Row {
					rows, err := srv.Rows("rows")
					if err != nil {
						t.Fatalf("read the model: %v", err)
					}
					return rows
				},
				Poison: func(s sinktest.Spec) record.Record {
					s.Extra = "poison"
					return sinktest.Make(s)
				},
				Down:     func(sinktest.TB) { srv.Down() },
				Up:       func(sinktest.TB) { srv.Up() },
				Kill:     func(sinktest.TB) { srv.Kill() },
				SetFault: func(_ sinktest.TB, f sinktest.Fault) { srv.SetFault(f) },
			}
		},
	}
}

func newModel(kind string, srv *sinktest.Server, opt sinktest.Options) sink.Sink {
	switch kind {
	case "outbox":
		return sinktest.NewModelOutbox(srv, opt)
	case "bare":
		opt.Bare = true
		return sinktest.NewModelOutbox(srv, opt)
	case "fencing":
		opt.Fences = true
		return sinktest.NewModelOutbox(srv, opt)
	case "staging":
		return sinktest.NewModelStaging(srv, opt)
	case "collector":
		opt.Collect = true
		return sinktest.NewModelStaging(srv, opt)
	}
	return sinktest.NewModelStager(srv, opt)
}

var kinds = []string{"outbox", "bare", "fencing", "staging", "collector", "stager"}

// TestModels runs one kind after the other: their memory is measured.
func TestModels(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) { sinktest.Run(t, subject(kind)) })
	}
}

// TestSuiteCanFail gives the models one defect each and demands red.
func TestSuiteCanFail(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		defect   sinktest.Defect
		scenario string // at least this one has to notice
		kinds    string
	}{
		{sinktest.LedgerIgnored, "SameBatchTwice", "outbox stager"},
		{sinktest.DuplicateOnRetry, "ServiceFaults", "outbox"},
		{sinktest.SplitTransaction, "FailPoints", "outbox"},
		{sinktest.PointLeftOut, "FailPoints", "outbox bare staging stager"},
		{sinktest.GapAccepted, "Gap", "outbox stager"},
		{sinktest.AheadAccepted, "JournalAheadOfLedger", "outbox"},
		{sinktest.AheadAccepted, "JournalAheadOfMarks", "staging collector"},
		{sinktest.LastRecordLost, "HappyPath", "outbox staging stager"},
		{sinktest.Reordered, "RecordsOfOneKey", "outbox staging stager"},
		{sinktest.KeepsBatch, "CallerOwnsBatch", "outbox"},
		{sinktest.VerdictDropped, "PoisonThenCrash", "outbox staging stager"},
		{sinktest.VerdictTwice, "Poison", "outbox"},
		{sinktest.PoisonTakesBatch, "Poison", "outbox staging stager"},
		{sinktest.TombstoneIgnored, "Tombstones", "outbox staging stager"},
		{sinktest.DownIsPoison, "ServiceDown", "outbox staging stager"},
		{sinktest.DownIsSuccess, "ServiceDown", "outbox staging stager"},
		{sinktest.ForeignMarkIgnored, "ForeignMark", "outbox staging stager"},
		{sinktest.OwnerByPrefix, "OtherOwnersUntouched", "outbox"},
		{sinktest.GenerationIgnored, "OtherOwnersUntouched", "outbox"},
		{sinktest.GenerationIgnored, "Sweep", "staging stager"},
		{sinktest.VisibleWhileStaged, "InvisibleUntilCommit", "staging stager"},
		{sinktest.LostIsSuccess, "CommitOfLostWork", "staging stager"},
		{sinktest.CommitDoubles, "CommitTwice", "staging stager"},
		{sinktest.RaceyCommit, "RaceOfCommits", "staging stager"},
		{sinktest.AbortNeedsWork, "AbortTwice", "staging stager"},
		{sinktest.AbortForgets, "CommitOfLostWork", "staging stager"},
		{sinktest.StageForgets, "StageFails", "stager"},
		{sinktest.SweepByPrefix, "Sweep", "staging stager"},
		{sinktest.SweepLater, "Sweep", "staging stager"},
		{sinktest.SweepIgnoresKeep, "Sweep", "staging stager"},
		{sinktest.SweepNothing, "Sweep", "staging stager"},
		{sinktest.ObservedByPrefix, "Sweep", "staging"},
		{sinktest.SweepOwnGeneration, "SweepOlderGeneration", "staging stager"},
		{sinktest.FenceRefuses, "RaceOfOwners", "fencing"},
		{sinktest.SuccessorFenced, "RaceOfOwners", "fencing"},
		{sinktest.SessionLost, "ServiceKilled", "staging"},
	} {
		for _, kind := range strings.Fields(tt.kinds) {
			t.Run(fmt.Sprintf("%s/%s", kind, tt.defect), func(t *testing.T) {
				t.Parallel()
				notices(t, subject(kind, tt.defect), tt.scenario)
			})
		}
	}
}

// TestMemoryCanFail is TestSuiteCanFail for sinks that leak, one after the other.
func TestMemoryCanFail(t *testing.T) {
	for _, tt := range []struct {
		defect   sinktest.Defect
		scenario string
		kinds    string
	}{
		{sinktest.AppliedKept, "Memory", "outbox bare staging collector stager"},
		{sinktest.UnappliedKept, "MemoryWhileDown", "outbox bare stager"},
	} {
		for _, kind := range strings.Fields(tt.kinds) {
			t.Run(fmt.Sprintf("%s/%s", kind, tt.defect), func(t *testing.T) {
				s := subject(kind, tt.defect)
				s.Variants = []string{"keyed"}
				notices(t, s, tt.scenario)
			})
		}
	}
}

// notices demands that a scenario fails on a broken sink.
func notices(t *testing.T, s sinktest.Subject, scenario string) {
	t.Helper()
	rec := sinktest.NewRecorder(t.Name())
	defer rec.Close()
	s.Only = []string{scenario}
	rec.Run("suite", func(tb sinktest.TB) { sinktest.RunTB(tb, s) })
	for _, f := range rec.Failures() {
		if strings.Contains(f, "/"+scenario) {
			t.Log(f)
			return
		}
	}
	t.Errorf("scenario %s passes: %q", scenario, rec.Failures())
}

// TestRecorder holds the recorder to what the test above relies on.
func TestRecorder(t *testing.T) {
	t.Parallel()
	rec := sinktest.NewRecorder("top")
	if rec.Run("good", func(sinktest.TB) {}) != true || rec.Failed() {
		t.Errorf("a subtest that does nothing failed: %v", rec.Failures())
	}
	closed := false
	ok := rec.Run("bad", func(tb sinktest.TB) {
		tb.Cleanup(func() { closed = true })
		tb.Errorf("one")
		tb.Fatalf("two")
		tb.Errorf("not reached")
	})
	rec.Run("worse", func(sinktest.TB) { panic("three") })
	got := rec.Failures()
	if ok || !closed || len(got) != 3 {
		t.Fatalf("ok %v, closed %v, failures %q; want false, true and three", ok, closed, got)
	}
	for i, want := range []string{"top/bad: one", "top/bad: two", "top/worse: panic: three"} {
		if !strings.HasPrefix(got[i], want) {
			t.Errorf("failure %d is %q, want %q", i, got[i], want)
		}
	}
}
