package sinktest

import (
	"bytes"
	"reflect"

	"exactly/sink"
)

// route: a Transactional sink is a function of the record.
func route(w *world) {
	s, ok := w.target.New(w.t).(sink.Transactional)
	if !ok {
		w.t.Fatalf("the sink is no longer Transactional")
	}
	w.t.Cleanup(func() { _ = s.Close() })
	again := w.target.New(w.t).(sink.Transactional)
	w.t.Cleanup(func() { _ = again.Close() })
	l := newLane(w, baseOwner())
	for _, in := range numbered("a", 0, 50) {
		r := l.record(in)
		key, value := bytes.Clone(r.Key), bytes.Clone(r.Value)
		marker := []sink.Message{{Topic: "before"}}
		first, err := s.Route(marker, &r)
		w.must(err, "route")
		if len(first) < 2 || first[0].Topic != "before" {
			w.t.Errorf("Route does not append: %v", first)
			return
		}
		second, err := again.Route(marker[:1:1], &r)
		w.must(err, "route again")
		if !reflect.DeepEqual(first, second) {
			w.t.Errorf("the same record is routed differently by another process: %v, then %v", first, second)
		}
		if !bytes.Equal(r.Key, key) || !bytes.Equal(r.Value, value) {
			w.t.Errorf("Route changed the record")
		}
	}
	if w.feat.Deletes {
		r := l.record(input{Spec: Spec{ID: "a", Tombstone: true}})
		ms, err := s.Route(nil, &r)
		w.must(err, "route a tombstone")
		for _, m := range ms {
			if m.Value != nil {
				w.t.Errorf("a tombstone became %q, want a null value", m.Value)
			}
		}
	}
	if w.feat.Rejects {
		r := l.record(input{Spec: Spec{ID: "p"}, poison: true})
		if ms, err := s.Route(nil, &r); err == nil {
			w.t.Errorf("a record to be refused was routed to %v", ms)
		}
	}
}
