package failpoint

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
)

// Report is one line from a worker.
type Report struct {
	PID   int             `json:"pid"`
	Point Point           `json:"point,omitempty"` // that it holds at; the fields below belong to it
	Task  int32           `json:"task"`
	Epoch int64           `json:"epoch"`
	Armed *int            `json:"armed,omitempty"` // answer to arm: how many arms there are now
	Hits  map[Point]int64 `json:"hits,omitempty"`  // answer to hits
	Last  *Passed         `json:"last,omitempty"`  // likewise: the point that it passed last
	Error string          `json:"error,omitempty"` // answer to what it could not understand
}

// command is one line to a worker, besides "go".
type command struct {
	Arm  *string `json:"arm,omitempty"`
	Hits bool    `json:"hits,omitempty"`
}

// connect dials the parent and serves it until the returned function is called
// or the channel breaks, in which case the process is killed.
func (w *armed) connect(socket string, s *Set) (func() error, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("connect to the fail point control socket %s (%s): %w", socket, ControlVar, err)
	}
	var mu sync.Mutex
	enc := json.NewEncoder(conn)
	w.report = func(r Report) error {
		mu.Lock()
		defer mu.Unlock()
		r.PID = os.Getpid()
		if err := enc.Encode(r); err != nil {
			return fmt.Errorf("report to the fail point control socket: %w", err)
		}
		return nil
	}
	if err := w.report(Report{}); err != nil {
		return nil, err
	}
	var closing atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		lines := bufio.NewScanner(conn)
		for lines.Scan() {
			if w.obey(lines.Text(), s) != nil {
				break
			}
		}
		if !closing.Load() {
			_ = w.kill()
		}
	}()
	return func() error {
		closing.Store(true)
		err := conn.Close()
		<-done
		return err
	}, nil
}

// obey carries out one line; its error means that the channel is broken.
func (w *armed) obey(line string, s *Set) error {
	if strings.TrimSpace(line) == "go" {
		w.goOn()
		return nil
	}
	var c command
	if err := json.Unmarshal([]byte(line), &c); err != nil {
		return w.report(Report{Error: fmt.Sprintf("line %q: %v", line, err)})
	}
	if c.Arm != nil {
		arms, err := Parse(*c.Arm)
		if err != nil {
			return w.report(Report{Error: err.Error()})
		}
		w.arm(arms)
		n := len(arms)
		return w.report(Report{Armed: &n})
	}
	if c.Hits {
		return w.report(Report{Hits: s.Hits(), Last: s.Last()})
	}
	return w.report(Report{Error: fmt.Sprintf("line %q: want go, arm or hits", line)})
}
