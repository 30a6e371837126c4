package failpoint

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
)

// Parent is the other end of the control channels: it listens for workers.
type Parent struct {
	ln      net.Listener
	workers chan *Worker
	running sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // nil once closed
}

// Worker is a worker process under control. Its methods may be called from one
// goroutine at a time.
type Worker struct {
	PID int

	conn    net.Conn
	held    chan Report
	answers chan Report
	gone    chan struct{}
}

// ErrGone: the worker's channel is closed; its process has most likely ended.
var ErrGone = errors.New("the worker has gone")

// Listen opens a Unix socket at path for workers started with ControlVar set
// to it. Paths of more than about 100 bytes are refused by the system.
func Listen(path string) (*Parent, error) {
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen for workers under fail point control: %w", err)
	}
	p := &Parent{ln: ln, workers: make(chan *Worker), conns: map[net.Conn]bool{}}
	p.running.Go(p.accept)
	return p, nil
}

// Next waits for the next worker that connects.
func (p *Parent) Next(ctx context.Context) (*Worker, error) {
	select {
	case w, ok := <-p.workers:
		if !ok {
			return nil, net.ErrClosed
		}
		return w, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a worker to connect: %w", ctx.Err())
	}
}

// Close stops listening and cuts all channels, which kills the workers that
// are still connected.
func (p *Parent) Close() error {
	err := p.ln.Close()
	p.mu.Lock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
	p.mu.Unlock()
	for range p.workers { // accept may be waiting for a Next
	}
	p.running.Wait()
	return err
}

func (p *Parent) accept() {
	defer close(p.workers)
	for {
		conn, err := p.ln.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		if p.conns == nil {
			p.mu.Unlock()
			_ = conn.Close()
			return
		}
		p.conns[conn] = true
		p.mu.Unlock()
		w := &Worker{
			conn: conn, held: make(chan Report, 1024), answers: make(chan Report, 16),
			gone: make(chan struct{}),
		}
		hello := make(chan struct{})
		p.running.Go(func() {
			w.read(hello)
			p.mu.Lock()
			delete(p.conns, conn)
			p.mu.Unlock()
			_ = conn.Close()
		})
		<-hello
		if w.PID != 0 {
			p.workers <- w
		}
	}
}

// read sorts the worker's lines until the channel closes.
func (w *Worker) read(hello chan struct{}) {
	defer close(w.gone)
	lines := json.NewDecoder(bufio.NewReader(w.conn))
	var r Report
	err := lines.Decode(&r)
	w.PID = r.PID
	close(hello)
	for err == nil {
		r = Report{}
		if err = lines.Decode(&r); err != nil {
			return
		}
		ch := w.answers
		if r.Point != "" {
			ch = w.held
		}
		select {
		case ch <- r:
		default: // nobody asked, or nobody listens
		}
	}
}

// Gone is closed when the worker's channel closes.
func (w *Worker) Gone() <-chan struct{} { return w.gone }

// Held gives the reports of holds. Up to 1,024 are kept; later ones are dropped.
func (w *Worker) Held() <-chan Report { return w.held }

// Arm arms the worker with arms in place of what was armed, and waits until it
// says so.
func (w *Worker) Arm(ctx context.Context, arms ...Arm) error {
	text := ""
	for _, a := range arms {
		text += a.String() + ";"
	}
	_, err := w.ask(ctx, command{Arm: &text})
	return err
}

// Hits asks how often the worker passed each point, and which it passed last
// (nil: none).
func (w *Worker) Hits(ctx context.Context) (map[Point]int64, *Passed, error) {
	r, err := w.ask(ctx, command{Hits: true})
	return r.Hits, r.Last, err
}

// Go releases everything that the worker holds.
func (w *Worker) Go() error {
	if _, err := w.conn.Write([]byte("go\n")); err != nil {
		return fmt.Errorf("release worker %d: %w", w.PID, err)
	}
	return nil
}

func (w *Worker) ask(ctx context.Context, c command) (Report, error) {
	line, err := json.Marshal(c)
	if err != nil {
		return Report{}, err
	}
	if _, err := w.conn.Write(append(line, '\n')); err != nil {
		return Report{}, fmt.Errorf("tell worker %d %s: %w", w.PID, line, errors.Join(ErrGone, err))
	}
	select {
	case r := <-w.answers:
		if r.Error != "" {
			return r, fmt.Errorf("worker %d: %s", w.PID, r.Error)
		}
		return r, nil
	case <-w.gone:
		return Report{}, fmt.Errorf("tell worker %d %s: %w", w.PID, line, ErrGone)
	case <-ctx.Done():
		return Report{}, fmt.Errorf("tell worker %d %s: %w", w.PID, line, ctx.Err())
	}
}
