package demo

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progress tells how far a run is: bars on a terminal, else a line now and then.
type progress struct {
	out   io.Writer
	total int64
	kills int

	pool *mpb.Progress // nil: lines
	bars map[string]*mpb.Bar
	died *mpb.Bar

	mu   sync.Mutex
	done int // kills
}

const lineEvery = 2 * time.Second

func newProgress(out io.Writer, terminal bool, total int64) *progress {
	p := &progress{out: out, total: total}
	if terminal {
		p.pool = mpb.New(mpb.WithOutput(out), mpb.WithWidth(48))
		p.bars = map[string]*mpb.Bar{}
	}
	return p
}

// begin tells what is about to run.
func (p *progress) begin(o Options, dir string, kills int) {
	p.kills = kills
	fmt.Fprintf(p.out, "%d payments through %d workers, %d tasks, %s; %d kills; seed %d; in %s\n",
		o.Payments, o.Workers, o.Tasks, o.Guarantee, kills, o.Seed, dir)
	if p.pool == nil {
		return
	}
	for _, name := range append([]string{"written"}, sinkNames...) {
		p.bars[name] = p.bar(name, p.total)
	}
	if kills > 0 {
		p.died = p.bar("kills", int64(kills))
	}
}

func (p *progress) bar(name string, total int64) *mpb.Bar {
	return p.pool.AddBar(total,
		mpb.PrependDecorators(decor.Name(name, decor.WC{W: 9, C: decor.DindentRight})),
		mpb.AppendDecorators(decor.CountersNoUnit("%d / %d")))
}

// run tells until ctx ends.
func (p *progress) run(ctx context.Context, x *index) {
	every := lineEvery
	if p.pool != nil {
		every = 100 * time.Millisecond
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			p.tell(x)
			return
		case <-tick.C:
			p.tell(x)
		}
	}
}

func (p *progress) tell(x *index) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pool != nil {
		p.bars["written"].SetCurrent(x.written())
		for _, name := range sinkNames {
			p.bars[name].SetCurrent(x.distinct(name))
		}
		return
	}
	line := fmt.Sprintf("written %d", x.written())
	for _, name := range sinkNames {
		line += fmt.Sprintf(", %s %d", name, x.distinct(name))
	}
	fmt.Fprintf(p.out, "%s of %d; kills %d of %d\n", line, p.total, p.done, p.kills)
}

// note tells what is going on beside the payments.
func (p *progress) note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pool == nil {
		fmt.Fprintln(p.out, text)
	}
}

// kill tells of a kill.
func (p *progress) kill(k Kill) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	if p.died != nil {
		p.died.SetCurrent(int64(p.done))
	}
}

// end leaves the terminal as it should be.
func (p *progress) end() {
	if p.pool == nil {
		return
	}
	for _, b := range p.bars {
		b.Abort(false)
	}
	if p.died != nil {
		p.died.Abort(false)
	}
	p.pool.Wait()
}
