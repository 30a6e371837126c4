package httpsink

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// meaning is what an answer says about the record.
type meaning int

const (
	done      meaning = iota // carried out
	poison                   // will never be taken: a dead letter
	transient                // ask again with the same key
	inDoubt                  // stop before the record and alert
)

var meanings = map[string]meaning{"done": done, "poison": poison, "transient": transient, "in_doubt": inDoubt}

// policy tells what each status means.
type policy struct {
	exact    map[int]meaning // the user's table, by status
	class    map[int]meaning // the user's table, by hundreds
	conflict meaning         // of 409
	keyed    bool            // an idempotency key is sent
	perPath  bool            // the path depends on the record, so that "not found" can be about the record
}

// newPolicy reads the user's table, whose keys are statuses ("409") or classes
// ("4xx").
func newPolicy(c *Config) (policy, error) {
	p := policy{
		exact: map[int]meaning{}, class: map[int]meaning{},
		conflict: transient, perPath: c.Path != "",
	}
	if c.Conflict == "done" {
		p.conflict = done
	}
	for _, key := range sortedKeys(c.Answers) {
		m, ok := meanings[c.Answers[key]]
		if !ok {
			return policy{}, fmt.Errorf("answers.%s: %q is none of done, poison, transient, in_doubt", key, c.Answers[key])
		}
		if hundreds, ok := strings.CutSuffix(strings.ToLower(key), "xx"); ok && len(hundreds) == 1 && "2" <= hundreds && hundreds <= "5" {
			p.class[int(hundreds[0]-'0')] = m
			continue
		}
		status, err := strconv.Atoi(key)
		if err != nil || status < 200 || status > 599 {
			return policy{}, fmt.Errorf("answers.%s: is neither a status from 200 to 599 nor a class like 4xx", key)
		}
		p.exact[status] = m
	}
	if m, ok := p.exact[http.StatusConflict]; ok && c.Conflict == "done" && m != done {
		return policy{}, errors.New("answers.409 contradicts conflict: done; keep one of them")
	}
	return p, nil
}

// judge gives the meaning of an answer, and for some a remedy for people.
func (p *policy) judge(status int, h http.Header, body []byte, deleting bool) (meaning, string) {
	m, remedy := p.byStatus(status, deleting)
	switch {
	case status >= 500 && m == transient && h.Get("Idempotent-Replayed") == "true":
		return inDoubt, "the partner replays a stored failure, so asking again is useless: find out whether it carried the call out, then have it forget the key, or say in answers what the status means"
	case (status == http.StatusBadRequest || status == http.StatusUnprocessableEntity) &&
		m == poison && p.keyed && isKeyProblem(h.Get("Content-Type"), body):
		return inDoubt, remedyReused
	}
	return m, remedy
}

const remedyReused = "the partner knows the idempotency key with another body: make idempotency_key unique per record, or say in answers that the status means poison"

// byStatus: what concerns the record is poison; what concerns the address, the
// credentials or the moment is transient, since one wrong setting must not turn
// every record into a dead letter.
func (p *policy) byStatus(status int, deleting bool) (meaning, string) {
	if m, ok := p.exact[status]; ok {
		return m, ""
	}
	if m, ok := p.class[status/100]; ok {
		return m, ""
	}
	switch status {
	case http.StatusConflict:
		return p.conflict, "the partner says that the key is in progress; if 409 means that it was carried out before, set conflict: done"
	case http.StatusUnprocessableEntity: // draft-ietf-httpapi-idempotency-key, section 2.7: the key was used with another payload
		if p.keyed {
			return inDoubt, remedyReused
		}
		return poison, ""
	case http.StatusNotFound, http.StatusGone:
		switch {
		case deleting:
			return done, ""
		case p.perPath:
			return poison, ""
		}
		return transient, "check url"
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong,
		http.StatusRequestHeaderFieldsTooLarge, http.StatusUnavailableForLegalReasons:
		return poison, ""
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return transient, "the partner refuses the credentials: check auth, headers and tls"
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return transient, ""
	}
	switch status / 100 {
	case 2:
		return done, ""
	case 3:
		return transient, "redirects are not followed: set url to the final address"
	case 4:
		return transient, "check url, method, content_type and headers, or say in answers what the status means"
	}
	return transient, ""
}

// isKeyProblem reports whether an error body is about the idempotency key: a
// problem document (RFC 9457) whose type or title names it, as in the IETF
// draft, or an error object whose type or code does, as Stripe's. Free text is
// not looked at.
func isKeyProblem(contentType string, body []byte) bool {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") {
		return false
	}
	var problem struct {
		Type  string          `json:"type"`
		Title string          `json:"title"`
		Code  json.RawMessage `json:"code"`
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &problem) != nil {
		return false
	}
	var inner struct {
		Type string `json:"type"`
		Code string `json:"code"`
	}
	var text string
	if json.Unmarshal(problem.Error, &text) != nil {
		_ = json.Unmarshal(problem.Error, &inner) // neither a text nor an object: nothing to find
	}
	for _, s := range []string{problem.Type, problem.Title, string(problem.Code), text, inner.Type, inner.Code} {
		if strings.Contains(strings.ToLower(s), "idempotency") {
			return true
		}
	}
	return false
}

// retryAfter reads the header in its two forms, seconds and date (RFC 9110,
// section 10.2.3); 0 where there is none.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return 0
	}
	if s, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(s) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}
