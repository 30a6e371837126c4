package httpsink

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"

	"exactly/sink"
)

// Sink makes one call per decided record. It is shared by all tasks of a worker
// and safe for concurrent use.
type Sink struct {
	name  string
	cfg   Config
	url   *url.URL
	exprs exprs
	creds *credentials
	table policy
	log   *slog.Logger
}

var _ sink.Outbox = (*Sink)(nil)

// New makes the sink called name. It looks at nothing but c: files and the
// network are Check's. Its errors name the setting.
func New(name string, c Config, d Deps) (*Sink, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("sink %s: http.%w", name, err)
	}
	table, err := newPolicy(&c)
	if err != nil {
		return nil, fmt.Errorf("sink %s: http.%w", name, err)
	}
	s := &Sink{name: name, cfg: c, table: table, log: d.Log}
	if s.exprs, err = compile(&c, d); err != nil {
		return nil, fmt.Errorf("sink %s: http.%w", name, err)
	}
	if s.url, err = parseURL("url", c.URL); err != nil {
		return nil, fmt.Errorf("sink %s: http.%w", name, err)
	}
	var check *url.URL
	if c.CheckURL != "" {
		if check, err = parseURL("check_url", c.CheckURL); err != nil {
			return nil, fmt.Errorf("sink %s: http.%w", name, err)
		}
	}
	s.creds = newCredentials(&c, s.url, check)
	return s, nil
}

// Features: a partner can be called twice, and can refuse.
func (s *Sink) Features() sink.Features {
	return sink.Features{Deletes: s.cfg.Delete != nil, Keyless: true, Rejects: true}
}

// Check reads the files that the settings name, and makes a request only to
// check_url: a call to url would be an effect.
func (s *Sink) Check(ctx context.Context) error {
	if err := s.creds.check(); err != nil {
		return fmt.Errorf("sink %s: http.%w", s.name, err)
	}
	client, err := buildClient(&s.cfg)
	if err != nil {
		return fmt.Errorf("sink %s: http.%w", s.name, err)
	}
	defer client.CloseIdleConnections()
	if s.cfg.CheckURL == "" {
		return nil
	}
	if err := s.checkURL(ctx, client); err != nil {
		return fmt.Errorf("sink %s: http.check_url: %w; check that the partner is up and that auth, headers and tls are right", s.name, err)
	}
	return nil
}

func (s *Sink) checkURL(ctx context.Context, client *http.Client) error {
	t := s.open(sink.Owner{Guarantee: sink.AtLeastOnce})
	defer t.Close()
	u, err := parseURL("check_url", s.cfg.CheckURL)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	c := &call{method: http.MethodGet, url: u}
	req, err := t.request(ctx, c)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return t.unanswered(ctx, c, err)
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, maxDrain)
	if resp.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("GET %s answered %d", publicURL(u), resp.StatusCode)
	}
	return nil
}

// OpenOutbox opens the sink for a task. The partner keeps no mark of how far it
// has come, so the journal's position is where the task goes on: what was called
// beyond it is called again, with the same keys.
func (s *Sink) OpenOutbox(_ context.Context, o sink.Owner, confirmed sink.Pos) (sink.OutboxTask, sink.Resume, error) {
	t := s.open(o)
	if _, err := t.client.get(); err != nil {
		return nil, sink.Resume{}, fmt.Errorf("sink %s: http.%w", s.name, err)
	}
	return t, sink.Resume{Through: confirmed}, nil
}

func (s *Sink) open(o sink.Owner) *task {
	t := &task{sink: s, owner: o, client: newClient(&s.cfg), policy: s.table, known: map[sink.Pos]*call{}}
	t.policy.keyed = o.Guarantee != sink.AtLeastOnce
	return t
}

// Close does nothing: connections belong to the tasks.
func (s *Sink) Close() error { return nil }

func (t *task) log() *slog.Logger {
	switch {
	case t.owner.Log != nil:
		return t.owner.Log
	case t.sink.log != nil:
		return t.sink.log
	}
	return slog.Default()
}
