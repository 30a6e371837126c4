package httpsink

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// watched is something made from files, made again when one of them changes.
// It is safe for concurrent use.
type watched[T any] struct {
	paths []string
	load  func() (T, error)
	drop  func(T) // called with a value that was replaced; may be nil

	mu      sync.Mutex
	checked time.Time
	stamp   string
	value   T
	loaded  bool
}

// get looks at the files at most once a second. A change that cannot be loaded
// (a file half written) leaves the old value in force until the next look.
func (w *watched[T]) get() (T, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if w.loaded && (len(w.paths) == 0 || now.Sub(w.checked) < time.Second) {
		return w.value, nil
	}
	w.checked = now
	stamp := stampOf(w.paths)
	if w.loaded && stamp == w.stamp {
		return w.value, nil
	}
	value, err := w.load()
	switch {
	case err != nil && w.loaded:
		return w.value, nil
	case err != nil:
		return value, err
	}
	if w.loaded && w.drop != nil {
		w.drop(w.value)
	}
	w.value, w.stamp, w.loaded = value, stamp, true
	return value, nil
}

// stampOf changes when a file is written or replaced.
func stampOf(paths []string) string {
	var b strings.Builder
	for _, p := range paths {
		if info, err := os.Stat(p); err == nil {
			fmt.Fprintf(&b, "%d:%d,", info.ModTime().UnixNano(), info.Size())
		} else {
			b.WriteString("missing,")
		}
	}
	return b.String()
}

// newSecret is a secret given in place or by file; nil where there is neither.
func newSecret(setting, value, path string) *watched[string] {
	switch {
	case value != "":
		return &watched[string]{load: func() (string, error) { return value, nil }}
	case path == "":
		return nil
	}
	return &watched[string]{paths: []string{path}, load: func() (string, error) {
		raw, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("%s: %w", setting, err)
		}
		s := strings.TrimRight(string(raw), "\r\n")
		if s == "" || !validValue(s) {
			return "", fmt.Errorf("%s: %s holds no usable secret (one line is wanted)", setting, path)
		}
		return s, nil
	}}
}
