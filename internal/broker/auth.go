package broker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// login makes the mechanism once.
type login struct {
	once sync.Once
	m    sasl.Mechanism
	err  error
}

func (l *login) mechanism(s SASL, log *slog.Logger) (sasl.Mechanism, error) {
	l.once.Do(func() { l.m, l.err = mechanism(s, log) })
	return l.m, l.err
}

// mechanism gives the login of every connection. Credentials are asked for at
// each one, so a rotated file is used from the next connection on.
func mechanism(s SASL, log *slog.Logger) (sasl.Mechanism, error) {
	password := &secret{setting: "kafka.sasl.password", value: s.Password, file: s.PasswordFile, log: log}
	scramAuth := func(context.Context) (scram.Auth, error) {
		pass, err := password.get()
		return scram.Auth{User: s.Username, Pass: pass}, err
	}
	switch s.Mechanism {
	case "PLAIN":
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			pass, err := password.get()
			return plain.Auth{User: s.Username, Pass: pass}, err
		}), nil
	case "SCRAM-SHA-256":
		return scram.Sha256(scramAuth), nil
	case "SCRAM-SHA-512":
		return scram.Sha512(scramAuth), nil
	case "OAUTHBEARER":
		token := bearer(s, log)
		return oauth.Oauth(func(ctx context.Context) (oauth.Auth, error) {
			t, err := token(ctx)
			return oauth.Auth{Token: t}, err
		}), nil
	}
	return nil, fmt.Errorf("kafka.sasl.mechanism: %q is not known", s.Mechanism)
}

// bearer gives the source of OAUTHBEARER tokens (RFC 7628).
func bearer(s SASL, log *slog.Logger) func(context.Context) (string, error) {
	if s.OAuth.used() {
		return newTokenSource(s.OAuth, log).token
	}
	static := &secret{setting: "kafka.sasl.token", value: s.Token, file: s.TokenFile, log: log}
	return func(context.Context) (string, error) { return static.get() }
}
