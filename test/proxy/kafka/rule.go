package kafka

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"exactly/test/proxy"
)

// Rule says which requests or answers meet which fault. All that is given must
// hold; an answer is looked at by what its request says, too.
type Rule struct {
	Key    kmsg.Key
	Answer bool // the answer to such a request instead of the request

	TxnID  string // transactional id; "": any
	Group  string // "": any
	Topic  string // one that the message is about; "": any
	Client string // client id; "": any
	Where  func(*Message) bool

	From, Times int // see proxy.Rule
	Act         Act
}

// Act is what happens to a message.
type Act = proxy.Act[*Message]

// Armed is a rule at work.
type Armed = proxy.Armed[*Message]

// Hold is proxy.Hold.
func Hold() Act { return proxy.Hold[*Message]() }

// Delay is proxy.Delay.
func Delay(d time.Duration) Act { return proxy.Delay[*Message](d) }

// Drop is proxy.Drop.
func Drop() Act { return proxy.Drop[*Message]() }

// Cut is proxy.Cut.
func Cut() Act { return proxy.Cut[*Message]() }

// Again is proxy.Again. The copy of a request goes to the broker on a
// connection of its own. Rules meet the answer to it, too.
func Again() Act { return proxy.Again[*Message]() }

// Add arms a rule.
func (p *Proxy) Add(r Rule) *Armed {
	name := "request " + r.Key.Name()
	if r.Answer {
		name = "answer to " + r.Key.Name()
	}
	return p.rules.Add(proxy.Rule[*Message]{
		Name: name, Match: func(m *Message) bool { return p.match(&r, m) }, From: r.From, Times: r.Times, Act: r.Act,
	})
}

// Clear removes every rule and releases what they hold.
func (p *Proxy) Clear() { p.rules.Clear() }

func (p *Proxy) match(r *Rule, m *Message) bool {
	if m.Key != r.Key || m.Answer != r.Answer || (r.Client != "" && m.ClientID != r.Client) {
		return false
	}
	if r.TxnID != "" && !slices.Contains(txnIDs(m.Request()), r.TxnID) {
		return false
	}
	if r.Group != "" && group(m.Request()) != r.Group {
		return false
	}
	if r.Topic != "" && !slices.Contains(p.topicsOf(m), r.Topic) {
		return false
	}
	return r.Where == nil || r.Where(m)
}

// txnIDs are the transactional ids that a request names.
func txnIDs(req kmsg.Request) []string {
	optional := func(id *string) []string {
		if id == nil {
			return nil
		}
		return []string{*id}
	}
	switch req := req.(type) {
	case *kmsg.ProduceRequest:
		return optional(req.TransactionID)
	case *kmsg.InitProducerIDRequest:
		return optional(req.TransactionalID)
	case *kmsg.EndTxnRequest:
		return []string{req.TransactionalID}
	case *kmsg.TxnOffsetCommitRequest:
		return []string{req.TransactionalID}
	case *kmsg.AddOffsetsToTxnRequest:
		return []string{req.TransactionalID}
	case *kmsg.AddPartitionsToTxnRequest:
		ids := []string{req.TransactionalID}
		for _, t := range req.Transactions {
			ids = append(ids, t.TransactionalID)
		}
		return ids
	}
	return nil
}

// group is the consumer group that a request names, or "".
func group(req kmsg.Request) string {
	switch req := req.(type) {
	case *kmsg.TxnOffsetCommitRequest:
		return req.Group
	case *kmsg.AddOffsetsToTxnRequest:
		return req.Group
	case *kmsg.HeartbeatRequest:
		return req.Group
	case *kmsg.JoinGroupRequest:
		return req.Group
	case *kmsg.SyncGroupRequest:
		return req.Group
	case *kmsg.LeaveGroupRequest:
		return req.Group
	case *kmsg.OffsetCommitRequest:
		return req.Group
	case *kmsg.ConsumerGroupHeartbeatRequest:
		return req.Group
	}
	return ""
}

// topicsOf are the topics that a message is about. A fetch names them in its
// answer only, where its session has them (KIP-227); those with records count.
func (p *Proxy) topicsOf(m *Message) []string {
	var out []string
	switch req := m.Request().(type) {
	case *kmsg.ProduceRequest:
		for _, t := range req.Topics {
			out = append(out, p.name(t.Topic, t.TopicID))
		}
	case *kmsg.TxnOffsetCommitRequest:
		for _, t := range req.Topics {
			out = append(out, p.name(t.Topic, t.TopicID))
		}
	case *kmsg.AddPartitionsToTxnRequest:
		for _, t := range req.Topics {
			out = append(out, t.Topic)
		}
	case *kmsg.ListOffsetsRequest:
		for _, t := range req.Topics {
			out = append(out, t.Topic)
		}
	case *kmsg.FetchRequest:
		if resp, ok := m.Response().(*kmsg.FetchResponse); ok {
			return p.fetched(resp)
		}
		for _, t := range req.Topics {
			out = append(out, p.name(t.Topic, t.TopicID))
		}
	}
	return out
}

func (p *Proxy) fetched(resp *kmsg.FetchResponse) []string {
	var out []string
	for _, t := range resp.Topics {
		for _, part := range t.Partitions {
			if len(part.RecordBatches) > 0 {
				out = append(out, p.name(t.Topic, t.TopicID))
				break
			}
		}
	}
	return out
}
