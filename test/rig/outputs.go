//go:build services

package rig

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Outputs notes when output of each source partition was last seen.
type Outputs struct {
	p *Pipeline

	mu   sync.Mutex
	seen map[int32]output
}

type output struct {
	offset int64     // of the source record
	at     time.Time // of its arrival
}

// Follow notes from now on when output arrives. The output topic has to have the
// headers of the source.
func (p *Pipeline) Follow() *Outputs {
	o := &Outputs{p: p, seen: map[int32]output{}}
	p.Consume(p.Out, kgo.ReadCommitted(), func(r *kgo.Record) {
		now := time.Now()
		for _, h := range r.Headers {
			if h.Key == "exactly-source" {
				o.note(string(h.Value), now)
			}
		}
	})
	return o
}

// note reads topic-partition@offset.
func (o *Outputs) note(source string, now time.Time) {
	at := strings.LastIndexByte(source, '@')
	dash := strings.LastIndexByte(source[:at], '-')
	partition, err := strconv.ParseInt(source[dash+1:at], 10, 32)
	offset, oerr := strconv.ParseInt(source[at+1:], 10, 64)
	if err != nil || oerr != nil {
		return // it shows, since nothing is seen then
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen[int32(partition)] = output{offset, now}
}

// Current waits until everything that is in the source now has come out.
func (o *Outputs) Current(l *Load) {
	o.p.T.Helper()
	o.reach(l, func(int32) bool { return true })
}

// Since gives how long after from the slowest of the tasks gave output of
// records that came into the source after now.
func (o *Outputs) Since(l *Load, from time.Time, tasks []int32) time.Duration {
	o.p.T.Helper()
	var slowest time.Duration
	for partition, at := range o.reach(l, func(partition int32) bool {
		return slices.Contains(tasks, partition%int32(o.p.Tasks))
	}) {
		o.p.T.Logf("partition %d after %s", partition, at.Sub(from))
		slowest = max(slowest, at.Sub(from))
	}
	return slowest
}

// reach waits until output of records beyond the present end of the source has
// arrived, for the partitions that match, and gives when it did.
func (o *Outputs) reach(l *Load, match func(partition int32) bool) map[int32]time.Time {
	o.p.T.Helper()
	ends, reached := o.p.Ends(), map[int32]time.Time{}
	Await(o.p.T, "output of every partition", func(context.Context) (string, bool) {
		o.mu.Lock()
		defer o.mu.Unlock()
		open := 0
		for i, end := range ends {
			switch _, ok := reached[i]; {
			case ok || !match(i):
			case o.seen[i].offset >= end:
				reached[i] = o.seen[i].at
			default:
				open++
			}
		}
		written, _ := l.Progress()
		return fmt.Sprintf("%d partitions without; %s", open, written), open == 0
	})
	return reached
}
