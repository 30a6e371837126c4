//go:build services

package rig

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/watch"
)

// Tally knows of every payment where it stands in the source, and what each
// sink has shown.
type Tally struct {
	topic string

	mu    sync.Mutex
	at    map[string]watch.Position // by payment id
	sinks map[string]*arrivals
}

// arrivals is what one sink has shown.
type arrivals struct {
	times    map[string]int // by payment id
	distinct int            // of those that the source holds
}

func newTally(topic string, sinks []string) *Tally {
	t := &Tally{topic: topic, at: map[string]watch.Position{}, sinks: map[string]*arrivals{}}
	for _, s := range sinks {
		t.sinks[s] = &arrivals{times: map[string]int{}}
	}
	return t
}

// put notes an acknowledged payment.
func (t *Tally) put(r *kgo.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at[string(r.Key)] = watch.Position{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}
}

// locate implements watch.Config.Locate.
func (t *Tally) locate(id string) (watch.Position, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.at[id]
	return p, ok
}

// Written is how many payments the source holds.
func (t *Tally) Written() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return int64(len(t.at))
}

func (t *Tally) arrive(sink, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.sinks[sink]
	if a.times[id]++; a.times[id] == 1 {
		a.distinct++
	}
}

// Progress gives how many payments each sink has shown, and whether all have
// shown all.
func (t *Tally) Progress() (state string, complete bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	state, complete = fmt.Sprintf("%d payments;", len(t.at)), true
	for _, name := range slices.Sorted(maps.Keys(t.sinks)) {
		a := t.sinks[name]
		state += fmt.Sprintf(" %s %d", name, a.distinct)
		complete = complete && a.distinct >= len(t.at)
	}
	return state, complete
}

// Shown gives how many payments a sink has shown, and how many effects beyond
// one of each.
func (t *Tally) Shown(sink string) (distinct, copies int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.sinks[sink].times {
		copies += n - 1
	}
	return t.sinks[sink].distinct, copies
}

var errNoID = errors.New("there is no payment_id")

// paymentID finds the id in a payment's JSON without decoding all of it.
func paymentID(body []byte) (string, error) {
	_, rest, ok := bytes.Cut(body, []byte(`"payment_id":"`))
	id, _, closed := bytes.Cut(rest, []byte{'"'})
	if !ok || !closed {
		return "", errNoID
	}
	return string(id), nil
}
