package broker

import (
	"log/slog"
	"os"
	"strings"
	"sync"
)

// secret is a value, or a file that is read each time it is asked for. While
// the file is unreadable or empty, as in the middle of a rotation, the last
// value that it had is used.
type secret struct {
	setting string // for messages
	value   string
	file    string
	log     *slog.Logger

	mu   sync.Mutex
	last string
}

func (s *secret) get() (string, error) {
	if s.file == "" {
		return s.value, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := os.ReadFile(s.file)
	v := strings.TrimRight(string(b), "\r\n")
	switch {
	case err == nil && v != "":
		s.last = v
		return v, nil
	case s.last != "":
		s.log.Warn("secret_file_unreadable", "setting", s.setting+"_file", "file", s.file, "err", err, "using", "the last good value")
		return s.last, nil
	case err != nil:
		return "", &Problem{Code: CodeAuth, Place: s.setting + "_file", Cause: "cannot be read", Err: err}
	}
	return "", &Problem{
		Code: CodeAuth, Place: s.setting + "_file", Cause: s.file + " is empty",
		Remedy: "write the secret into it, without quotes",
	}
}
