//go:build services

package acceptance

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

// outputs notes when output of each source partition was last seen.
type outputs struct {
	p *pipeline

	mu   sync.Mutex
	seen map[int32]output
}

type output struct {
	offset int64     // of the source record
	at     time.Time // of its arrival
}

func (p *pipeline) outputs() *outputs {
	o := &outputs{p: p, seen: map[int32]output{}}
	p.consume(p.Out, kgo.ReadCommitted(), func(r *kgo.Record) {
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
func (o *outputs) note(source string, now time.Time) {
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

// current waits until everything that is in the source now has come out.
func (o *outputs) current(l *load) {
	o.p.t.Helper()
	o.reach(l, func(int32) bool { return true })
}

// since gives how long after from the slowest of the tasks gave output of
// records that came into the source after now.
func (o *outputs) since(l *load, from time.Time, tasks []int32) time.Duration {
	o.p.t.Helper()
	var slowest time.Duration
	for partition, at := range o.reach(l, func(partition int32) bool {
		return slices.Contains(tasks, partition%int32(o.p.Tasks))
	}) {
		o.p.t.Logf("partition %d after %s", partition, at.Sub(from))
		slowest = max(slowest, at.Sub(from))
	}
	return slowest
}

// reach waits until output of records beyond the present end of the source has
// arrived, for the partitions that match, and gives when it did.
func (o *outputs) reach(l *load, match func(partition int32) bool) map[int32]time.Time {
	o.p.t.Helper()
	ends, reached := o.p.ends(), map[int32]time.Time{}
	await(o.p.t, "output of every partition", func(context.Context) (string, bool) {
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
		written, _ := l.progress()
		return fmt.Sprintf("%d partitions without; %s", open, written), open == 0
	})
	return reached
}
