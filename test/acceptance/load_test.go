//go:build services

package acceptance

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/payments"
	"exactly/internal/watch"
)

// load is a stream of payments into the source, and everybody who watches what
// becomes of them.
type load struct {
	p *pipeline
	*tally

	cancel context.CancelFunc
	done   chan struct{} // closed: the stream has ended
	next   int64
	err    error

	watcher *watch.Watcher
	enough  chan struct{} // closed: the watcher is to judge what it has
	watched chan error
}

// load begins to write payments, rate a second (0: as fast as it goes), from
// number first on; count 0: until it is stopped.
func (p *pipeline) load(rate float64, count int64) *load {
	p.t.Helper()
	l := &load{p: p, tally: newTally(p.Raw, p.Sinks)}
	l.produce(rate, count)
	return l
}

// produce writes, in addition to what was written before.
func (l *load) produce(rate float64, count int64) {
	ctx, cancel := context.WithCancel(l.p.t.Context())
	l.cancel, l.done = cancel, make(chan struct{})
	cl := l.p.c.Client(l.p.t, kgo.MetadataMaxAge(time.Second)) // it sees new partitions soon
	go func() {
		defer close(l.done)
		l.next, l.err = payments.Produce(ctx, cl, payments.Options{
			Topic: l.p.Raw, First: l.next, Count: count, Rate: rate,
			Acked: func(_ int64, r *kgo.Record) { l.put(r) },
		})
	}()
	l.p.t.Cleanup(func() {
		cancel()
		<-l.done
	})
}

// watch begins to look for effects of undecided epochs; more are feeds beside
// those of the sinks.
func (l *load) watch(tasks int, more map[string]watch.Feed) {
	l.p.t.Helper()
	feeds := l.p.feeds(l.tally)
	for name, f := range more {
		feeds[name] = f
	}
	l.watcher = watch.New(watch.Config{
		Client: l.p.c.Client(l.p.t), Group: l.p.group(), TxnIDs: l.p.txnIDs(tasks), Locate: l.locate, Feeds: feeds,
		Interval: 50 * time.Millisecond, Grace: patience,
	})
	l.enough, l.watched = make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(l.p.t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		l.watched <- l.watcher.Run(ctx, l.enough)
	}()
	l.p.t.Cleanup(func() {
		cancel()
		<-gone
	})
}

// atLeast waits until the source holds n payments.
func (l *load) atLeast(n int64) {
	l.p.t.Helper()
	await(l.p.t, "payments in the source", func(context.Context) (string, bool) {
		state, _ := l.progress()
		return state, l.written() >= n
	})
}

// stop ends the stream and waits until the brokers have all of it.
func (l *load) stop() int64 {
	l.p.t.Helper()
	l.cancel()
	<-l.done
	check(l.p.t, l.err)
	return l.written()
}

// complete waits until every sink has shown every payment.
func (l *load) complete(ws ...*worker) {
	l.p.t.Helper()
	<-l.done
	check(l.p.t, l.err)
	await(l.p.t, "every sink to show every payment", func(context.Context) (string, bool) {
		for _, w := range ws {
			w.mustLive()
		}
		return l.progress()
	})
}

// judge ends the watching and gives what was seen, by sink.
func (l *load) judge() map[string]watch.Seen {
	l.p.t.Helper()
	close(l.enough)
	check(l.p.t, <-l.watched)
	return l.watcher.Result()
}

// wantDecided ends the watching and wants nothing undecided to have been seen,
// and every effect once.
func (l *load) wantDecided() {
	l.p.t.Helper()
	seen := l.judge()
	for _, name := range l.p.Sinks {
		s := seen[name]
		wantDecided(l.p.t, name, s)
		if s.Effects != l.written() {
			l.p.t.Errorf("%s showed %d effects of %d payments", name, s.Effects, l.written())
		}
	}
}

func wantDecided(t *testing.T, name string, s watch.Seen) {
	t.Helper()
	t.Logf("watched %s: %d looks, %d effects, %d beyond the committed offset, %d undetermined, %d undecided",
		name, s.Looks, s.Effects, s.Suspects, s.Undetermined, s.Violations)
	if s.Violations > 0 || s.Effects == 0 {
		t.Errorf("%s showed %d effects, %d while undecided: %v", name, s.Effects, s.Violations, s.First)
	}
}
