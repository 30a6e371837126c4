package httpproxy

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"exactly/test/proxy"
)

// Message is a request on its way to the server, or, with Answer, what the server
// answered to it. Rewriting changes what is forwarded: the fields of the request,
// or those of the answer.
type Message struct {
	Method string
	Path   string
	Query  url.Values
	Header http.Header
	Body   []byte
	Answer *Answer // nil: the request is on its way
}

// Answer is what the server said.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte

	half bool // it breaks off
}

// Rule says which requests, or answers to them, meet which fault.
type Rule struct {
	Method string              // empty: any
	Path   string              // how it begins
	Query  []string            // parameters that are there, as "name" or "name=value"
	Is     func(*Message) bool // what else holds; nil: nothing; it must not block
	Answer bool                // the answers
	From   int                 // the first one that is acted upon, counted from 1; 0: 1
	Times  int                 // how many; 0: 1; proxy.Always
	Act    proxy.Act[*Message]
}

// Armed is a rule at work.
type Armed = proxy.Armed[*Message]

// CompleteMultipartUpload matches what makes an S3 object of its parts.
func CompleteMultipartUpload(answer bool, act proxy.Act[*Message]) Rule {
	return Rule{Method: http.MethodPost, Query: []string{"uploadId"}, Answer: answer, Act: act}
}

// Half lets an answer break off in the middle: the status, every header, half of
// the body, and the end of the connection. An answer without a body is cut.
func Half() proxy.Act[*Message] {
	return proxy.Rewrite(func(m *Message) error {
		if m.Answer == nil {
			return fmt.Errorf("%s %s is a request, which cannot break off", m.Method, m.Path)
		}
		m.Answer.half = true
		return nil
	})
}

// Status puts another answer in the place of the server's.
func Status(status int, h http.Header, body string) proxy.Act[*Message] {
	return proxy.Rewrite(func(m *Message) error {
		if m.Answer == nil {
			return fmt.Errorf("%s %s is a request, which has no status", m.Method, m.Path)
		}
		m.Answer = &Answer{Status: status, Header: h.Clone(), Body: []byte(body)}
		return nil
	})
}

// Add arms a rule.
func (p *Proxy) Add(r Rule) *Armed {
	name := strings.TrimSpace(r.Method + " " + r.Path + "?" + strings.Join(r.Query, "&"))
	if r.Answer {
		name = "answer to " + name
	}
	return p.rules.Add(proxy.Rule[*Message]{Name: name, Match: r.matches, From: r.From, Times: r.Times, Act: r.Act})
}

func (r Rule) matches(m *Message) bool {
	if r.Answer != (m.Answer != nil) || r.Method != "" && r.Method != m.Method || !strings.HasPrefix(m.Path, r.Path) {
		return false
	}
	for _, q := range r.Query {
		name, value, exact := strings.Cut(q, "=")
		if !m.Query.Has(name) || exact && m.Query.Get(name) != value {
			return false
		}
	}
	return r.Is == nil || r.Is(m)
}
