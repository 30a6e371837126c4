package sinktest

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"exactly/record"
	"exactly/sink"
)

// alone: the scenario measures what this process holds, so nothing else of the
// suite runs beside it.
func (s scenario) alone() bool { return s.name == "Memory" || s.name == "MemoryWhileDown" }

// memory holds a sink to keeping nothing of what it has applied or committed.
func memory(w *world) {
	const epochs, warm, records, size = 24, 4, 50, 32 << 10 // 37 MiB, 31 of them measured
	l := w.lane(baseOwner())
	p := l.started()
	p.size = 500
	noise := rand.NewChaCha8([32]byte{})
	var before int64
	for e := range epochs {
		if e == warm {
			before = liveHeap()
		}
		l.feed(bulky(noise, e, records, size))
		w.must(p.advance(), "advance")
		l.log = slices.Clone(l.log[len(l.log)-1:]) // the records go, the end stays
	}
	w.flat(before, (epochs-warm)*records*size)
}

// memoryWhileDown holds a sink to keeping nothing of what it could not apply. As
// long as an outage lasts the engine calls with the same records again and again,
// and each of its attempts reads them anew.
func memoryWhileDown(w *world) {
	const rounds, records, size = 3, 250, 32 << 10 // 8 MiB a round
	l := w.lane(baseOwner())
	p := l.started()
	l.feed(numbered("a", 0, 5))
	w.must(p.advance(), "advance")
	l.feed(bulky(rand.NewChaCha8([32]byte{}), 0, records, size))
	w.target.Down(w.t)
	w.inVain(p, records/2)
	w.inVain(p, 2*records) // a sink may hold one batch ready for the next call
	before := liveHeap()
	for range rounds {
		w.inVain(p, 2*records)
	}
	w.flat(before, rounds*records*size)
	w.target.Up(w.t)
	p.size = 500
	w.patient(p)
	w.finish()
}

// inVain calls a sink whose service is down: with a batch of at most n items, or,
// where it takes records in without the service, to stage them.
func (w *world) inVain(p *process, n int) {
	w.t.Helper()
	var err error
	if p.stager != nil {
		p.size = n
		_, err = p.stage()
	} else {
		_, err = p.apply(copied(p.l.batch(p.through, n)))
	}
	if err == nil {
		w.t.Fatalf("a sink whose service is down reports success")
	}
	if c := sink.Classify(err); c != sink.ClassTransient {
		w.t.Fatalf("service down is classed %v, want transient: %v", c, err)
	}
}

// copied shares no memory with b: a sink that keeps the caller's bytes is no
// better than one that keeps a copy.
func copied(b sink.Batch) sink.Batch {
	b.Records = slices.Clone(b.Records)
	for i := range b.Records {
		r := &b.Records[i].Record
		r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
		r.Headers = slices.Clone(r.Headers)
		for j := range r.Headers {
			r.Headers[j] = record.Header{Key: r.Headers[j].Key, Value: bytes.Clone(r.Headers[j].Value)}
		}
	}
	return b
}

// bulky makes records of some size that cannot be packed, so that what is kept
// packed shows as well. Their keys are the same each time: a target with keys does
// not grow.
func bulky(noise *rand.ChaCha8, value, n, size int) []input {
	raw := make([]byte, base64.StdEncoding.DecodedLen(size))
	in := make([]input, n)
	for i := range in {
		_, _ = noise.Read(raw) // never fails
		in[i] = input{Spec: Spec{ID: fmt.Sprintf("m%d", i), Value: int64(value), Extra: base64.StdEncoding.EncodeToString(raw)}}
	}
	return in
}

// liveHeap is the least that was reachable in a few collections; the first leaves
// what pools hold.
func liveHeap() int64 {
	least := int64(math.MaxInt64)
	for range 3 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		least = min(least, int64(m.HeapAlloc))
	}
	return least
}

// flat demands that of volume bytes since before less than a quarter was kept. It
// looks again for a while: what other tests hold goes, what a sink keeps stays.
func (w *world) flat(before, volume int64) {
	w.t.Helper()
	var grown int64
	for range 10 {
		if grown = liveHeap() - before; grown < volume/4 {
			w.t.Logf("the heap grew by %d KiB over %d MiB of records", grown>>10, volume>>20)
			return
		}
		select {
		case <-w.t.Context().Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	w.t.Errorf("the heap grew by %d MiB over %d MiB of records, want less than a quarter", grown>>20, volume>>20)
}
