//go:build services

package stores

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"exactly/internal/services"
)

// ask makes a request and gives the status and the answer.
func ask(ctx context.Context, t *testing.T, method, url, contentType, body string) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	check(t, err)
	req.Header.Set("Content-Type", contentType)
	resp, err := http.DefaultClient.Do(req)
	check(t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	check(t, err)
	return resp.StatusCode, answer
}

// item is what OpenSearch says about one document of a bulk request.
type item struct {
	ID     string `json:"_id"`
	Status int    `json:"status"`
	Error  struct {
		Type string `json:"type"`
	} `json:"error"`
}

// document is one with the version that its place in the source gives it.
type document struct {
	id      string
	version int
	source  string
}

// bulk indexes documents, each only if none of a higher version is there.
func bulk(ctx context.Context, t *testing.T, s *services.OpenSearchServer, index string, docs ...document) (out []item) {
	t.Helper()
	var b strings.Builder
	for _, d := range docs {
		fmt.Fprintf(&b, `{"index":{"_id":%q,"version":%d,"version_type":"external_gte"}}`+"\n%s\n", d.id, d.version, d.source)
	}
	status, answer := ask(ctx, t, http.MethodPost, s.URL+"/"+index+"/_bulk", "application/x-ndjson", b.String())
	if status != http.StatusOK {
		t.Fatalf("bulk: %d: %s", status, answer)
	}
	var r struct{ Items []struct{ Index item } }
	check(t, json.Unmarshal(answer, &r))
	for _, i := range r.Items {
		out = append(out, i.Index)
	}
	if len(out) != len(docs) {
		t.Fatalf("bulk of %d: %d items answered: %s", len(docs), len(out), answer)
	}
	return out
}

// value is the field v of a document, and its version.
func value(ctx context.Context, t *testing.T, s *services.OpenSearchServer, index, id string) (v, version int) {
	t.Helper()
	status, answer := ask(ctx, t, http.MethodGet, s.URL+"/"+index+"/_doc/"+id, "application/json", "")
	var r struct {
		Version int            `json:"_version"`
		Source  map[string]int `json:"_source"`
	}
	if status == http.StatusOK {
		check(t, json.Unmarshal(answer, &r))
	}
	return r.Source["v"], r.Version
}

// TestOpenSearchBulk: a bad document does not hold up its neighbours, a repeated
// one is taken again, an older one never overwrites a newer one; and all of it is
// there after a SIGKILL.
func TestOpenSearchBulk(t *testing.T) {
	t.Parallel()
	s := services.OpenSearch(t, false) // the only test of it: nobody else misses what is killed
	ctx, index := deadline(t), s.Index()
	const mapping = `{"settings":{"number_of_shards":1,"number_of_replicas":0},"mappings":{"dynamic":"strict","properties":{"v":{"type":"long"}}}}`
	if status, answer := ask(ctx, t, http.MethodPut, s.URL+"/"+index, "application/json", mapping); status != http.StatusOK {
		t.Fatalf("make the index: %d: %s", status, answer)
	}
	first := []document{{"a", 10, `{"v":1}`}, {"bad", 11, `{"v":"many"}`}, {"strict", 12, `{"w":1}`}, {"b", 13, `{"v":2}`}}
	want := func(when string, items []item, statuses ...int) {
		t.Helper()
		for i, it := range items {
			if it.Status != statuses[i] {
				t.Errorf("%s: %s: got %d (%s), want %d", when, it.ID, it.Status, it.Error.Type, statuses[i])
			}
		}
	}
	want("first", bulk(ctx, t, s, index, first...), 201, 400, 400, 201)
	want("again", bulk(ctx, t, s, index, first...), 200, 400, 400, 200)
	want("newer, older", bulk(ctx, t, s, index, document{"a", 20, `{"v":3}`}, document{"b", 5, `{"v":9}`}), 200, 409)
	restart(t, s.Store)
	for id, w := range map[string][2]int{"a": {3, 20}, "b": {2, 13}, "bad": {}, "strict": {}} {
		if v, version := value(ctx, t, s, index, id); [2]int{v, version} != w {
			t.Errorf("%s: got %d of version %d, want %v", id, v, version, w)
		}
	}
	want("older after SIGKILL", bulk(ctx, t, s, index, document{"a", 19, `{"v":8}`}), 409)
}
