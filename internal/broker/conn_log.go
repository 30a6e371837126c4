package broker

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// logAdapter hands what the Kafka client says to slog, one level lower than the
// client does: what it reports as an error it usually repairs itself, and what
// a person must do the caller reports.
type logAdapter struct {
	log  *slog.Logger
	seen *seenLines
}

// seenLines lets a line through once in a while: a client without brokers says
// the same many times a second.
type seenLines struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// sameLine is how long the same words of the client are kept back.
const sameLine = 5 * time.Second

// first reports whether msg was not let through a moment ago. nil lets all
// through.
func (s *seenLines) first(msg string, now time.Time) bool {
	if s == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.last[msg]) < sameLine {
		return false
	}
	if len(s.last) > 1000 {
		clear(s.last)
	}
	s.last[msg] = now
	return true
}

var logLevels = map[kgo.LogLevel]slog.Level{
	kgo.LogLevelError: slog.LevelWarn,
	kgo.LogLevelWarn:  slog.LevelInfo,
	kgo.LogLevelInfo:  slog.LevelDebug,
	kgo.LogLevelDebug: slog.LevelDebug - 4,
}

// Level gives the lowest level that somebody listens to.
func (l logAdapter) Level() kgo.LogLevel {
	for k := kgo.LogLevelDebug; k > kgo.LogLevelNone; k-- {
		if l.log.Enabled(context.Background(), logLevels[k]) {
			return k
		}
	}
	return kgo.LogLevelNone
}

// Log implements kgo.Logger. The message is constant; what the client said is
// the event.
func (l logAdapter) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	to, ok := logLevels[level]
	if !ok {
		return
	}
	if to > slog.LevelDebug && !l.seen.first(msg, time.Now()) {
		return
	}
	args := make([]any, 0, len(keyvals)+2)
	args = append(args, "event", msg)
	for i := 0; i+1 < len(keyvals); i += 2 {
		key := strings.ReplaceAll(fmt.Sprint(keyvals[i]), " ", "_")
		val := keyvals[i+1]
		if secretKey(key) {
			val = "(hidden)"
		}
		args = append(args, key, val)
	}
	l.log.Log(context.Background(), to, "kafka_client", args...)
}

// secretKey reports whether a value of this name must not be shown. The client
// logs none today; this keeps it so.
func secretKey(key string) bool {
	key = strings.ToLower(key)
	for _, s := range []string{"pass", "secret", "token", "credential"} {
		if strings.Contains(key, s) {
			return true
		}
	}
	return false
}
