package broker

import (
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestParseStart(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]StartPosition{
		"":                          {Earliest: true},
		"earliest":                  {Earliest: true},
		"latest":                    {Latest: true},
		"2026-01-31T15:04:05Z":      {Time: time.Date(2026, 1, 31, 15, 4, 5, 0, time.UTC)},
		"2026-01-31T16:04:05+01:00": {Time: time.Date(2026, 1, 31, 15, 4, 5, 0, time.UTC)},
		"group:app":                 {Group: "app"},
		"group:app,earliest":        {Group: "app", GroupElseEarliest: true},
		"group:a,b":                 {Group: "a,b"},
	} {
		got, err := ParseStart(in)
		if err != nil || !got.Time.Equal(want.Time) {
			t.Errorf("%q: got %+v, %v", in, got, err)
		}
		got.Time, want.Time = time.Time{}, time.Time{}
		if got != want {
			t.Errorf("%q: got %+v, want %+v", in, got, want)
		}
	}
	for _, in := range []string{"newest", "Earliest", "group:", "group:,earliest", "2026-01-31", "1700000000000"} {
		_, err := ParseStart(in)
		problem(t, err, CodeStart, strconv.Quote(in), "group:NAME")
	}
}

// filled has topic in with 3 partitions: 0 holds offsets 3 to 9 written at
// seconds 3 to 9, 1 is empty, 2 holds 0 to 4 and an open transaction from 5 on.
func filled(t *testing.T) (*kfake.Cluster, *Admin) {
	t.Helper()
	cl, c := fake(t, kfake.SeedTopics(3, "in"))
	a := newAdmin(t, c)
	for i := range 10 {
		write(t, a, &kgo.Record{Topic: "in", Partition: 0, Timestamp: time.Unix(int64(i), 0)})
	}
	for i := range 5 {
		write(t, a, &kgo.Record{Topic: "in", Partition: 2, Timestamp: time.Unix(int64(i), 0)})
	}
	openTxn(t, a, "elsewhere", &kgo.Record{Topic: "in", Partition: 2, Timestamp: time.Unix(5, 0)})
	if err := a.Trim(soon(t), "in", 0, 3); err != nil {
		t.Fatal(err)
	}
	return cl, a
}

func TestResolveStart(t *testing.T) {
	t.Parallel()
	_, a := filled(t)
	for start, want := range map[string][3]int64{
		"":                     {3, 0, 0},
		"earliest":             {3, 0, 0},
		"latest":               {10, 0, 5},
		"1970-01-01T00:00:04Z": {4, 0, 4},
		"1970-01-01T00:00:05Z": {5, 0, 5}, // partition 2: behind the last stable offset
		"1970-01-01T00:00:00Z": {3, 0, 0},
		"1969-01-01T00:00:00Z": {3, 0, 0},
		"2100-01-01T00:00:00Z": {10, 0, 5},
	} {
		got, err := a.ResolveStart(soon(t), start, "in")
		if err != nil {
			t.Errorf("%q: %v", start, err)
			continue
		}
		if len(got["in"]) != 3 {
			t.Errorf("%q: got %v", start, got)
		}
		for p, offset := range want {
			if at := got["in"][int32(p)]; at.Offset != offset {
				t.Errorf("%q: partition %d: got %d, want %d", start, p, at.Offset, offset)
			}
		}
	}
	_, err := a.ResolveStart(soon(t), "earliest", "in", "nowhere")
	problem(t, err, CodeTopicMissing, "nowhere")
	_, err = a.ResolveStart(soon(t), "soon", "in")
	problem(t, err, CodeStart, "soon")
}

func TestResolveStartWaitsForLeader(t *testing.T) {
	t.Parallel()
	cl, a := filled(t)
	cl.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Partitions: []int32{1}, Err: kerr.LeaderNotAvailable, Count: 3})
	got, err := a.ResolveStart(soon(t), "latest", "in")
	if err != nil || got["in"][2].Offset != 5 {
		t.Errorf("got %v, %v", got, err)
	}
	cl.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Partitions: []int32{1}, Err: kerr.TopicAuthorizationFailed, Count: 1})
	_, err = a.ResolveStart(soon(t), "latest", "in")
	problem(t, err, CodeACL, "in-1", "exactly validate")
}

func TestResolveStartFromGroup(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		commit map[int32]int64
		start  string
		want   [3]int64
		parts  []string // of the error
	}{
		"all":           {map[int32]int64{0: 5, 1: 0, 2: 6}, "group:app", [3]int64{5, 0, 6}, nil},
		"at the bounds": {map[int32]int64{0: 3, 1: 0, 2: 0}, "group:app", [3]int64{3, 0, 0}, nil},
		"at the end":    {map[int32]int64{0: 10, 1: 0, 2: 6}, "group:app", [3]int64{10, 0, 6}, nil},
		"one missing":   {map[int32]int64{0: 5, 2: 1}, "group:app", [3]int64{}, []string{"group app", "no committed offset for in-1;", "group:app,earliest"}},
		"else earliest": {map[int32]int64{0: 5}, "group:app,earliest", [3]int64{5, 0, 0}, nil},
		"unknown group": {nil, "group:app", [3]int64{}, []string{"in-0, in-1, in-2"}},
		"too low":       {map[int32]int64{0: 2, 1: 0, 2: 0}, "group:app", [3]int64{}, []string{"in-0: committed 2, the partition holds 3 to 10"}},
		"too high":      {map[int32]int64{0: 5, 1: 1, 2: 0}, "group:app,earliest", [3]int64{}, []string{"in-1: committed 1, the partition holds 0 to 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, a := filled(t)
			if tc.commit != nil {
				offs := kadm.Offsets{}
				for p, o := range tc.commit {
					offs.AddOffset("in", p, o, 0)
				}
				if err := kadm.NewClient(a.cl).CommitAllOffsets(soon(t), "app", offs); err != nil {
					t.Fatal(err)
				}
			}
			got, err := a.ResolveStart(soon(t), tc.start, "in")
			if tc.parts != nil {
				problem(t, err, CodeStart, tc.parts...)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for p, want := range tc.want {
				if at := got["in"][int32(p)]; at.Offset != want {
					t.Errorf("partition %d: got %d, want %d", p, at.Offset, want)
				}
			}
		})
	}
}
