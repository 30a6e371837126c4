package httpsink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"exactly/internal/failpoint"
	"exactly/sink"
)

// reply is the outcome of one attempt.
type reply struct {
	meaning meaning
	status  int           // 0: no answer
	wait    time.Duration // the partner's Retry-After
	remedy  string        // for people, where they have to do something
	err     error         // what happened; nil when done
}

// perform asks until the call is settled, refused, in doubt, or its budget is
// used up. The outcome is in c.
func (r *run) perform(ctx context.Context, c *call) {
	t := r.task
	retry := t.sink.cfg.Retry
	b := &backoff.ExponentialBackOff{
		InitialInterval: retry.Delay, MaxInterval: retry.MaxDelay,
		Multiplier: 2, RandomizationFactor: backoff.DefaultRandomizationFactor,
	}
	deadline := time.Now().Add(retry.Budget)
	for {
		if err := t.gate.pass(ctx, deadline); err != nil {
			r.giveUp(c, fmt.Errorf("record %s (%s): %w", c.pos, c.src, err))
			return
		}
		a := t.attempt(ctx, c)
		switch a.meaning {
		case done:
			c.state = settled
			r.streak.Store(0)
			return
		case poison:
			c.state = refused
			c.verdict = sink.Verdict{Pos: c.pos, Code: fmt.Sprintf("http_status_%d", a.status), Reason: a.err.Error()}
			r.streak.Store(0)
			return
		case inDoubt:
			c.err = sink.InDoubt(t.explain(c, a))
			t.alert(c, a)
			return
		}
		r.streak.Add(1)
		if a.remedy != "" {
			t.alert(c, a)
		}
		pause := max(b.NextBackOff(), a.wait)
		if ctx.Err() != nil || time.Now().Add(pause).After(deadline) {
			r.giveUp(c, t.explain(c, a))
			return
		}
		sleep(ctx, pause)
	}
}

func (r *run) giveUp(c *call, err error) {
	c.err = sink.Transient(err)
	r.gaveUp.Store(true)
}

// explain is the error for people: place, cause, remedy.
func (t *task) explain(c *call, a reply) error {
	err := fmt.Errorf("record %s (%s, key %q): %w", c.pos, c.src, c.key, a.err)
	if a.remedy != "" {
		err = fmt.Errorf("%w; %s", err, a.remedy)
	}
	return err
}

// alert tells a person, at most once a minute.
func (t *task) alert(c *call, a reply) {
	now, last := time.Now().UnixNano(), t.alerted.Load()
	if now-last >= int64(time.Minute) && t.alerted.CompareAndSwap(last, now) {
		t.log().Error("partner needs attention", "sink", t.sink.name, "task", t.owner.Task,
			"source", c.src.String(), "idempotency_key", c.key, "status", a.status, "cause", a.err.Error(), "remedy", a.remedy)
	}
}

// attempt makes one request. Whatever goes wrong without an answer leaves the
// outcome unknown: it is asked again with the same key, invariant II.
func (t *task) attempt(ctx context.Context, c *call) reply {
	if err := t.hit(ctx, failpoint.SinkTxnBefore, c); err != nil {
		return reply{meaning: transient, err: err}
	}
	a := t.ask(ctx, c)
	if err := t.hit(ctx, failpoint.SinkTxnAfter, c); err != nil {
		return reply{meaning: transient, err: fmt.Errorf("answer lost: %w", err)}
	}
	return a
}

// hit passes a fail point. What is armed there expects the calls of a task to be
// serial, as those of other sinks are.
func (t *task) hit(ctx context.Context, p failpoint.Point, c *call) error {
	if t.owner.Failpoints == nil {
		return nil
	}
	t.hits.Lock()
	defer t.hits.Unlock()
	return t.owner.Failpoints.Hit(ctx, p, t.owner.Task, c.pos.Epoch)
}

func (t *task) ask(ctx context.Context, c *call) reply {
	ctx, cancel := context.WithTimeout(ctx, t.timeout())
	defer cancel()
	client, err := t.client.get()
	if err != nil {
		return reply{meaning: transient, err: err, remedy: "repair the files under tls"}
	}
	req, err := t.request(ctx, c)
	if err != nil {
		return reply{meaning: transient, err: t.clean(err), remedy: "repair the files under auth"}
	}
	resp, err := client.Do(req)
	if err != nil {
		return reply{meaning: transient, err: t.unanswered(ctx, c, err)}
	}
	return t.read(c, resp)
}

// read judges an answer. Its body matters only when it is not "done"; else it
// is drained, so that the connection can be used again.
func (t *task) read(c *call, resp *http.Response) reply {
	defer resp.Body.Close()
	p := t.policy
	if m, _ := p.judge(resp.StatusCode, resp.Header, nil, c.remove); m == done {
		_, _ = io.CopyN(io.Discard, resp.Body, maxDrain) // the status has said it all
		return reply{meaning: done, status: resp.StatusCode}
	}
	a := reply{status: resp.StatusCode}
	body, cut := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if cut == nil {
		a.meaning, a.remedy = p.judge(resp.StatusCode, resp.Header, body, c.remove)
	} else { // what is missing could have said "in doubt" where the status says poison
		a.meaning, a.remedy = transient, "the partner's answer breaks off"
	}
	text := fmt.Sprintf("%s %s answered %d %s", c.method, publicURL(c.url), resp.StatusCode, http.StatusText(resp.StatusCode))
	if s := snippet(body); s != "" {
		text += ": " + s
	}
	a.err = errors.New(t.sink.creds.redact(text))
	if a.meaning == transient {
		a.wait = min(retryAfter(resp.Header, time.Now()), t.sink.cfg.Retry.MaxWait)
		t.gate.close(a.wait)
	}
	return a
}

// unanswered words the failure of a request without the address that net/http
// puts into it, which may hold a token.
func (t *task) unanswered(ctx context.Context, c *call, err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" {
		return fmt.Errorf("%s %s, not sent: %w", c.method, publicURL(c.url), t.clean(err))
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %s: %w", t.timeout(), context.DeadlineExceeded)
	}
	return fmt.Errorf("%s %s, outcome unknown: %w", c.method, publicURL(c.url), t.clean(err))
}

// clean takes secrets out of an error; where there are none it stays as it is.
func (t *task) clean(err error) error {
	if text := t.sink.creds.redact(err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}

func (t *task) timeout() time.Duration {
	if limit := t.owner.Transact.Timeout; limit > 0 {
		return min(limit, t.sink.cfg.Timeout)
	}
	return t.sink.cfg.Timeout
}

// gate holds all calls of a task back for as long as the partner asked for it
// (Retry-After of 429 and 503), also across Applies.
type gate struct {
	mu    sync.Mutex
	until time.Time
}

func (g *gate) close(d time.Duration) {
	if d <= 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if until := time.Now().Add(d); until.After(g.until) {
		g.until = until
	}
}

// pass waits until the gate is open; an error says that it will not be before
// the deadline.
func (g *gate) pass(ctx context.Context, deadline time.Time) error {
	for {
		g.mu.Lock()
		until := g.until
		g.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !time.Now().Before(until):
			return nil
		case until.After(deadline):
			return fmt.Errorf("the partner asks for a pause of %s more (Retry-After)", time.Until(until).Round(time.Millisecond))
		}
		sleep(ctx, time.Until(until))
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
