package exercise

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// forget removes what an earlier run made: the tables last, since their comments prove
// the rest, should this be interrupted.
func (x *exercise) forget(ctx context.Context, ours found) error {
	if slices.ContainsFunc(ours.topics, func(t topic) bool { return t.name == own+"meta" }) {
		if err := x.forgetGroup(ctx); err != nil {
			return err
		}
	}
	if err := x.forgetTopics(ctx, ours.topics); err != nil {
		return fmt.Errorf("remove topics of an earlier run: %w", err)
	}
	if err := x.forgetTables(ctx, ours); err != nil {
		return fmt.Errorf("remove the tables of an earlier run: %w", err)
	}
	return nil
}

// forgetGroup waits for workers that were killed a moment ago to leave.
func (x *exercise) forgetGroup(ctx context.Context) error {
	begin := time.Now()
	for {
		_, err := x.adm.DeleteGroup(ctx, group)
		switch {
		case err == nil, errors.Is(err, kerr.GroupIDNotFound):
			return nil
		case !errors.Is(err, kerr.NonEmptyGroup):
			return fmt.Errorf("remove group %s of an earlier run: %w", group, err)
		case time.Since(begin) > patience:
			return fmt.Errorf("a worker of an earlier run still runs, as group %s shows: end that process, and run this again", group)
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// forgetTopics removes topics by id (KIP-516): one that was made again meanwhile is
// another.
func (x *exercise) forgetTopics(ctx context.Context, ts []topic) error {
	if len(ts) == 0 {
		return nil
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = int32(patience.Milliseconds())
	for _, t := range ts {
		rt := kmsg.NewDeleteTopicsRequestTopic()
		rt.TopicID = t.id
		req.Topics = append(req.Topics, rt)
	}
	resp, err := req.RequestWith(ctx, x.cl)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil && !errors.Is(err, kerr.UnknownTopicID) {
			return err
		}
	}
	return nil
}

// forgetTables removes tables and marks. The tables are locked and looked at again: a
// name may have come to stand for another table.
func (x *exercise) forgetTables(ctx context.Context, ours found) error {
	if len(ours.tables) == 0 {
		return nil
	}
	tx, err := x.db.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // after a commit it does nothing
	names := ours.tableNames()
	if _, err := tx.Exec(ctx, "LOCK TABLE "+names); err != nil {
		return err
	}
	for _, t := range ours.tables {
		now, _, err := comment(ctx, tx, t.name)
		if err != nil {
			return err
		}
		if now != t.comment {
			return fmt.Errorf("table %s was replaced meanwhile: run this again", t.name)
		}
	}
	if _, err := tx.Exec(ctx, "DROP TABLE "+names); err != nil {
		return err
	}
	if len(ours.marks) > 0 {
		if _, err := tx.Exec(ctx, "DELETE FROM "+ledger+"_verdicts v USING "+ledger+` m WHERE m.pipeline = $1 AND m.incarnation = ANY($2)
			AND (v.pipeline, v.sink, v.generation, v.task) = (m.pipeline, m.sink, m.generation, m.task)`, pipeline, ours.marks); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "DELETE FROM "+ledger+" WHERE pipeline = $1 AND incarnation = ANY($2)", pipeline, ours.marks); err != nil {
			return err
		}
	}
	return tx.Commit(ctx)
}
