package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Time limits of writing the meta record, of which a start does at most two.
const (
	metaTimeout    = time.Minute
	metaTxnTimeout = 10 * time.Second
)

// LoadMeta reads the meta record to the read_committed end. false: there is
// none, the pipeline was never started here. A meta topic that does not exist is
// a *Problem with CodeTopicMissing.
func (a *Admin) LoadMeta(ctx context.Context) (Meta, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, metaTimeout)
	defer cancel()
	topic := a.Names(1).Meta()
	if _, err := a.DescribeTopics(ctx, topic); err != nil {
		return Meta{}, false, err
	}
	log := NewLog(a.cl)
	start, end, err := log.Ends(ctx, topic, 0)
	if err != nil {
		return Meta{}, false, explain("read the end of", topic, err)
	}
	rec, err := log.LastCommitted(ctx, topic, 0, start, end)
	if err != nil {
		return Meta{}, false, explain("read", topic, err)
	}
	if rec == nil || rec.Value == nil {
		return Meta{}, false, nil
	}
	m, err := DecodeMeta(rec.Value)
	if err != nil {
		return Meta{}, false, fmt.Errorf("%s@%d: %w", place(topic, 0), rec.Offset, err)
	}
	return m, true, nil
}

// CreateMeta writes the first meta record and gives the one that holds: first,
// or the one of another worker that was faster. However many workers call it at
// once, they all get the same one. Compare the result with what is wanted.
func (a *Admin) CreateMeta(ctx context.Context, first Meta) (Meta, error) {
	return a.writeMeta(ctx, first, func(_ Meta, found bool) (bool, error) { return !found, nil })
}

// UpdateMeta replaces the meta record have by want. If somebody else replaced
// it meanwhile by something other than want, the *Problem has CodeMetaChanged,
// and the caller loads it and decides anew.
func (a *Admin) UpdateMeta(ctx context.Context, have, want Meta) (Meta, error) {
	return a.writeMeta(ctx, want, func(cur Meta, found bool) (bool, error) {
		switch {
		case found && cur.equal(want):
			return false, nil
		case found && cur.equal(have):
			return true, nil
		}
		return false, &Problem{
			Code: CodeMetaChanged, Place: "pipeline " + have.Pipeline, Cause: "its meta record was changed by somebody else meanwhile",
			Remedy: "start again",
		}
	})
}

// writeMeta fences every other writer, reads what holds, and writes m if decide
// says so; then it begins anew, so that what it returns was read after a fence:
// the answer to a commit is never believed, neither yes nor no.
func (a *Admin) writeMeta(ctx context.Context, m Meta, decide func(cur Meta, found bool) (write bool, err error)) (Meta, error) {
	ctx, cancel := context.WithTimeout(ctx, metaTimeout)
	defer cancel()
	value, err := EncodeMeta(m)
	if err != nil {
		return Meta{}, err
	}
	for try := 1; ; try++ {
		cur, done, err := a.writeMetaOnce(ctx, value, decide)
		if done || final(err) {
			return cur, err
		}
		if err == nil {
			continue // written: read it back
		}
		a.c.Log.Debug("meta_write_again", "try", try, "err", err)
		// Longer for who comes later to the same turn: those who fence each other
		// drift apart by what their requests take.
		if perr := pause(ctx, backoff(try)); perr != nil {
			return Meta{}, fmt.Errorf("write the meta record of pipeline %s: %w (%w)", m.Pipeline, err, perr)
		}
	}
}

// final reports whether trying again cannot help.
func final(err error) bool {
	var p *Problem
	return errors.As(err, &p)
}

// writeMetaOnce: done means that cur holds.
func (a *Admin) writeMetaOnce(ctx context.Context, value []byte, decide func(Meta, bool) (bool, error)) (cur Meta, done bool, err error) {
	id := a.Names(1).MetaTxnID()
	cl, err := a.metaProducer(id)
	if err != nil {
		return Meta{}, false, err
	}
	defer cl.Close()
	if _, _, err := cl.ProducerID(ctx); err != nil {
		return Meta{}, false, explain("fence", "transactional id "+id, err)
	}
	cur, found, err := a.LoadMeta(ctx)
	if err != nil {
		return Meta{}, false, err
	}
	write, err := decide(cur, found)
	if err != nil || !write {
		return cur, err == nil, err
	}
	if err := cl.BeginTransaction(); err != nil {
		return Meta{}, false, fmt.Errorf("begin the meta transaction: %w", err)
	}
	rec := &kgo.Record{Topic: a.Names(1).Meta(), Key: []byte(metaKey), Value: value}
	if err := cl.ProduceSync(ctx, rec).FirstErr(); err != nil {
		return Meta{}, false, explain("write", rec.Topic, err)
	}
	if err := cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return Meta{}, false, explain("commit", "transactional id "+id, err)
	}
	return Meta{}, false, nil
}

func (a *Admin) metaProducer(id string) (*kgo.Client, error) {
	cl, err := kgo.NewClient(append(a.opts, kgo.TransactionalID(id), kgo.TransactionTimeout(metaTxnTimeout))...)
	if err != nil {
		return nil, fmt.Errorf("make the producer of the meta record: %w", err)
	}
	return cl, nil
}
