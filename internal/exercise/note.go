package exercise

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"

	"exactly/internal/broker"
	"exactly/sink/postgres"
)

// note is what the comments of the tables say about the run that made them. Names do
// not say whose tables and topics are: they are those of people's own.
type note struct {
	Topics      map[string]string `json:"topics"`               // ids by name, 32 hex digits
	Incarnation string            `json:"incarnation,omitzero"` // of the pipeline; "": the run ended before it was known
}

// madeHere is how the comments begin.
const madeHere = "made by exactly demo; its next run with --fresh may remove it, with its topics"

func (n note) comment() (string, error) {
	b, err := json.Marshal(n)
	return madeHere + " " + string(b), err
}

// parseNote gives false for the comment of somebody else. One without ids, as older
// versions wrote it, shows whose the table is and nothing about topics.
func parseNote(comment string) (n note, ours bool) {
	rest, ours := strings.CutPrefix(comment, madeHere)
	if !ours || json.Unmarshal([]byte(rest), &n) != nil {
		return note{}, ours
	}
	return n, true
}

// made adds a topic. Without an id it could not be told from another of its name.
func (n *note) made(name string, id kadm.TopicID) {
	if id == (kadm.TopicID{}) {
		return
	}
	if n.Topics == nil {
		n.Topics = map[string]string{}
	}
	n.Topics[name] = hex.EncodeToString(id[:])
}

func (n note) proves(t topic) bool {
	return n.Topics[t.name] == hex.EncodeToString(t.id[:])
}

// writeNote writes the comments of both tables.
func (x *exercise) writeNote(ctx context.Context) error {
	c, err := x.note.comment()
	if err != nil {
		return err
	}
	c = "'" + strings.ReplaceAll(c, "'", "''") + "'"
	if _, err := x.db.Exec(ctx, "COMMENT ON TABLE "+table+" IS "+c+"; COMMENT ON TABLE "+orders+" IS "+c); err != nil {
		return fmt.Errorf("note in %s and %s what this run made: %w", table, orders, err)
	}
	return nil
}

// noteEngine adds what the worker made. None of it was there when the run began; that
// the pipeline is this run's is shown by the meta record, which names the source by its
// id.
func (x *exercise) noteEngine(ctx context.Context) error {
	a, err := broker.NewAdmin(broker.Config{Brokers: x.o.Brokers, Pipeline: pipeline, Log: x.o.Log})
	if err != nil {
		return err
	}
	defer a.Close()
	meta, there, err := a.LoadMeta(ctx)
	if err != nil || !there {
		return err
	}
	if !slices.Contains(meta.Sources, broker.MetaSource{Topic: Raw, ID: x.note.Topics[Raw]}) {
		return nil
	}
	names := a.Names(meta.Generation)
	infos, err := x.adm.ListTopics(ctx, names.Meta(), names.Journal(), names.Outbox(), deadLetters)
	if err != nil {
		return err
	}
	for _, d := range infos {
		if d.Err == nil {
			x.note.made(d.Topic, d.ID)
		}
	}
	x.note.Incarnation = meta.Incarnation
	return x.writeNote(ctx)
}

// noteLate notes what the worker made in a run that ended early. Without it the next run
// asks for that to be removed by hand.
func (x *exercise) noteLate(ctx context.Context) {
	if x.noted || !x.w.started {
		return
	}
	if x.db.IsClosed() { // as pgx does where a context ends in the middle of a query
		db, err := postgres.Connect(ctx, x.o.DSN)
		if err != nil {
			x.say("what the worker made could not be noted: %s", err)
			return
		}
		x.db = db
	}
	if err := x.noteEngine(ctx); err != nil {
		x.say("what the worker made could not be noted: %s", err)
	}
}
