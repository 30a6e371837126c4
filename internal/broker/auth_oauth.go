package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// tokenLead is how long before its end a token is replaced.
const tokenLead = 30 * time.Second

// tokenSource fetches tokens by client credentials and keeps one until shortly
// before it expires. The secret is read anew for each fetch.
type tokenSource struct {
	set    OAuth
	secret *secret
	turn   chan struct{} // held by who looks at or replaces tok
	tok    *oauth2.Token // nil: none yet
}

func newTokenSource(o OAuth, log *slog.Logger) *tokenSource {
	if o.HTTP == nil {
		o.HTTP = &http.Client{Timeout: 10 * time.Second}
	}
	return &tokenSource{
		set:    o,
		secret: &secret{setting: "kafka.sasl.oauth.client_secret", value: o.ClientSecret, file: o.ClientSecretFile, log: log},
		turn:   make(chan struct{}, 1),
	}
}

// token gives a token that is valid now. It blocks while one is fetched, for
// all callers once.
func (s *tokenSource) token(ctx context.Context) (string, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	defer func() { <-s.turn }()
	if s.left() > tokenLead {
		return s.tok.AccessToken, nil
	}
	tok, err := s.fetch(ctx)
	switch {
	case err == nil:
		s.tok = tok
	case s.left() > time.Second: // not yet gone: better than no connection
	default:
		return "", err
	}
	return s.tok.AccessToken, nil
}

// left is how long the kept token lasts. One without an end is asked for again
// at each connection, since nobody says when it ends.
func (s *tokenSource) left() time.Duration {
	if s.tok == nil || s.tok.Expiry.IsZero() {
		return 0
	}
	return time.Until(s.tok.Expiry)
}

func (s *tokenSource) fetch(ctx context.Context) (*oauth2.Token, error) {
	secret, err := s.secret.get()
	if err != nil {
		return nil, err
	}
	conf := clientcredentials.Config{
		ClientID:     s.set.ClientID,
		ClientSecret: secret,
		TokenURL:     s.set.TokenURL,
		Scopes:       strings.Fields(s.set.Scope),
	}
	tok, err := conf.Token(context.WithValue(ctx, oauth2.HTTPClient, s.set.HTTP))
	if err == nil {
		return tok, nil
	}
	p := &Problem{Code: CodeAuth, Place: "kafka.sasl.oauth.token_url", Cause: "no token from " + s.set.place(), Err: err}
	// The server's body may repeat what was sent to it: only what RFC 6749,
	// section 5.2 defines is told.
	if refused := (*oauth2.RetrieveError)(nil); errors.As(err, &refused) {
		status := 0
		if refused.Response != nil {
			status = refused.Response.StatusCode
		}
		p.Err = fmt.Errorf("status %d, error %q", status, refused.ErrorCode)
		p.Remedy = "check oauth.client_id, its secret and oauth.scope"
	}
	return nil, p
}
