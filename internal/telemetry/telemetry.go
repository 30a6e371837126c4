package telemetry

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"exactly"
)

// Config says where the endpoints listen.
type Config struct {
	Pipeline  string
	Listen    string // host:port; "": no endpoints
	Token     string // callers must show it as a bearer token; needed beyond loopback
	TokenFile string // the same from a file, read at each request
	Log       *slog.Logger
}

// Telemetry listens to one worker.
type Telemetry struct {
	c     Config
	board *board
	m     *metrics
	log   *logger
	srv   *http.Server
	ln    net.Listener
	done  chan struct{}
}

// ErrNoToken: an address beyond loopback without a token.
var ErrNoToken = errors.New("http.listen is reachable from other machines, so it needs http.token or http.token_file")

// Start opens the endpoints, if there are to be any.
func Start(c Config) (*Telemetry, error) {
	reg, m := newMetrics(c.Pipeline)
	t := &Telemetry{
		c: c, board: newBoard(c.Pipeline), m: m, done: make(chan struct{}),
		log: &logger{log: c.Log.With("pipeline", c.Pipeline), last: map[string]time.Time{}},
	}
	if c.Listen == "" {
		close(t.done)
		return t, nil
	}
	ln, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return nil, fmt.Errorf("http.listen %s: %w", c.Listen, err)
	}
	if a, ok := ln.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() && c.Token == "" && c.TokenFile == "" {
		return nil, errors.Join(fmt.Errorf("%s: %w", c.Listen, ErrNoToken), ln.Close())
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { t.say(w, t.board.snapshot().healthy()) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { t.say(w, t.board.snapshot().ready()) })
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { t.write(w, http.StatusOK, t.board.snapshot()) })
	t.ln, t.srv = ln, &http.Server{Handler: t.guard(mux), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		defer close(t.done)
		if err := t.srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			c.Log.Error("http_endpoint_ended", "err", err)
		}
	}()
	c.Log.Info("http_endpoint", "address", t.Addr())
	return t, nil
}

// Addr is where the endpoints listen; "" if they do not.
func (t *Telemetry) Addr() string {
	if t.ln == nil {
		return ""
	}
	return t.ln.Addr().String()
}

// See takes an event of the engine. It does not block on I/O but the log's.
func (t *Telemetry) See(e exactly.Event) {
	t.board.see(e)
	t.m.see(e)
	t.log.see(e)
}

// Close stops the endpoints.
func (t *Telemetry) Close(ctx context.Context) error {
	if t.srv == nil {
		return nil
	}
	err := t.srv.Shutdown(ctx)
	<-t.done
	if err != nil {
		return fmt.Errorf("stop http endpoint: %w", err)
	}
	return nil
}

func (t *Telemetry) token() (string, error) {
	if t.c.TokenFile == "" {
		return t.c.Token, nil
	}
	b, err := os.ReadFile(t.c.TokenFile)
	return strings.TrimRight(string(b), "\r\n"), err
}

// guard asks for the token, in constant time, where one is set.
func (t *Telemetry) guard(next http.Handler) http.Handler {
	if t.c.Token == "" && t.c.TokenFile == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		want, err := t.token()
		got, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if err != nil || want == "" || !ok || subtle.ConstantTimeCompare([]byte(got), []byte(want)) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (t *Telemetry) say(w http.ResponseWriter, good bool) {
	code := http.StatusOK
	if !good {
		code = http.StatusServiceUnavailable
	}
	t.write(w, code, t.board.snapshot())
}

func (t *Telemetry) write(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		t.c.Log.Debug("http_write_failed", "err", err)
	}
}
