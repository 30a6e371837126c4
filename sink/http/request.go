package httpsink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"exactly/record"
	"exactly/sink"
)

// state of a call within one Apply.
type state int

const (
	open    state = iota // not asked, or not answered for good
	settled              // carried out, or nothing to do
	refused              // has its verdict
)

// call is what one record asks of the partner. Its fields up to lane are fixed
// before any call is made: invariant I.
type call struct {
	pos    sink.Pos
	src    record.Position
	method string
	url    *url.URL
	header http.Header // computed ones only
	body   []byte      // nil: none
	key    string      // idempotency key; "": none is sent
	group  []byte      // Kafka key; nil: none
	remove bool        // a tombstone's call

	state   state
	verdict sink.Verdict // where refused
	err     error        // why it is open; nil: it was not come to
}

// prepare turns a record into its call. A record that cannot become a call is
// refused, here and in every replay.
func (t *task) prepare(e *sink.Entry) *call {
	c := &call{pos: e.Pos, src: e.Source, group: e.Key}
	if k, ok := t.known[e.Pos]; ok {
		c.state, c.verdict = k.state, k.verdict
		c.key = k.key
		return c
	}
	if e.Tombstone() && t.sink.cfg.Delete == nil {
		c.state = settled
		return c
	}
	if err := t.fill(c, &e.Record); err != nil {
		c.state = refused
		c.verdict = sink.Verdict{Pos: e.Pos, Code: sink.Code(err), Reason: t.sink.creds.redact(err.Error())}
	}
	return c
}

func (t *task) fill(c *call, r *record.Record) error {
	s := t.sink
	t.vars.Reset(r)
	c.url, c.remove = s.url, r.Tombstone()
	path := s.exprs.path
	if c.remove {
		c.method, path = s.cfg.Delete.Method, s.exprs.deletePath
	} else {
		c.method, c.body = s.cfg.Method, r.Value
		if err := t.fillHeaders(c); err != nil {
			return err
		}
	}
	if path != nil {
		p, err := path(&t.vars)
		if err != nil {
			return err
		}
		if c.url, err = join(s.url, p); err != nil {
			return sink.Poison("path", err)
		}
	}
	return t.fillKey(c, r)
}

func (t *task) fillHeaders(c *call) error {
	for _, h := range t.sink.exprs.headers {
		v, err := h.value(&t.vars)
		if err != nil {
			return err
		}
		if !validValue(v) {
			return sink.Poison("header", fmt.Errorf("header_exprs.%s: %q has characters that a header cannot carry", h.name, v))
		}
		if c.header == nil {
			c.header = http.Header{}
		}
		c.header.Set(h.name, v)
	}
	return nil
}

// fillKey computes the idempotency key. At least once sends none: that is what
// makes it the control.
func (t *task) fillKey(c *call, r *record.Record) error {
	switch {
	case t.owner.Guarantee == sink.AtLeastOnce:
		return nil
	case t.sink.exprs.key == nil || c.remove:
		c.key = DefaultKey(t.owner, r)
		return nil
	}
	key, err := t.sink.exprs.key(&t.vars)
	if err != nil {
		return err
	}
	if !validKey(key) {
		return sink.Poison("idempotency_key", fmt.Errorf("idempotency_key: %q is empty or has characters other than printable ASCII, or blanks at an end", key))
	}
	c.key = key
	return nil
}

// DefaultKey is the idempotency key of a record where the pipeline file names
// none: "incarnation/sink/topic-partition-offset/sub". It names the pipeline's
// incarnation, since another pipeline may read the same record, and the sink,
// since a second one may call the same partner; it is the same in every attempt,
// epoch and generation.
func DefaultKey(o sink.Owner, r *record.Record) string {
	p := r.Source
	return o.Incarnation + "/" + o.Sink + "/" + p.Topic + "-" + strconv.Itoa(int(p.Partition)) + "-" +
		strconv.FormatInt(p.Offset, 10) + "/" + strconv.Itoa(int(r.Sub))
}

// join adds a computed path to the address. The path is data: it must not climb
// out of the address, and "?" or "#" in it are part of a name.
func join(base *url.URL, path string) (*url.URL, error) {
	for part := range strings.SplitSeq(path, "/") {
		if part == "." || part == ".." {
			return nil, fmt.Errorf("path: %q climbs out of url", path)
		}
	}
	if strings.Trim(path, "/") == "" {
		return nil, errors.New("path: is empty")
	}
	u := *base
	u.Path = strings.TrimRight(base.Path, "/") + "/" + strings.TrimLeft(path, "/")
	u.RawPath = ""
	return &u, nil
}

// request builds one attempt. Every attempt of a call is equal, byte for byte.
func (t *task) request(ctx context.Context, c *call) (*http.Request, error) {
	s := t.sink
	var body io.Reader
	if c.body != nil {
		// A type that net/http knows, so that it can repeat the request when an
		// idle connection turns out to be closed.
		body = bytes.NewReader(c.body)
	}
	req, err := http.NewRequestWithContext(ctx, c.method, c.url.String(), body)
	if err != nil {
		return nil, err
	}
	if c.body != nil {
		req.Header.Set("Content-Type", s.cfg.ContentType)
	}
	req.Header.Set("User-Agent", "exactly")
	for name, value := range s.cfg.Headers {
		setHeader(req, name, value)
	}
	for name, values := range c.header {
		setHeader(req, name, values[0])
	}
	if err := s.creds.sign(req); err != nil {
		return nil, err
	}
	if c.key != "" {
		req.Header.Set(s.cfg.IdempotencyHeader, c.key)
	}
	return req, nil
}

func setHeader(req *http.Request, name, value string) {
	if http.CanonicalHeaderKey(name) == "Host" { // net/http takes it from here only
		req.Host = value
		return
	}
	req.Header.Set(name, value)
}
