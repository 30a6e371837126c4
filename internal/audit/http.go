package audit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// HTTPReader reads what a partner says that it carried out: a GET that answers
// with JSON lines, one per executed call, in the order of execution:
//
//	{"key":"…","body":{…},"lane":"…"}
//
// key is the idempotency key and may be left out where there is none; body is
// the body as JSON, or as a string; lane, if given, names the calls among which
// order matters.
type HTTPReader struct {
	URL    string
	Client *http.Client // nil: one without time limit, since listings are long
	Header http.Header
	ByKey  bool // the idempotency key is the identity; where a call has none, what the body says
	Once   bool // the key is a business key: one call per key, ever
}

// maxCall bounds a line of the listing, in bytes.
const maxCall = 16 << 20

type call struct {
	Key  *string        `json:"key"`
	Body jsontext.Value `json:"body"`
	Lane string         `json:"lane"`
}

// Shape: a partner executes every call, or one per key.
func (r *HTTPReader) Shape(context.Context) (Shape, error) {
	if r.URL == "" {
		return Shape{}, errors.New("the address of the partner's listing is not known: give --listing SINK=URL")
	}
	s := Shape{Mode: Every}
	if r.Once {
		s.Mode = Once
	}
	return s, nil
}

// Read lists the calls.
func (r *HTTPReader) Read(ctx context.Context, fn func(*Held) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL, nil)
	if err != nil {
		return fmt.Errorf("list the partner's calls: %w", err)
	}
	if r.Header != nil {
		req.Header = r.Header
	}
	client := r.Client
	if client == nil {
		client = &http.Client{}
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("list the partner's calls: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("list the partner's calls: status %s, want 200", resp.Status)
	}
	return r.lines(resp.Body, fn)
}

func (r *HTTPReader) lines(body io.Reader, fn func(*Held) error) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 64<<10), maxCall)
	for n := 1; lines.Scan(); n++ {
		var c call
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return fmt.Errorf("line %d of the partner's listing: %w", n, err)
		}
		h := Held{Place: fmt.Sprintf("call %d", n), Stream: c.Lane}
		h.Value = c.Body
		if c.Body.Kind() == '"' {
			v, err := jsontext.AppendUnquote([]byte{}, c.Body)
			if err != nil {
				return fmt.Errorf("line %d of the partner's listing: %w", n, err)
			}
			h.Value = v
		}
		if r.ByKey && c.Key != nil {
			h.ID = []byte(*c.Key)
		}
		if err := fn(&h); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the partner's listing: %w", err)
	}
	return nil
}
