//go:build unix

package services

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// The kernel takes the local ports of outgoing connections from 32768 up
// (net.ipv4.ip_local_port_range of Linux) or 49152 up (IANA's dynamic ports):
// below it no client can take the port of a broker that is down for a moment.
const (
	firstPort = 20000
	lastPort  = 32700
)

// ports are reserved against every other test binary until release.
type ports struct {
	dir  string // of the lock files
	held []*os.File
}

func newPorts() (*ports, error) {
	d, err := Dir()
	if err != nil {
		return nil, err
	}
	d = filepath.Join(d, "ports")
	if err := os.MkdirAll(d, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of port locks: %w", err)
	}
	return &ports{dir: d}, nil
}

// reserve returns n ports of the loopback interface on which nobody listens.
func (p *ports) reserve(n int) ([]int, error) {
	var got []int
	for tries := 0; len(got) < n; tries++ {
		if tries > 50*n+200 {
			return nil, fmt.Errorf("reserve %d ports between %d and %d: only %d were free", n, firstPort, lastPort, len(got))
		}
		port := firstPort + rand.IntN(lastPort-firstPort)
		ok, err := p.try(port)
		if err != nil {
			return nil, err
		}
		if ok {
			got = append(got, port)
		}
	}
	return got, nil
}

func (p *ports) try(port int) (bool, error) {
	f, err := lock(filepath.Join(p.dir, strconv.Itoa(port)))
	if f == nil || err != nil {
		return false, err
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil { // somebody listens there
		return false, f.Close()
	}
	if err := l.Close(); err != nil {
		return false, errors.Join(fmt.Errorf("try port %d: %w", port, err), f.Close())
	}
	p.held = append(p.held, f)
	return true, nil
}

func (p *ports) release() error {
	var errs []error
	for _, f := range p.held {
		errs = append(errs, f.Close())
	}
	p.held = nil
	return errors.Join(errs...)
}

// lock takes the file lock at path for as long as the returned file is open.
// It returns nil and no error when another process, or another call, has it.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, f.Close()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return f, nil
}
