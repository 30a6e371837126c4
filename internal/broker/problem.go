package broker

import (
	"errors"
	"net"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Code is the stable name of a Problem, for `exactly explain CODE`.
type Code string

// The problems that this package finds.
const (
	CodeConfig          Code = "kafka_config"           // a setting under kafka: cannot work
	CodeName            Code = "kafka_name"             // a name too long or of the wrong shape
	CodeTLS             Code = "kafka_tls"              // certificates or handshake
	CodeAuth            Code = "kafka_auth"             // no credentials, or the broker refuses them
	CodeACL             Code = "kafka_acl"              // logged in, but not allowed
	CodeTopicMissing    Code = "topic_missing"          // a topic that must exist does not
	CodeTopicSettings   Code = "topic_settings"         // a topic's settings could lose data or refuse records
	CodeTopicPartitions Code = "topic_partitions"       // a topic has the wrong number of partitions
	CodeTopicCreate     Code = "topic_create"           // the cluster refuses to create a topic
	CodeTopicRecreated  Code = "topic_recreated"        // a source topic was deleted and made again
	CodeStart           Code = "source_start"           // start offsets cannot be resolved
	CodeMetaConflict    Code = "pipeline_conflict"      // another pipeline of this name, or a changed one
	CodeMetaCluster     Code = "pipeline_cluster"       // the meta record was written on another cluster
	CodeMetaUnreadable  Code = "pipeline_meta"          // the meta record cannot be read by this binary
	CodeMetaChanged     Code = "pipeline_meta_changed"  // somebody else changed the meta record meanwhile
	CodeTrim            Code = "outbox_trim"            // a trim beyond the end of the topic
	CodeWorkersRun      Code = "workers_running"        // a command that needs the workers stopped
	CodeJournalLost     Code = "journal_lost"           // the journal is empty although the pipeline has run
	CodeOffsetsMoved    Code = "group_offsets_moved"    // somebody moved the group's offsets by hand
	CodeOffsetsStuck    Code = "group_offsets_unstable" // another transaction holds the group's offsets
)

// Problem is an error for people: where, what, and what to do about it.
type Problem struct {
	Code   Code
	Place  string // a setting, a topic, a topic-partition, a group
	Cause  string
	Remedy string // "": none known
	Err    error  // underneath; nil: none
}

// Error gives "place: cause: err; remedy [code]".
func (p *Problem) Error() string {
	var b strings.Builder
	if p.Place != "" {
		b.WriteString(p.Place + ": ")
	}
	b.WriteString(p.Cause)
	if p.Err != nil {
		b.WriteString(": " + p.Err.Error())
	}
	if p.Remedy != "" {
		b.WriteString("; " + p.Remedy)
	}
	b.WriteString(" [" + string(p.Code) + "]")
	return b.String()
}

// Unwrap gives the error underneath.
func (p *Problem) Unwrap() error { return p.Err }

// CodeOf gives the code of the outermost Problem in the chain, or "".
func CodeOf(err error) Code {
	var p *Problem
	if errors.As(err, &p) {
		return p.Code
	}
	return ""
}

// denied reports whether the broker said that the principal may not do it.
func denied(err error) bool {
	for _, e := range []error{
		kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed,
		kerr.ClusterAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

const aclRemedy = "grant what `exactly validate FILE` lists under ACLs to the user that the workers log in as"

// explain turns a refusal of the broker into a Problem and wraps anything else.
// act is what was tried ("describe"), place what it was tried on.
func explain(act, place string, err error) error {
	switch {
	case err == nil:
		return nil
	case denied(err):
		return &Problem{Code: CodeACL, Place: place, Cause: "not allowed to " + act, Remedy: aclRemedy, Err: err}
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return &Problem{
			Code: CodeAuth, Place: place, Cause: "the broker refuses the credentials",
			Remedy: "check kafka.sasl (mechanism, user and secret)", Err: err,
		}
	case refusedByPeer(err):
		return &Problem{
			Code: CodeTLS, Place: place, Cause: "the broker ended the TLS connection",
			Remedy: "if the listener wants a client certificate, give kafka.tls.cert_file and key_file, of an authority that the brokers trust", Err: err,
		}
	}
	return &actError{act: act, place: place, err: err}
}

// refusedByPeer reports a TLS alert of the broker. With TLS 1.3 a missing or
// unknown client certificate shows only after the handshake, at the first read.
func refusedByPeer(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error" // as crypto/tls names alerts
}

type actError struct {
	act, place string
	err        error
}

func (e *actError) Error() string { return e.act + " " + e.place + ": " + e.err.Error() }
func (e *actError) Unwrap() error { return e.err }
