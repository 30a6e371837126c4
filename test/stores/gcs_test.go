//go:build services

package stores

import (
	"fmt"
	"net/http"
	"testing"

	"exactly/internal/services"
)

// TestGCSOneWinner: of two who write one object on the condition that there is none
// (ifGenerationMatch=0), one is taken, and what it wrote survives a SIGKILL.
func TestGCSOneWinner(t *testing.T) {
	t.Parallel()
	s := services.GCS(t, true)
	ctx := deadline(t)
	bucket := s.Bucket(t)
	winners := map[string]string{}
	for i := range 5 {
		name := fmt.Sprint("epoch-", i)
		put := func(text string) int {
			url := fmt.Sprintf("%s/upload/storage/v1/b/%s/o?uploadType=media&name=%s&ifGenerationMatch=0", s.URL, bucket, name)
			status, _ := ask(ctx, t, http.MethodPost, url, "text/plain", text)
			return status
		}
		texts := [2]string{"a", "b"}
		got := race(func(i int) int { return put(texts[i]) })
		switch got {
		case [2]int{http.StatusOK, http.StatusPreconditionFailed}:
			winners[name] = "a"
		case [2]int{http.StatusPreconditionFailed, http.StatusOK}:
			winners[name] = "b"
		default:
			t.Fatalf("two writers at once are answered %v, want one 200 and one 412", got)
		}
		if status := put("c"); status != http.StatusPreconditionFailed {
			t.Errorf("a third writer is answered %d, want 412", status)
		}
	}
	restart(t, s.Store)
	for name, want := range winners {
		status, got := ask(ctx, t, http.MethodGet, fmt.Sprintf("%s/storage/v1/b/%s/o/%s?alt=media", s.URL, bucket, name), "", "")
		if status != http.StatusOK || string(got) != want {
			t.Errorf("%s: got %d and %q, want the winner's %q", name, status, got, want)
		}
	}
}
