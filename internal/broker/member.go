package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Assignment is a change of what a worker owns.
type Assignment struct {
	Tasks []int32
	Kind  AssignmentKind
	// Done must be called when the change was carried out: a revocation holds
	// up the rebalance until then.
	Done func()
}

// AssignmentKind says what happened to the tasks of an Assignment.
type AssignmentKind int

const (
	Assigned AssignmentKind = iota
	Revoked                 // finish gracefully: they are still ours until Done
	Lost                    // they are ours no longer: stop at once
)

// Member is a worker's membership in the pipeline's consumer group. Members
// subscribe to the journal topic: owning its partition s is owning task s. It
// fetches nothing.
type Member struct {
	admin   *Admin
	cl      *kgo.Client
	topic   string
	group   string
	changes chan Assignment
	ended   chan struct{} // closed by Leave: nobody reads changes any more
	once    sync.Once
	joins   joinHook

	mu    sync.Mutex
	owned map[int32]bool
}

// MemberConfig is what a Member is made from.
type MemberConfig struct {
	Group        string
	JournalTopic string
	// Earlier is this worker's own member id of a life that ended without
	// leaving the group; it is evicted once the new one has asked to join.
	// Never one learnt from anywhere else. Empty: none.
	Earlier string
}

// Join joins the group in the background. Changes tells what it brings.
func Join(ctx context.Context, admin *Admin, mc MemberConfig) (*Member, error) {
	m := &Member{
		admin: admin, topic: mc.JournalTopic, group: mc.Group, changes: make(chan Assignment, 16),
		ended: make(chan struct{}), owned: map[int32]bool{},
	}
	m.joins.asked = make(chan struct{})
	opts := append(slices.Clip(admin.Options()),
		kgo.ConsumerGroup(mc.Group),
		kgo.ConsumeTopics(mc.JournalTopic),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, p map[string][]int32) { m.onAssigned(p[m.topic]) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, p map[string][]int32) { m.onGone(Revoked, p[m.topic]) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, p map[string][]int32) { m.onGone(Lost, p[m.topic]) }),
		kgo.WithHooks(&m.joins),
		// Also how long a member that was evicted in the middle of a join waits
		// for an answer that does not come.
		kgo.RebalanceTimeout(max(10*time.Second, 2*admin.c.SessionTimeout)),
	)
	var err error
	if m.cl, err = kgo.NewClient(opts...); err != nil {
		return nil, fmt.Errorf("group member of %s: %w", mc.Group, err)
	}
	m.cl.PauseFetchTopics(mc.JournalTopic)
	if mc.Earlier != "" {
		go m.evictEarlier(ctx, mc.Earlier)
	}
	return m, nil
}

// Changes delivers what is assigned and taken away, in order.
func (m *Member) Changes() <-chan Assignment { return m.changes }

// Client is the member's client; its requests go to the group's cluster.
func (m *Member) Client() *kgo.Client { return m.cl }

func (m *Member) onAssigned(tasks []int32) {
	if len(tasks) == 0 {
		return
	}
	m.mu.Lock()
	for _, t := range tasks {
		m.owned[t] = true
	}
	m.mu.Unlock()
	slices.Sort(tasks)
	m.deliver(Assignment{Tasks: tasks, Kind: Assigned, Done: func() {}})
}

func (m *Member) onGone(kind AssignmentKind, tasks []int32) {
	if len(tasks) == 0 {
		return
	}
	if kind == Lost {
		m.disown(tasks)
	}
	done := make(chan struct{})
	var once sync.Once
	if m.deliver(Assignment{Tasks: tasks, Kind: kind, Done: func() { once.Do(func() { close(done) }) }}) {
		select {
		case <-done:
		case <-m.ended:
		}
	}
	m.disown(tasks)
}

func (m *Member) disown(tasks []int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range tasks {
		delete(m.owned, t)
	}
}

func (m *Member) deliver(a Assignment) bool {
	select {
	case m.changes <- a:
		return true
	case <-m.ended:
		return false
	}
}

// Current is the membership for offsets of a task, and whether the task is
// still ours as far as the group has told us.
func (m *Member) Current(task int32) (Membership, bool) {
	m.mu.Lock()
	ok := m.owned[task]
	m.mu.Unlock()
	id, gen := m.cl.GroupMetadata()
	return Membership{MemberID: id, Generation: gen}, ok
}

// Prove sends a heartbeat of its own and waits for a good answer: the condition
// of every takeover, so that a zombie and its successor cannot fence each other
// in turn. A rebalance in progress proves membership as well.
func (m *Member) Prove(ctx context.Context, task int32) error {
	wait := 5 * time.Millisecond
	for {
		mem, ok := m.Current(task)
		if !ok {
			return ErrNotOurs
		}
		err := m.admin.Heartbeat(ctx, mem)
		if err == nil || errors.Is(err, kerr.RebalanceInProgress) {
			if _, ok := m.Current(task); !ok {
				return ErrNotOurs
			}
			return nil
		}
		if errors.Is(err, kerr.FencedInstanceID) {
			return fmt.Errorf("heartbeat of group %s: %w", m.group, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("heartbeat of group %s: %w (%w)", m.group, err, ctx.Err())
		case <-time.After(wait):
		}
		wait = min(2*wait, 250*time.Millisecond)
	}
}

// evictEarlier removes this worker's own dead member, so that its tasks need
// not wait for the session to time out. After the new member asked to join:
// a group that runs empty would wait for its initial rebalance delay.
func (m *Member) evictEarlier(ctx context.Context, id string) {
	select {
	case <-m.joins.asked:
	case <-time.After(time.Second):
	case <-m.ended:
		return
	}
	// Nothing is lost if this fails but the session time-out.
	if err := m.admin.Evict(ctx, id); err != nil {
		m.admin.c.Log.Warn("evict_failed", "member", id, "err", err)
	}
}

// Leave leaves the group, so that others take the tasks over at once.
func (m *Member) Leave(ctx context.Context) error {
	defer m.cl.CloseAllowingRebalance()
	m.once.Do(func() { close(m.ended) }) // callbacks must not wait for a reader of Changes any more
	if err := m.cl.LeaveGroupContext(ctx); err != nil {
		return fmt.Errorf("leave group %s: %w", m.group, err)
	}
	return nil
}

// joinHook notices that the member has asked to join with an id of its own:
// the second request, since the first is answered with the id (KIP-394).
type joinHook struct {
	n     atomic.Int32
	asked chan struct{}
}

var _ kgo.HookBrokerWrite = (*joinHook)(nil)

// OnBrokerWrite implements kgo.HookBrokerWrite.
func (h *joinHook) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key == int16(kmsg.JoinGroup) && err == nil && h.n.Add(1) == 2 {
		close(h.asked)
	}
}
