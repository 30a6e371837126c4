//go:build services

package rig

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/payments"
	"exactly/internal/watch"
)

// Load is a stream of payments into the source, and everybody who watches what
// becomes of them.
type Load struct {
	p *Pipeline
	*Tally

	cancel context.CancelFunc
	Done   chan struct{} // closed: the stream has ended
	next   int64
	Err    error

	watcher *watch.Watcher
	enough  chan struct{} // closed: the watcher is to judge what it has
	watched chan error
}

// Load begins to write payments, rate a second (0: as fast as it goes), from
// number first on; count 0: until it is stopped.
func (p *Pipeline) Load(rate float64, count int64) *Load {
	p.T.Helper()
	l := p.Idle()
	l.Produce(rate, count)
	return l
}

// Idle is a load that has not written anything yet.
func (p *Pipeline) Idle() *Load { return &Load{p: p, Tally: newTally(p.Raw, p.Sinks)} }

// Produce writes, in addition to what was written before.
func (l *Load) Produce(rate float64, count int64) {
	ctx, cancel := context.WithCancel(l.p.T.Context())
	l.cancel, l.Done = cancel, make(chan struct{})
	cl := l.p.Cluster.Client(l.p.T, kgo.MetadataMaxAge(time.Second)) // it sees new partitions soon
	go func() {
		defer close(l.Done)
		l.next, l.Err = payments.Produce(ctx, cl, payments.Options{
			Topic: l.p.Raw, First: l.next, Count: count, Rate: rate, Finish: Patience, // the brokers may just have been killed
			Acked: func(_ int64, r *kgo.Record) { l.put(r) },
		})
	}()
	l.p.T.Cleanup(func() {
		cancel()
		<-l.Done
	})
}

// Watch begins to look for effects of undecided epochs; more are feeds beside
// those of the sinks.
func (l *Load) Watch(tasks int, more map[string]watch.Feed) {
	l.p.T.Helper()
	feeds := l.p.Feeds(l.Tally)
	for name, f := range more {
		feeds[name] = f
	}
	l.watcher = watch.New(watch.Config{
		Client: l.p.Cluster.Client(l.p.T), Group: l.p.Group(), TxnIDs: l.p.TxnIDs(tasks), Locate: l.locate, Feeds: feeds,
		Interval: 50 * time.Millisecond, Grace: Patience,
	})
	l.enough, l.watched = make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(l.p.T.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		l.watched <- l.watcher.Run(ctx, l.enough)
	}()
	l.p.T.Cleanup(func() {
		cancel()
		<-gone
	})
}

// AtLeast waits until the source holds n payments.
func (l *Load) AtLeast(n int64) {
	l.p.T.Helper()
	Await(l.p.T, "payments in the source", func(context.Context) (string, bool) {
		state, _ := l.Progress()
		return state, l.Written() >= n
	})
}

// Flows waits until every sink has shown n payments: faults strike what is at work.
func (l *Load) Flows(n int) {
	l.p.T.Helper()
	l.shows(func(string) int { return n })
}

func (l *Load) shows(least func(sink string) int) {
	l.p.T.Helper()
	Await(l.p.T, "payments in every sink", func(context.Context) (string, bool) {
		state, _ := l.Progress()
		for _, name := range l.p.Sinks {
			if shown, _ := l.Shown(name); shown < least(name) {
				return state, false
			}
		}
		return state, true
	})
}

// Advance waits until every sink has shown more than now.
func (l *Load) Advance() {
	l.p.T.Helper()
	least := map[string]int{}
	for _, name := range l.p.Sinks {
		shown, _ := l.Shown(name)
		least[name] = shown + 1
	}
	l.shows(func(name string) int { return least[name] })
}

// Stop ends the stream and waits until the brokers have all of it.
func (l *Load) Stop() int64 {
	l.p.T.Helper()
	l.cancel()
	<-l.Done
	Check(l.p.T, l.Err)
	return l.Written()
}

// Complete waits until every sink has shown every payment.
func (l *Load) Complete(ws ...*Worker) {
	l.p.T.Helper()
	<-l.Done
	Check(l.p.T, l.Err)
	Await(l.p.T, "every sink to show every payment", func(context.Context) (string, bool) {
		for _, w := range ws {
			w.MustLive()
		}
		return l.Progress()
	})
}

// Judge ends the watching and gives what was seen, by sink.
func (l *Load) Judge() map[string]watch.Seen {
	l.p.T.Helper()
	close(l.enough)
	Check(l.p.T, <-l.watched)
	return l.watcher.Result()
}

// WantDecided ends the watching and wants nothing undecided to have been seen,
// and every effect once.
func (l *Load) WantDecided() {
	l.p.T.Helper()
	seen := l.Judge()
	for _, name := range l.p.Sinks {
		s := seen[name]
		WantDecided(l.p.T, name, s)
		if s.Effects != l.Written() {
			l.p.T.Errorf("%s showed %d effects of %d payments", name, s.Effects, l.Written())
		}
	}
}

// WantDecided wants a sink to have shown something, and nothing of an undecided
// epoch.
func WantDecided(t *testing.T, name string, s watch.Seen) {
	t.Helper()
	t.Logf("watched %s: %d looks, %d effects, %d beyond the committed offset, %d undetermined, %d undecided",
		name, s.Looks, s.Effects, s.Suspects, s.Undetermined, s.Violations)
	if s.Violations > 0 || s.Effects == 0 {
		t.Errorf("%s showed %d effects, %d while undecided: %v", name, s.Effects, s.Violations, s.First)
	}
}

// WaitOutput waits until the output topic has n records of the source decided,
// by the offsets that were committed with them: for loads that nobody watches.
func (l *Load) WaitOutput(n int64) {
	l.p.T.Helper()
	Await(l.p.T, "every payment to be decided", func(ctx context.Context) (string, bool) {
		committed, err := l.p.Admin.FetchOffsets(ctx, l.p.Group())
		Check(l.p.T, err)
		var have int64
		for _, r := range committed[l.p.Raw] {
			have += r.At
		}
		return fmt.Sprint(have), have >= n
	})
}
