package broker

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func someMeta() Meta {
	return Meta{
		Format: 1, Incarnation: "0123456789abcdef", Pipeline: "payments", Generation: 1, Tasks: 4, Guarantee: "exactly_once",
		Sources: []MetaSource{{Topic: "payments.raw", ID: strings.Repeat("0a", 16)}},
		Sinks:   []MetaSink{{"enriched", "kafka"}, {"records", "sqlite"}},
		Cluster: "cluster-1", Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), CreatedBy: "host:payments.yaml",
	}
}

func TestMetaCodec(t *testing.T) {
	t.Parallel()
	want := someMeta()
	b, err := EncodeMeta(want)
	if err != nil {
		t.Fatal(err)
	}
	// The format is kept for ever: who changes it makes a new one.
	const golden = `{"format":1,"incarnation":"0123456789abcdef","pipeline":"payments","generation":1,"tasks":4,"guarantee":"exactly_once",` +
		`"sources":[{"topic":"payments.raw","id":"0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"}],"sinks":[{"name":"enriched","kind":"kafka"},{"name":"records","kind":"sqlite"}],` +
		`"cluster":"cluster-1","created":"2026-01-02T03:04:05Z","created_by":"host:payments.yaml"}`
	if string(b) != golden {
		t.Errorf("got\n%s, want\n%s", b, golden)
	}
	got, err := DecodeMeta([]byte(golden))
	if err != nil || !got.equal(want) {
		t.Errorf("got %+v, %v", got, err)
	}
	for name, in := range map[string]string{
		"not JSON":        "x",
		"empty":           "",
		"no format":       `{}`,
		"newer":           strings.Replace(golden, `"format":1`, `"format":2`, 1),
		"unknown field":   strings.Replace(golden, `"tasks"`, `"x":1,"tasks"`, 1),
		"twice":           strings.Replace(golden, `"tasks"`, `"tasks":3,"tasks"`, 1),
		"no incarnation":  strings.Replace(golden, "0123456789abcdef", "", 1),
		"bad incarnation": strings.Replace(golden, "0123456789abcdef", "0123456789ABCDEF", 1),
		"tasks":           strings.Replace(golden, `"tasks":4`, `"tasks":0`, 1),
		"generation":      strings.Replace(golden, `"generation":1`, `"generation":0`, 1),
		"pipeline":        strings.Replace(golden, `"payments"`, `"pay ments"`, 1),
		"source":          strings.Replace(golden, `"topic":"payments.raw"`, `"topic":""`, 1),
		"source id":       strings.Replace(golden, `0a0a`, `zz`, 1),
		"sink":            strings.Replace(golden, `"kind":"kafka"`, `"kind":""`, 1),
	} {
		_, err := DecodeMeta([]byte(in))
		if CodeOf(err) != CodeMetaUnreadable {
			t.Errorf("%s: got %v", name, err)
		}
	}
	_, err = DecodeMeta([]byte(strings.Replace(golden, `"format":1`, `"format":2,"new":true`, 1)))
	problem(t, err, CodeMetaUnreadable, "has format 2, this binary knows 1", "newer version")
	if _, err := EncodeMeta(Meta{}); err == nil {
		t.Error("the empty record is written")
	}
}

func FuzzDecodeMeta(f *testing.F) {
	b, err := EncodeMeta(someMeta())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"format":1,"incarnation":"0123456789abcdef","pipeline":"p","generation":1,"tasks":1,"created":"2026-01-02T03:04:05.123+02:00"}`))
	f.Add([]byte(`{"format":2}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		m, err := DecodeMeta(in)
		if err != nil {
			if CodeOf(err) != CodeMetaUnreadable {
				t.Errorf("error without its code: %v", err)
			}
			return
		}
		out, err := EncodeMeta(m)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := DecodeMeta(out)
		if err != nil || !again.equal(m) {
			t.Errorf("got %+v, %v, want %+v", again, err, m)
		}
		if out2, err := EncodeMeta(again); err != nil || !bytes.Equal(out, out2) {
			t.Errorf("not stable: %s, %s, %v", out, out2, err)
		}
	})
}

func TestNewIncarnation(t *testing.T) {
	t.Parallel()
	got, err := NewIncarnation(bytes.NewReader([]byte{0, 1, 2, 3, 4, 5, 6, 0xff, 9}))
	if err != nil || got != "00010203040506ff" {
		t.Errorf("got %s, %v", got, err)
	}
	if got, err := NewIncarnation(bytes.NewReader([]byte{0, 1})); err == nil {
		t.Errorf("too little randomness gave %s", got)
	}
}

func TestCompareMeta(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*Meta)
		code   Code
		added  string
		parts  []string
	}{
		"same":              {func(*Meta) {}, "", "[]", nil},
		"what is not held":  {func(m *Meta) { m.Incarnation, m.Created, m.CreatedBy = "x", time.Time{}, "other" }, "", "[]", nil},
		"tasks by default":  {func(m *Meta) { m.Tasks = 0 }, "", "[]", nil},
		"source order":      {func(m *Meta) { m.Sinks[0], m.Sinks[1] = m.Sinks[1], m.Sinks[0] }, "", "[]", nil},
		"sink added":        {func(m *Meta) { m.Sinks = append(m.Sinks, MetaSink{"lake", "object"}) }, "", "[lake]", nil},
		"cluster unknown":   {func(m *Meta) { m.Cluster = "" }, "", "[]", nil},
		"tasks":             {func(m *Meta) { m.Tasks = 8 }, CodeMetaConflict, "", []string{"tasks is 4 there and 8 here", "exactly reset"}},
		"guarantee":         {func(m *Meta) { m.Guarantee = "at_least_once" }, CodeMetaConflict, "", []string{"guarantee is exactly_once there and at_least_once here"}},
		"sources":           {func(m *Meta) { m.Sources[0].Topic = "orders" }, CodeMetaConflict, "", []string{"source.topics is [payments.raw] there and [orders] here"}},
		"sink removed":      {func(m *Meta) { m.Sinks = m.Sinks[:1] }, CodeMetaConflict, "", []string{"sink records (sqlite) is missing here", "exactly reset"}},
		"sink kind":         {func(m *Meta) { m.Sinks[1].Kind = "http" }, CodeMetaConflict, "", []string{"sink records is sqlite there and http here"}},
		"sink renamed":      {func(m *Meta) { m.Sinks[1].Name = "rows" }, CodeMetaConflict, "", []string{"sink records (sqlite) is missing"}},
		"cluster":           {func(m *Meta) { m.Cluster = "cluster-2" }, CodeMetaCluster, "", []string{"cluster-1", "cluster-2"}},
		"source made again": {func(m *Meta) { m.Sources[0].ID = strings.Repeat("0b", 16) }, CodeTopicRecreated, "", []string{"payments.raw (id 0a0a", "now 0b0b", "exactly reset"}},
		"another pipeline": {
			func(m *Meta) { m.Sources, m.Sinks = []MetaSource{{Topic: "orders"}}, []MetaSink{{"x", "http"}} }, CodeMetaConflict, "",
			[]string{
				"payments (incarnation 0123456789abcdef, generation 1, made 2026-01-02T03:04:05Z by host:payments.yaml)",
				"source.topics", "sink enriched", "sink records", "give it another name or kafka.prefix",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := someMeta()
			tc.change(&want)
			added, err := CompareMeta(someMeta(), want)
			if tc.code != "" {
				problem(t, err, tc.code, tc.parts...)
				return
			}
			if err != nil || fmt.Sprint(added) != tc.added {
				t.Errorf("got %v, %v, want %v", added, err, tc.added)
			}
		})
	}
}

// ready has the meta topic.
func ready(t *testing.T, c Config) *Admin {
	t.Helper()
	a := newAdmin(t, c)
	if _, err := a.EnsureTopics(soon(t), plan(t, a).Spec(KindMeta)...); err != nil {
		t.Fatal(err)
	}
	return a
}

func freshMeta(t *testing.T) Meta {
	t.Helper()
	m := someMeta()
	var err error
	if m.Incarnation, err = NewIncarnation(rand.Reader); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMetaStore(t *testing.T) {
	t.Parallel()
	_, c := fake(t)
	_, _, err := newAdmin(t, c).LoadMeta(soon(t))
	problem(t, err, CodeTopicMissing, "exactly.payments.meta")
	a := ready(t, c)
	if m, found, err := a.LoadMeta(soon(t)); err != nil || found {
		t.Fatalf("before the first start: %+v, %v, %v", m, found, err)
	}
	first := freshMeta(t)
	got, err := a.CreateMeta(soon(t), first)
	if err != nil || !got.equal(first) {
		t.Fatalf("got %+v, %v, want %+v", got, err, first)
	}
	if got, err := a.CreateMeta(soon(t), freshMeta(t)); err != nil || !got.equal(first) {
		t.Errorf("the second creation: got %+v, %v, want the first", got, err)
	}
	next := first
	next.Sinks = append(next.Sinks, MetaSink{"lake", "object"})
	if got, err := a.UpdateMeta(soon(t), first, next); err != nil || !got.equal(next) {
		t.Errorf("update: got %+v, %v", got, err)
	}
	if got, err := a.UpdateMeta(soon(t), first, next); err != nil || !got.equal(next) {
		t.Errorf("the same update again: got %+v, %v", got, err)
	}
	other := first
	other.Generation = 2
	_, err = a.UpdateMeta(soon(t), first, other)
	problem(t, err, CodeMetaChanged, "payments")
	if got, found, err := newAdmin(t, c).LoadMeta(soon(t)); err != nil || !found || !got.equal(next) {
		t.Errorf("load: got %+v, %v, %v", got, found, err)
	}
}

// TestMetaAtOnce: workers that start together agree on one incarnation.
func TestMetaAtOnce(t *testing.T) {
	t.Parallel()
	for range 5 {
		_, c := fake(t)
		ready(t, c)
		got := make([]Meta, 5)
		var wg sync.WaitGroup
		for i := range got {
			a, m := newAdmin(t, c), freshMeta(t)
			wg.Go(func() {
				var err error
				if got[i], err = a.CreateMeta(soon(t), m); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for i := range got {
			if got[i].Incarnation != got[0].Incarnation || got[i].Incarnation == "" {
				t.Fatalf("worker %d has incarnation %q, worker 0 %q", i, got[i].Incarnation, got[0].Incarnation)
			}
		}
	}
}

// TestMetaInDoubt: whatever is answered to EndTxn, what CreateMeta returns is
// what the topic holds.
func TestMetaInDoubt(t *testing.T) {
	t.Parallel()
	for name, control := range map[string]func(*kfake.Cluster){
		"refused": func(cl *kfake.Cluster) {
			cl.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, TopLevel: true, Err: kerr.InvalidProducerEpoch, Count: 1})
		},
		"unknown": func(cl *kfake.Cluster) {
			cl.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, TopLevel: true, Err: kerr.UnknownServerError, Count: 1})
		},
		"lost": func(cl *kfake.Cluster) { // the connection dies in place of an answer
			cl.ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
				return nil, errors.New("cut"), true
			})
		},
		"write refused": func(cl *kfake.Cluster) {
			cl.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.InvalidProducerEpoch, Count: 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cl, c := fake(t)
			a := ready(t, c)
			control(cl)
			first := freshMeta(t)
			got, err := a.CreateMeta(soon(t), first)
			if err != nil || !got.equal(first) {
				t.Fatalf("got %+v, %v", got, err)
			}
			if got, found, err := a.LoadMeta(soon(t)); err != nil || !found || !got.equal(first) {
				t.Errorf("load: got %+v, %v, %v", got, found, err)
			}
		})
	}
}

// TestMetaUndecided: what a dead writer left open is neither seen nor kept.
func TestMetaUndecided(t *testing.T) {
	t.Parallel()
	_, c := fake(t)
	a := ready(t, c)
	dead := freshMeta(t)
	value, err := EncodeMeta(dead)
	if err != nil {
		t.Fatal(err)
	}
	openTxn(t, a, a.Names(1).MetaTxnID(), &kgo.Record{Topic: a.Names(1).Meta(), Key: []byte(metaKey), Value: value})
	if m, found, err := a.LoadMeta(soon(t)); err != nil || found {
		t.Errorf("an undecided record is seen: %+v, %v, %v", m, found, err)
	}
	first := freshMeta(t)
	if got, err := a.CreateMeta(soon(t), first); err != nil || !got.equal(first) {
		t.Errorf("got %+v, %v, want %+v", got, err, first)
	}
}

func TestMetaForbidden(t *testing.T) {
	t.Parallel()
	cl, c := fake(t)
	a := ready(t, c)
	cl.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.TransactionalIDAuthorizationFailed, Count: -1})
	_, err := a.CreateMeta(soon(t), freshMeta(t))
	problem(t, err, CodeACL, "transactional id exactly.payments.meta", "exactly validate")
}
