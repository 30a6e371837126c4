//go:build synctests

package sim

import (
	"flag"
	"log/slog"
	"os"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"
)

var (
	seed  = flag.Uint64("sim.seed", 1, "the first seed")
	count = flag.Int("sim.n", 50, "how many schedules")
)

func TestOne(t *testing.T) {
	for n := range *count {
		s := generate(*seed + uint64(n))
		log := slog.New(slog.DiscardHandler)
		if *count == 1 {
			log = slog.New(slog.NewTextHandler(os.Stderr, nil))
			t.Log(s)
		}
		begin := time.Now()
		var err error
		t.Run("", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cryptotest.SetGlobalRandom(t, s.Seed)
				_, err = run(s, log)
			})
		})
		t.Logf("seed %d: %v %v", s.Seed, time.Since(begin), err)
		if err != nil {
			t.Errorf("seed %d: %v", s.Seed, err)
		}
	}
}
