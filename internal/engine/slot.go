package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// slot is a place in the worker's directory that one process at a time holds,
// by a file lock that dies with the process. It remembers the group member id
// of its last life: only its holder may evict that member.
type slot struct {
	lock *os.File
	path string
}

const maxSlots = 256

// takeSlot takes the first free slot of the group in dir; nil, if dir is "".
func takeSlot(dir, group string) (*slot, error) {
	if dir == "" {
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("worker.dir: %w", err)
	}
	for i := range maxSlots {
		path := filepath.Join(dir, fmt.Sprintf("%s.worker-%d", group, i))
		f, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return nil, fmt.Errorf("worker.dir: %w", err)
		}
		ok, err := lockFile(f)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("worker.dir: lock %s: %w", path, err), f.Close())
		}
		if ok {
			return &slot{lock: f, path: path + ".member"}, nil
		}
		if err := f.Close(); err != nil {
			return nil, fmt.Errorf("worker.dir: %w", err)
		}
	}
	return nil, fmt.Errorf("worker.dir: %s holds %d running workers of this pipeline already", dir, maxSlots)
}

// earlier is the member id of the slot's last life, "" if it left properly.
func (s *slot) earlier() string {
	if s == nil {
		return ""
	}
	b, err := os.ReadFile(s.path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// remember keeps the member id for the next life. Written aside and renamed: a
// torn id would be no harm, but an empty one would cost a session time-out.
func (s *slot) remember(member string) error {
	if s == nil {
		return nil
	}
	tmp := s.path + ".tmp"
	if err := os.WriteFile(tmp, []byte(member), 0o644); err != nil {
		return fmt.Errorf("worker.dir: %w", err)
	}
	if err := os.Rename(tmp, s.path); err != nil {
		return fmt.Errorf("worker.dir: %w", err)
	}
	return nil
}

// forget is for a member that left the group.
func (s *slot) forget() error {
	if s == nil {
		return nil
	}
	if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("worker.dir: %w", err)
	}
	return nil
}

func (s *slot) close() error {
	if s == nil {
		return nil
	}
	return s.lock.Close()
}
