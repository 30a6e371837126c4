package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func newPartner(t *testing.T, payments int64) *partner {
	t.Helper()
	p, err := startPartner(1, payments, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p
}

// call gives the status, or 0 for a cut connection, which net/http may try again
// by itself.
func call(t *testing.T, p *partner, key, id string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/v1/events", strings.NewReader(fmt.Sprintf(`{"payment_id":%q}`, id)))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

func TestPartnerExecutesOncePerKey(t *testing.T) {
	t.Parallel()
	p := newPartner(t, 1000)
	const n = 400
	statuses := map[int]int{}
	for i := range n {
		id := fmt.Sprint("id-", i)
		status := 0
		for try := 0; status != http.StatusNoContent; try++ {
			if try > 5 {
				t.Fatalf("call %d is never answered: a key meets one fault at most", i)
			}
			status = call(t, p, id, id)
			statuses[status]++
		}
		if status := call(t, p, id, id); status != http.StatusNoContent {
			t.Errorf("a key that was carried out answers %d", status)
		}
	}
	if got := len(p.since(0)); got != n {
		t.Errorf("%d calls were executed, want %d: one per key", got, n)
	}
	if len(p.injected()) != 4 || statuses[http.StatusConflict] == 0 || statuses[http.StatusInternalServerError] == 0 {
		t.Errorf("faults %v, answers %v: want each kind", p.injected(), statuses)
	}
}

func TestPartnerExecutesEveryCallWithoutKey(t *testing.T) {
	t.Parallel()
	p := newPartner(t, 1_000_000) // hardly a fault
	for range 3 {
		call(t, p, "", "a")
	}
	if got := len(p.since(0)); got != 3 {
		t.Errorf("%d calls were executed, want 3", got)
	}
}

func TestPartnerInProgress(t *testing.T) {
	t.Parallel()
	p := newPartner(t, 1000)
	if !p.begin("k", []byte("{}")) || p.begin("k", []byte("{}")) {
		t.Error("a key that is being worked on is begun again")
	}
	p.finish("k")
	if !p.begin("k", []byte("{}")) || len(p.since(0)) != 1 {
		t.Errorf("a finished key: %d executions, want 1 and the old answer", len(p.since(0)))
	}
}

func TestPartnerLists(t *testing.T) {
	t.Parallel()
	p := newPartner(t, 1_000_000)
	p.begin(`k"1`, []byte(`{"payment_id":"a"}`))
	p.begin("", []byte(`{"payment_id":"b"}`))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got []string
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		var c struct {
			Key  *string
			Body struct {
				ID string `json:"payment_id"`
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("line %s: %v", lines.Bytes(), err)
		}
		key := "none"
		if c.Key != nil {
			key = *c.Key
		}
		got = append(got, key+" "+c.Body.ID)
	}
	if want := `k"1 a,none b`; strings.Join(got, ",") != want {
		t.Errorf("listed %v, want %s", got, want)
	}
}
