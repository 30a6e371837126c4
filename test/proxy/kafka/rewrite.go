package kafka

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"exactly/test/proxy"
)

var errUnread = errors.New("the message cannot be parsed")

// Rewrite changes requests: it is given the parsed request.
func Rewrite[R kmsg.Request](f func(R)) Act {
	return proxy.Rewrite(func(m *Message) error {
		req, ok := m.Request().(R)
		if !ok {
			return errUnread
		}
		f(req)
		m.changed = true
		return nil
	})
}

// RewriteAnswer changes answers: it is given the request and the answer.
func RewriteAnswer[Q kmsg.Request, R kmsg.Response](f func(Q, R)) Act {
	return proxy.Rewrite(func(m *Message) error {
		req, ok := m.Request().(Q)
		resp, also := m.Response().(R)
		if !ok || !also {
			return errUnread
		}
		f(req, resp)
		m.changed = true
		return nil
	})
}

// Code replaces the error codes of an answer: the broker has done what it was
// asked for, and says something else.
func Code(e *kerr.Error) Act {
	return proxy.Rewrite(func(m *Message) error {
		if !setCode(m.Response(), e.Code) {
			return fmt.Errorf("set the error code of an answer to %s: %w", m.Key.Name(), errUnread)
		}
		m.changed = true
		return nil
	})
}

// setCode sets every error code; false: the answer is of a kind without one
// that this package knows.
func setCode(resp kmsg.Response, code int16) bool {
	switch resp := resp.(type) {
	case *kmsg.EndTxnResponse:
		resp.ErrorCode = code
	case *kmsg.InitProducerIDResponse:
		resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = code, -1, -1
	case *kmsg.AddOffsetsToTxnResponse:
		resp.ErrorCode = code
	case *kmsg.HeartbeatResponse:
		resp.ErrorCode = code
	case *kmsg.ConsumerGroupHeartbeatResponse:
		resp.ErrorCode = code
	case *kmsg.JoinGroupResponse:
		resp.ErrorCode = code
	case *kmsg.SyncGroupResponse:
		resp.ErrorCode = code
	case *kmsg.TxnOffsetCommitResponse:
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				resp.Topics[i].Partitions[j].ErrorCode = code
			}
		}
	case *kmsg.ProduceResponse:
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				p := &resp.Topics[i].Partitions[j]
				p.ErrorCode, p.BaseOffset, p.LogAppendTime = code, -1, -1
			}
		}
	case *kmsg.FetchResponse:
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				p := &resp.Topics[i].Partitions[j]
				p.ErrorCode, p.RecordBatches = code, nil
			}
		}
	default:
		return false
	}
	return true
}

// learn takes the names of topics from an answer, and leads its addresses
// through the proxy.
func (p *Proxy) learn(m *Message) error {
	switch m.Key {
	case kmsg.Metadata, kmsg.FindCoordinator, kmsg.DescribeCluster, kmsg.Produce, kmsg.Fetch:
	default:
		return nil
	}
	var err error
	lead := func(host *string, port *int32) {
		if *host == "" || *port <= 0 { // there is none now
			return
		}
		h, po, ferr := p.front(*host, *port)
		err = errors.Join(err, ferr)
		*host, *port = h, po
		m.changed = true
	}
	switch resp := m.Response().(type) {
	case *kmsg.MetadataResponse:
		p.learnNames(resp)
		for i := range resp.Brokers {
			lead(&resp.Brokers[i].Host, &resp.Brokers[i].Port)
		}
	case *kmsg.FindCoordinatorResponse:
		lead(&resp.Host, &resp.Port)
		for i := range resp.Coordinators {
			lead(&resp.Coordinators[i].Host, &resp.Coordinators[i].Port)
		}
	case *kmsg.DescribeClusterResponse:
		for i := range resp.Brokers {
			lead(&resp.Brokers[i].Host, &resp.Brokers[i].Port)
		}
	case *kmsg.ProduceResponse:
		for i := range resp.Brokers {
			lead(&resp.Brokers[i].Host, &resp.Brokers[i].Port)
		}
	case *kmsg.FetchResponse:
		for i := range resp.Brokers {
			lead(&resp.Brokers[i].Host, &resp.Brokers[i].Port)
		}
	default:
		return fmt.Errorf("answer to %s version %d, which may hold addresses: %w", m.Key.Name(), m.Version, errUnread)
	}
	return err
}

func (p *Proxy) learnNames(resp *kmsg.MetadataResponse) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range resp.Topics {
		if t.Topic != nil {
			p.topics[t.TopicID] = *t.Topic
		}
	}
}

// name is that of a topic which a message names by either.
func (p *Proxy) name(name string, id [16]byte) string {
	if name != "" {
		return name
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.topics[id]
}
