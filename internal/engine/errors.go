package engine

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/broker"
	"exactly/internal/epoch"
	"exactly/internal/journal"
	"exactly/sink"
)

// permanent marks an error that no restart can mend: the process stops at once.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// Permanent marks err; nil stays nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanent{err}
}

// verdictOn says what the supervisor does about the end of an attempt.
type verdictOn int

const (
	retake  verdictOn = iota // Kafka was away, or somebody took over: begin anew, without counting
	restart                  // it failed: counts against the restart policy
	exit                     // nothing can be done by trying again
)

func judge(err error) verdictOn {
	var p permanent
	switch {
	case errors.As(err, &p), errors.Is(err, epoch.ErrSealed), errors.Is(err, journal.ErrNewer),
		errors.Is(err, sink.ErrForeignMark), errors.Is(err, sink.ErrLedgerBehind),
		errors.Is(err, broker.ErrOutOfRange), errors.Is(err, kerr.FencedInstanceID):
		return exit
	case sink.Classify(err) == sink.ClassFatal:
		return restart
	case sink.IsTransient(err): // the takeover waits for it
		return retake
	case errors.Is(err, epoch.ErrDisturbed), errors.Is(err, errLost), errors.Is(err, broker.ErrNotOurs), isKafkaFault(err):
		return retake
	}
	return restart
}

// isKafkaFault: what a broker answered or a connection did. Authorisation,
// unknown topics and records that are too large do not mend themselves.
func isKafkaFault(err error) bool {
	var ke *kerr.Error
	if errors.As(err, &ke) {
		switch ke {
		case kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed,
			kerr.TransactionalIDAuthorizationFailed, kerr.SaslAuthenticationFailed, kerr.MessageTooLarge,
			kerr.UnknownTopicOrPartition, kerr.InvalidTopicException, kerr.InvalidTransactionTimeout,
			kerr.UnsupportedVersion, kerr.InvalidRecord, kerr.PolicyViolation:
			return false
		}
		return true
	}
	return errors.Is(err, errKafka) || errors.Is(err, context.DeadlineExceeded) || isNetwork(err)
}

// isNetwork: a connection could not be made, or was cut. Sinks class their own
// errors and retry them, so that what arrives here is Kafka's.
func isNetwork(err error) bool {
	var op net.Error
	for _, e := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, kgo.ErrClientClosed, kgo.ErrRecordTimeout, kgo.ErrAborting} {
		if errors.Is(err, e) {
			return true
		}
	}
	return errors.As(err, &op)
}

var (
	errLost  = errors.New("the task was taken away")
	errKafka = errors.New("kafka did not answer")
)
