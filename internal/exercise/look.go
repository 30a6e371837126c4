package exercise

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
)

// found is what there is, before anything is made, under names that the run needs.
type found struct {
	tables []tableFound
	topics []topic
	marks  []string // incarnations of a pipeline of this name that wrote to sinks of these names
}

type tableFound struct{ name, comment string }

type topic struct {
	name string
	id   kadm.TopicID // zero: the broker is too old for ids
}

// ledger is where the sinks keep their marks, beside the tables.
const ledger = "exactly_ledger"

// sinks are those of the pipeline that leave marks.
var sinks = []string{"records", "orders"}

func (x *exercise) look(ctx context.Context) (f found, err error) {
	for _, name := range []string{table, orders} {
		comment, there, err := comment(ctx, x.db, name)
		if err != nil {
			return f, fmt.Errorf("PostgreSQL: look for table %s: %w", name, err)
		}
		if there {
			f.tables = append(f.tables, tableFound{name, comment})
		}
	}
	if f.marks, err = x.lookForMarks(ctx); err != nil {
		return f, fmt.Errorf("PostgreSQL: look for marks in %s: %w", ledger, err)
	}
	if f.topics, err = x.lookForTopics(ctx); err != nil {
		return f, x.ofKafka(err)
	}
	return f, nil
}

// comment gives that of a table; there: it exists.
func comment(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, name string,
) (text string, there bool, err error) {
	err = db.QueryRow(ctx, "SELECT coalesce(obj_description(to_regclass($1), 'pg_class'), ''), to_regclass($1) IS NOT NULL", name).Scan(&text, &there)
	return text, there, err
}

func (x *exercise) lookForMarks(ctx context.Context) ([]string, error) {
	_, there, err := comment(ctx, x.db, ledger)
	if err != nil || !there {
		return nil, err
	}
	rows, err := x.db.Query(ctx, "SELECT DISTINCT incarnation FROM "+ledger+" WHERE pipeline = $1 AND sink = ANY($2) ORDER BY 1", pipeline, sinks)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func (x *exercise) lookForTopics(ctx context.Context) (ts []topic, err error) {
	all, err := x.adm.ListTopics(ctx)
	if err != nil {
		return nil, err
	}
	for _, d := range all.Sorted() {
		switch {
		case d.Topic == Raw, d.Topic == Enriched, d.Topic == deadLetters, strings.HasPrefix(d.Topic, own):
			ts = append(ts, topic{d.Topic, d.ID})
		}
	}
	return ts, nil
}

// split tells what an earlier run of this command made from what nothing proves to be
// so. Each thing proves itself: tables by their comments, topics and marks by the ids in
// these.
func (f found) split() (ours, others found) {
	var notes []note
	for _, t := range f.tables {
		if n, yes := parseNote(t.comment); yes {
			notes = append(notes, n)
			ours.tables = append(ours.tables, t)
		} else {
			others.tables = append(others.tables, t)
		}
	}
	for _, t := range f.topics {
		to := &others
		if slices.ContainsFunc(notes, func(n note) bool { return n.proves(t) }) {
			to = &ours
		}
		to.topics = append(to.topics, t)
	}
	for _, m := range f.marks {
		to := &others
		if slices.ContainsFunc(notes, func(n note) bool { return n.Incarnation == m }) {
			to = &ours
		}
		to.marks = append(to.marks, m)
	}
	return ours, others
}

// refusal says why the run cannot begin, nil if it can. It names no remedy that would
// be refused in its turn.
func (f found) refusal(fresh bool) error {
	ours, others := f.split()
	var why []string
	if len(others.tables) > 0 {
		why = append(why, fmt.Sprintf("PostgreSQL has tables that this command did not make and leaves alone (%s): use another database, or rename or remove them by hand", others.tableNames()))
	}
	if len(others.marks) > 0 {
		why = append(why, fmt.Sprintf("%s has marks of a pipeline %s that is not known to be this command's: use another database or, if no such pipeline is in use, DELETE FROM %s WHERE pipeline = '%s' AND incarnation IN ('%s')",
			ledger, pipeline, ledger, pipeline, strings.Join(others.marks, "', '")))
	}
	if len(others.topics) > 0 {
		why = append(why, fmt.Sprintf("Kafka has topics that nothing shows to be made by this command, which leaves them alone (%s): use another cluster, or remove them by hand", others.topicNames()))
	}
	if len(why) > 0 {
		return errors.New(strings.Join(why, "\n  "))
	}
	if there := ours.names(); there != "" && !fresh {
		return fmt.Errorf("an earlier run left %s: --fresh removes that", there)
	}
	return nil
}

// names are those of all tables and topics.
func (f found) names() string {
	var parts []string
	if len(f.tables) > 0 {
		parts = append(parts, "the tables "+f.tableNames())
	}
	if len(f.topics) > 0 {
		parts = append(parts, "the topics "+f.topicNames())
	}
	return strings.Join(parts, " and ")
}

func (f found) tableNames() string {
	var names []string
	for _, t := range f.tables {
		names = append(names, t.name)
	}
	return strings.Join(names, ", ")
}

func (f found) topicNames() string {
	var names []string
	for _, t := range f.topics {
		names = append(names, t.name)
	}
	return strings.Join(names, ", ")
}
