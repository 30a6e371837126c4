//go:build services

package stores

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"exactly/internal/services"
)

func TestMain(m *testing.M) { os.Exit(services.Main(m)) }

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// race calls f for 0 and 1 at once, and gives what each returned.
func race[T any](f func(i int) T) (out [2]T) {
	var wg sync.WaitGroup
	for i := range out {
		wg.Go(func() { out[i] = f(i) })
	}
	wg.Wait()
	return out
}

// restart kills the server and starts it over the same data.
func restart(t *testing.T, s *services.Store) {
	t.Helper()
	old := s.Proc()
	check(t, s.Kill())
	check(t, s.Start(deadline(t)))
	if old.Alive() || s.Proc().PID() == old.PID() {
		t.Errorf("%s was not started anew", s.Address)
	}
}

// TestTogether: the stores start side by side, and who asks for one gets it.
func TestTogether(t *testing.T) {
	services.Stores(t, services.KindRedis, services.KindS3, services.KindOpenSearch, services.KindAzure, services.KindGCS)
	a, b := services.S3(t, false), services.S3(t, false)
	if a.Store != b.Store {
		t.Error("two servers where one was asked for twice")
	}
	if own := services.S3(t, true); own.Store == a.Store {
		t.Error("an own server is the shared one")
	}
}
