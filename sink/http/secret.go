package httpsink

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// credentials puts the user's secrets into requests, and keeps them out of
// everything that people read.
type credentials struct {
	bearer   *watched[string]
	username string
	password *watched[string]
	fixed    []string // secrets that never change: from headers and URLs
}

func newCredentials(c *Config, urls ...*url.URL) *credentials {
	cr := &credentials{}
	if a := c.Auth; a != nil {
		cr.bearer = newSecret("auth.bearer_token_file", a.BearerToken, a.BearerTokenFile)
		cr.username = a.Username
		cr.password = newSecret("auth.password_file", a.Password, a.PasswordFile)
	}
	for _, v := range c.Headers {
		cr.fixed = append(cr.fixed, v)
		if _, token, ok := strings.Cut(v, " "); ok { // "Bearer xyz": the token alone as well
			cr.fixed = append(cr.fixed, token)
		}
	}
	for _, u := range urls {
		if u == nil {
			continue
		}
		if pw, ok := u.User.Password(); ok {
			cr.fixed = append(cr.fixed, pw, basicAuth(u.User.Username(), pw))
		}
		for _, values := range u.Query() {
			cr.fixed = append(cr.fixed, values...)
		}
	}
	return cr
}

// check reads all files once.
func (cr *credentials) check() error {
	for _, w := range []*watched[string]{cr.bearer, cr.password} {
		if w == nil {
			continue
		}
		if _, err := w.get(); err != nil {
			return err
		}
	}
	return nil
}

// sign adds the Authorization header.
func (cr *credentials) sign(req *http.Request) error {
	switch {
	case cr.bearer != nil:
		token, err := cr.bearer.get()
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+token)
	case cr.username != "":
		pw := ""
		if cr.password != nil {
			var err error
			if pw, err = cr.password.get(); err != nil {
				return err
			}
		}
		req.SetBasicAuth(cr.username, pw)
	}
	return nil
}

// redact replaces every secret in s.
func (cr *credentials) redact(s string) string {
	secrets := slices.Clone(cr.fixed)
	if cr.bearer != nil {
		if v, err := cr.bearer.get(); err == nil {
			secrets = append(secrets, v)
		}
	}
	if cr.password != nil {
		if v, err := cr.password.get(); err == nil {
			secrets = append(secrets, v, basicAuth(cr.username, v))
		}
	}
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, secret := range secrets {
		if len(secret) < 3 { // no secret, and replacing it would make s unreadable
			continue
		}
		s = strings.ReplaceAll(s, secret, "***")
		s = strings.ReplaceAll(s, url.QueryEscape(secret), "***")
	}
	return s
}

func basicAuth(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}

// publicURL is an address without user, query and fragment.
func publicURL(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// snippet is the beginning of a response body, on one printable line.
func snippet(body []byte) string {
	const most = 300
	var b strings.Builder
	blank := false
	for _, r := range strings.ToValidUTF8(string(body), "?") {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) {
			blank = b.Len() > 0
			continue
		}
		if b.Len() >= most {
			return b.String() + "…"
		}
		if blank {
			b.WriteByte(' ')
			blank = false
		}
		b.WriteRune(r)
	}
	return b.String()
}
