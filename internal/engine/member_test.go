package engine_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// I11: a worker that the group does not know takes nothing over, however often it
// was assigned tasks.
func TestNoTakeoverWithoutMembership(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2)
	var taken atomic.Int64
	b.c.ControlKey(int16(kmsg.InitProducerID), func(req kmsg.Request) (kmsg.Response, error, bool) { //nolint:revive // kfake's signature
		b.c.KeepControl()
		if id := req.(*kmsg.InitProducerIDRequest).TransactionalID; id != nil && strings.Contains(*id, ".t") {
			taken.Add(1)
		}
		return nil, nil, false
	})
	unknown := b.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Count: -1, Err: kerr.UnknownMemberID})
	b.produce(0, 50)
	stop := b.run(b.config())
	if err := unknown.Wait(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	if n := taken.Load(); n != 0 {
		t.Errorf("%d transactional ids were taken by a worker that is no member", n)
	}
	unknown.Remove()
	b.until("everything", func() bool { return len(b.rows("rows")) == 50 })
	if taken.Load() == 0 {
		t.Error("the test does not see takeovers")
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}
