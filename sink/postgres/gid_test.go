package postgres

import (
	"strings"
	"testing"

	"exactly/sink"
)

func TestGID(t *testing.T) {
	t.Parallel()
	o := sink.Owner{Incarnation: "00c0ffee00c0ffee", Pipeline: "pay:out", Sink: "t 1", Generation: 2, Task: 1, Attempt: 9007199254740993}
	name := gid(o, "db", 7)
	if by, ok := parseGID(o, "db", name); !ok || by != (stagedBy{2, 1, 9007199254740993, 7}) {
		t.Errorf("parse %s: got %v, %v", name, by, ok)
	}
	for what, other := range map[string]func(o *sink.Owner){
		"pipeline": func(o *sink.Owner) { o.Pipeline = "pay" }, "sink": func(o *sink.Owner) { o.Sink = "t" },
		"moved colon": func(o *sink.Owner) { o.Pipeline, o.Sink = "pay", "out:t 1" },
		"incarnation": func(o *sink.Owner) { o.Incarnation = "00c0ffee00c0ffe0" },
	} {
		p := o
		other(&p)
		if _, ok := parseGID(p, "db", name); ok {
			t.Errorf("another %s takes %s for its own", what, name)
		}
	}
	if _, ok := parseGID(o, "db2", name); ok {
		t.Errorf("another database takes %s for its own", name)
	}
	long := o
	long.Pipeline, long.Sink = strings.Repeat("päymént", 30), strings.Repeat("s", 200)
	long.Generation, long.Task, long.Attempt = 1<<31-1, 1<<31-1, 1<<63-1
	name = gid(long, "db", 1<<63-1)
	if len(name) > maxGID {
		t.Errorf("%d bytes: %s", len(name), name)
	}
	if by, ok := parseGID(long, "db", name); !ok || by.epoch != 1<<63-1 {
		t.Errorf("parse %s: got %v, %v", name, by, ok)
	}
	almost := long
	almost.Sink += "s"
	if _, ok := parseGID(almost, "db", name); ok {
		t.Errorf("a sink with a longer name takes %s for its own", name)
	}
}

func FuzzParseGID(f *testing.F) {
	o := sink.Owner{Incarnation: "00c0ffee00c0ffee", Pipeline: "pay", Sink: "out", Generation: 1, Task: 1, Attempt: 3}
	f.Add(gid(o, "db", 4))
	f.Add("exactly:00c0ffee00c0ffee:0:pay:out:1:1:+3:4")
	f.Fuzz(func(t *testing.T, name string) {
		by, ok := parseGID(o, "db", name)
		if !ok {
			return
		}
		p := o
		p.Generation, p.Task, p.Attempt = by.generation, by.task, by.attempt
		if gid(p, "db", by.epoch) != name {
			t.Errorf("%q is taken for %v", name, by)
		}
	})
}
