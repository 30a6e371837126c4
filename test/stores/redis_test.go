//go:build services

package stores

import (
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"exactly/internal/services"
)

// claim adds to a sum unless a key says that it was done: what exactly-once in
// Redis is made of.
const claim = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX') then
	redis.call('INCRBY', KEYS[2], ARGV[2])
	return 1
end
return 0`

func redisClient(t *testing.T, s *services.RedisServer) *redis.Client {
	t.Helper()
	cl := redis.NewClient(&redis.Options{Addr: s.Address})
	t.Cleanup(func() { check(t, cl.Close()) })
	return cl
}

// TestRedisSurvivesSIGKILL: what MULTI … EXEC and a script wrote and Redis answered
// is there after a SIGKILL, whole.
func TestRedisSurvivesSIGKILL(t *testing.T) {
	t.Parallel()
	s := services.Redis(t, true)
	ctx, cl, p := deadline(t), redisClient(t, s), s.Prefix()
	const n = 50
	for i := range n {
		_, err := cl.TxPipelined(ctx, func(tx redis.Pipeliner) error {
			tx.HSet(ctx, p+"rows", fmt.Sprint(i), i)
			tx.Set(ctx, p+"through", i, 0)
			return nil
		})
		check(t, err)
		check(t, cl.Eval(ctx, claim, []string{p + "done:" + fmt.Sprint(i), p + "sum"}, "epoch", i).Err())
	}
	restart(t, s.Store)
	rows, err := cl.HLen(ctx, p+"rows").Result()
	check(t, err)
	through, err := cl.Get(ctx, p+"through").Int()
	check(t, err)
	sum, err := cl.Get(ctx, p+"sum").Int()
	check(t, err)
	if rows != n || through != n-1 || sum != n*(n-1)/2 {
		t.Errorf("after SIGKILL: %d rows through %d, sum %d; want %d, %d, %d", rows, through, sum, n, n-1, n*(n-1)/2)
	}
	again, err := cl.Eval(ctx, claim, []string{p + "done:7", p + "sum"}, "epoch", 7).Int()
	check(t, err)
	if again != 0 {
		t.Error("a script that was carried out before the SIGKILL is carried out again")
	}
}

// TestRedisTransaction: of two who watch one key one wins, and a script wins once.
func TestRedisTransaction(t *testing.T) {
	t.Parallel()
	s := services.Redis(t, false)
	ctx, cl, p := deadline(t), redisClient(t, s), s.Prefix()
	var read [2]chan struct{}
	for i := range read {
		read[i] = make(chan struct{})
	}
	errs := race(func(i int) error {
		return cl.Watch(ctx, func(tx *redis.Tx) error {
			if err := tx.Get(ctx, p+"fence").Err(); !errors.Is(err, redis.Nil) {
				return fmt.Errorf("the key is there: %w", err)
			}
			close(read[i])
			<-read[1-i] // both have read before one writes
			_, err := tx.TxPipelined(ctx, func(w redis.Pipeliner) error {
				w.Set(ctx, p+"fence", i, 0)
				w.Incr(ctx, p+"writes")
				return nil
			})
			return err
		}, p+"fence")
	})
	if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs[:]...), redis.TxFailedErr) {
		t.Errorf("two transactions over one watched key: %v; want one to fail", errs)
	}
	writes, err := cl.Get(ctx, p+"writes").Int()
	check(t, err)
	if writes != 1 {
		t.Errorf("written %d times, want once", writes)
	}
	won := race(func(int) int {
		n, err := cl.Eval(ctx, claim, []string{p + "done", p + "sum"}, "x", 5).Int()
		if err != nil {
			t.Error(err)
		}
		return n
	})
	if won[0]+won[1] != 1 {
		t.Errorf("two scripts for one claim: %v, want one to win", won)
	}
}
