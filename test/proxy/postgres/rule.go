package postgres

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"exactly/test/proxy"
)

// Message is a statement on its way to the server, or the end of the answer to it:
// that it was carried out, or an error. Rewriting changes what is forwarded: SQL of a
// statement; Tag or Error of an answer.
type Message struct {
	SQL    string // of an answer: as the client sent it
	Answer bool
	Failed bool // of an answer: the server says an error

	Tag   string                  // of an answer: what was carried out, as "INSERT 0 1"
	Error *pgproto3.ErrorResponse // of an answer: not nil where it is an error
}

// Rule says which statements, or answers to them, meet which fault.
type Rule struct {
	SQL    string // its beginning, in any case
	Answer bool   // the answer to it, and with it all that follows on the connection
	From   int    // the first one that is acted upon, counted from 1; 0: 1
	Times  int    // how many; 0: 1
	Act    Act
}

// Act is what happens to a message. proxy.Again is an error: on one connection nothing
// comes twice.
type Act = proxy.Act[*Message]

// Armed is a rule at work.
type Armed = proxy.Armed[*Message]

// Hold is proxy.Hold.
func Hold() Act { return proxy.Hold[*Message]() }

// Delay is proxy.Delay.
func Delay(d time.Duration) Act { return proxy.Delay[*Message](d) }

// Drop is proxy.Drop.
func Drop() Act { return proxy.Drop[*Message]() }

// Cut is proxy.Cut.
func Cut() Act { return proxy.Cut[*Message]() }

var (
	errAnswer    = errors.New("it is an answer, whose statement has been carried out")
	errStatement = errors.New("it is a statement, which has no outcome yet")
)

// Rewrite puts another statement in the place of the client's. Of one that is parsed
// the parameters stay.
func Rewrite(f func(sql string) string) Act {
	return proxy.Rewrite(func(m *Message) error {
		if m.Answer {
			return fmt.Errorf("rewrite %q: %w", m.SQL, errAnswer)
		}
		m.SQL = f(m.SQL)
		return nil
	})
}

// Refuse puts an error in the place of the answer, whatever the server did.
func Refuse(sqlstate, message string) Act {
	return proxy.Rewrite(func(m *Message) error {
		if !m.Answer {
			return fmt.Errorf("refuse %q: %w", m.SQL, errStatement)
		}
		m.Error = &pgproto3.ErrorResponse{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: sqlstate, Message: message}
		return nil
	})
}

// Tell puts a tag, as "INSERT 0 1", in the place of the answer, also of an error: who
// believes it takes for done what was not.
func Tell(tag string) Act {
	return proxy.Rewrite(func(m *Message) error {
		if !m.Answer {
			return fmt.Errorf("answer %q: %w", m.SQL, errStatement)
		}
		m.Tag, m.Error = tag, nil
		return nil
	})
}

// Add arms a rule.
func (p *Proxy) Add(r Rule) *Armed {
	want := strings.ToLower(r.SQL)
	name := fmt.Sprintf("%q", r.SQL)
	if r.Answer {
		name = "answer to " + name
	}
	return p.rules.Add(proxy.Rule[*Message]{
		Name: name, From: r.From, Times: r.Times, Act: r.Act,
		Match: func(m *Message) bool {
			return m.Answer == r.Answer && strings.HasPrefix(strings.ToLower(m.SQL), want)
		},
	})
}
