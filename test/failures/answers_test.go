//go:build services

package failures

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"exactly/internal/services"
	"exactly/test/proxy/kafka"
	"exactly/test/rig"
)

// fault is what happens to one message of a running pipeline.
type fault struct {
	name  string
	rules []kafka.Rule // the last one is that which has to be met
}

func (f fault) String() string { return f.name }

// told are faults of answers: the broker has done it, and the client is told
// otherwise.
func told(key kmsg.Key, topic string, codes ...*kerr.Error) []fault {
	var out []fault
	for _, e := range codes {
		out = append(out, fault{
			fmt.Sprintf("%s done, %s told", key.Name(), e.Message),
			[]kafka.Rule{{Key: key, Answer: true, Topic: topic, Act: kafka.Code(e)}},
		})
	}
	return out
}

// lost are the faults of a network: what was sent does not arrive, and its
// connection is closed or goes on as if nothing were wrong.
func lost(key kmsg.Key, topic string) []fault {
	one := func(name string, answer bool, act kafka.Act) fault {
		return fault{key.Name() + " " + name, []kafka.Rule{{Key: key, Answer: answer, Topic: topic, Act: act}}}
	}
	return []fault{
		one("request cut", false, kafka.Cut()), one("answer cut", true, kafka.Cut()),
		one("request swallowed", false, kafka.Drop()), one("answer swallowed", true, kafka.Drop()),
	}
}

// refused: the broker has not ended the transaction, and the client is told
// something that leaves it open.
func refused(e *kerr.Error) fault {
	return fault{
		"EndTxn not done, " + e.Message + " told",
		[]kafka.Rule{
			// No such producer: the coordinator does nothing.
			{Key: kmsg.EndTxn, Act: kafka.Rewrite(func(r *kmsg.EndTxnRequest) { r.ProducerID += 1 << 40 })},
			{Key: kmsg.EndTxn, Answer: true, Act: kafka.Code(e)},
		},
	}
}

// twice: the network has two ways for a request.
func twice(key kmsg.Key, topic string) fault {
	return fault{key.Name() + " request twice", []kafka.Rule{{Key: key, Topic: topic, Act: kafka.Again()}}}
}

// together joins faults; before, where given, comes before each.
func together(before *kafka.Rule, lists ...[]fault) []fault {
	var out []fault
	for _, list := range lists {
		for _, f := range list {
			if before != nil {
				f.rules = append([]kafka.Rule{*before}, f.rules...)
			}
			out = append(out, f)
		}
	}
	return out
}

// TestAnswersToEndTxn (2): the answer or the request is lost, or the answer says
// something else than what was done. Whatever the client is told, every sink
// ends with one copy.
func TestAnswersToEndTxn(t *testing.T) {
	for _, o := range []services.Options{one, older} {
		t.Run(fmt.Sprintf("transaction version %d", 2-o.TransactionVersion), func(t *testing.T) {
			suffer(t, o, func(*rig.Pipeline) []fault {
				return together(nil,
					lost(kmsg.EndTxn, ""),
					[]fault{twice(kmsg.EndTxn, "")},
					told(kmsg.EndTxn, "",
						kerr.UnknownServerError, kerr.RequestTimedOut, kerr.NetworkException, kerr.CoordinatorNotAvailable, kerr.NotCoordinator,
						kerr.CoordinatorLoadInProgress, kerr.ConcurrentTransactions, kerr.InvalidProducerEpoch, kerr.ProducerFenced,
						kerr.InvalidTxnState, kerr.InvalidProducerIDMapping, kerr.TransactionAbortable),
					[]fault{
						refused(kerr.UnknownServerError), refused(kerr.RequestTimedOut), refused(kerr.InvalidTxnState),
						refused(kerr.CoordinatorNotAvailable), refused(kerr.ProducerFenced),
					},
				)
			})
		})
	}
}

// TestAnswersToProduce: as TestAnswersToEndTxn. A broker's transient error is no
// poison record either (39): the audit wants no dead letter.
func TestAnswersToProduce(t *testing.T) {
	suffer(t, one, func(p *rig.Pipeline) []fault {
		return together(nil,
			lost(kmsg.Produce, p.Out), lost(kmsg.Produce, p.Journal()),
			[]fault{twice(kmsg.Produce, p.Out), twice(kmsg.Produce, p.Journal())},
			told(kmsg.Produce, p.Out,
				kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.NotEnoughReplicasAfterAppend, kerr.RequestTimedOut,
				kerr.UnknownServerError, kerr.KafkaStorageError, kerr.CorruptMessage, kerr.OutOfOrderSequenceNumber,
				kerr.UnknownProducerID, kerr.InvalidProducerEpoch, kerr.ConcurrentTransactions, kerr.TransactionAbortable),
			told(kmsg.Produce, p.Journal(), kerr.NotLeaderForPartition, kerr.UnknownServerError, kerr.NotEnoughReplicasAfterAppend),
		)
	})
}

// TestAnswersToOffsetCommit: as TestAnswersToEndTxn.
func TestAnswersToOffsetCommit(t *testing.T) {
	suffer(t, one, func(*rig.Pipeline) []fault {
		return together(nil,
			lost(kmsg.TxnOffsetCommit, ""), []fault{twice(kmsg.TxnOffsetCommit, "")},
			told(kmsg.TxnOffsetCommit, "",
				kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.RebalanceInProgress,
				kerr.UnknownServerError, kerr.ConcurrentTransactions, kerr.InvalidProducerEpoch, kerr.RequestTimedOut),
		)
	})
}

// TestAnswersToFences: InitProducerId, which takeovers send; each fault comes in
// one that an unclear answer to EndTxn has caused.
func TestAnswersToFences(t *testing.T) {
	suffer(t, one, func(*rig.Pipeline) []fault {
		cause := kafka.Rule{Key: kmsg.EndTxn, Answer: true, Act: kafka.Code(kerr.UnknownServerError)}
		return together(&cause,
			lost(kmsg.InitProducerID, ""), []fault{twice(kmsg.InitProducerID, "")},
			told(kmsg.InitProducerID, "",
				kerr.ConcurrentTransactions, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.UnknownServerError,
				kerr.ProducerFenced, kerr.InvalidProducerEpoch),
		)
	})
}

// TestAnswersToFetchesAndHeartbeats: what a broker says to readers and members.
func TestAnswersToFetchesAndHeartbeats(t *testing.T) {
	suffer(t, one, func(p *rig.Pipeline) []fault {
		empty := fault{"Fetch answer without its records", []kafka.Rule{{Key: kmsg.Fetch, Answer: true, Topic: p.Raw, Act: kafka.RewriteAnswer(
			func(_ *kmsg.FetchRequest, r *kmsg.FetchResponse) {
				for i := range r.Topics {
					for j := range r.Topics[i].Partitions {
						r.Topics[i].Partitions[j].RecordBatches = nil
					}
				}
			})}}}
		return together(nil,
			lost(kmsg.Fetch, "")[:2], []fault{twice(kmsg.Fetch, ""), empty},
			told(kmsg.Fetch, p.Raw, kerr.NotLeaderForPartition, kerr.UnknownServerError, kerr.OffsetNotAvailable, kerr.KafkaStorageError),
			lost(kmsg.Heartbeat, ""),
			told(kmsg.Heartbeat, "", kerr.RebalanceInProgress, kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.NotCoordinator, kerr.UnknownServerError),
		)
	})
}

// TestAnswersBeforeTransactionVersion2: the requests that only older brokers
// need.
func TestAnswersBeforeTransactionVersion2(t *testing.T) {
	suffer(t, older, func(*rig.Pipeline) []fault {
		return together(nil,
			lost(kmsg.AddOffsetsToTxn, ""), []fault{twice(kmsg.AddOffsetsToTxn, "")},
			told(kmsg.AddOffsetsToTxn, "", kerr.NotCoordinator, kerr.ConcurrentTransactions, kerr.UnknownServerError, kerr.InvalidTxnState),
			lost(kmsg.AddPartitionsToTxn, ""), []fault{twice(kmsg.AddPartitionsToTxn, "")},
		)
	})
}

// suffer lets a pipeline meet one fault after the other, of which each has to be
// got over before the next one comes, and audits.
func suffer(t *testing.T, o services.Options, faults func(*rig.Pipeline) []fault) {
	p, px := behind(t, services.Kafka(t, o), rig.Shape{
		Tasks: 2, Partitions: 2, Epoch: "{ timeout: 2s }", Restart: forever,
		Connection: "  heartbeat_interval: 500ms\n",
	})
	l := p.Load(rig.Sized(t, 200.0, 1000), 0)
	l.Watch(p.Tasks, nil)
	out := p.Follow()
	w := p.Run(0)
	p.AwaitTasks(p.Tasks, w)
	for range rig.Sized(t, 1, 5) {
		for _, f := range faults(p) {
			over, from := count(w, "attempt_over"), time.Now()
			f.meet(t, px)
			out.Current(l)
			px.Clear()
			t.Logf("%s: over it after %s, %d attempts ended", f, time.Since(from).Round(time.Millisecond), count(w, "attempt_over")-over)
			w.MustLive()
		}
	}
	finish(p, l, w)
}

// meet arms the rules and waits until the last of them was met.
func (f fault) meet(t *testing.T, px *kafka.Proxy) {
	t.Helper()
	var last *kafka.Armed
	for _, r := range f.rules {
		last = px.Add(r)
	}
	met(t, f.name, last, 1)
	if strings.HasSuffix(f.name, "twice") {
		last.Release()
	}
}
