package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"exactly/sink"
)

// printOf is what the plan for a table depends on, short enough to be read by each
// transaction: which table it is, its columns, triggers and foreign parts. What a
// record's values are written as is decided here, by the types that were seen.
const printOf = `concat_ws(' ', c.oid, c.relkind, c.relpersistence, c.relhasrules,
	(SELECT hashtextextended(string_agg(concat_ws(' ', a.attnum, a.attname, a.atttypid, a.atttypmod, a.attgenerated, a.attidentity, a.attcollation), ',' ORDER BY a.attnum), 0)
		FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
	(SELECT string_agg(concat_ws(' ', g.oid, g.tgenabled), ',' ORDER BY g.oid) FROM pg_trigger g WHERE g.tgrelid = c.oid AND NOT g.tgisinternal),
	(SELECT count(*) FROM pg_foreign_table f JOIN pg_inherits i ON i.inhrelid = f.ftrelid WHERE i.inhparent = c.oid))`

// errAltered: a table is another than the one that was looked at.
var errAltered = sink.Transient(errors.New("the table was altered while the transaction began"))

// printed adds to b what tells whether the tables are as they were.
func printed(b *pgconn.Batch, plans []*plan) {
	for _, p := range plans {
		b.ExecParams("SELECT "+printOf+" FROM pg_class c WHERE c.oid = to_regclass($1)", [][]byte{[]byte(p.info.at.String())}, []uint32{oidText}, nil, nil)
	}
}

// altered reads the answers, the last ones of res.
func altered(res []*pgconn.Result, plans []*plan) error {
	for i, r := range res[len(res)-len(plans):] {
		if len(r.Rows) == 0 || string(r.Rows[0][0]) != plans[i].info.print {
			return errAltered
		}
	}
	return nil
}

// startAsSeen is start, where the tables have to be those that were looked at.
func (c *conn) startAsSeen(ctx context.Context, b *pgconn.Batch) ([]*pgconn.Result, error) {
	printed(b, c.plans)
	res, err := c.start(ctx, b)
	if err == nil {
		err = altered(res, c.plans)
	}
	return res, err
}

// looksAgain is how often, before the task fails: somebody alters the table on and on.
const looksAgain = 3

// current begins a transaction, and looks at the tables again where it finds others.
func (t *task) current(ctx context.Context, c *conn, begin func() error) error {
	err := begin()
	for tries := 0; tries < looksAgain && errors.Is(err, errAltered); tries++ {
		c.rollback(ctx)
		if err = t.lookAgain(ctx, c); err != nil {
			return err
		}
		err = begin()
	}
	return err
}

// lookAgain looks at the tables of a task that has begun, or asks for the parameters of
// its statement.
func (t *task) lookAgain(ctx context.Context, c *conn) (err error) {
	if t.s.cfg.Mode == modeStatement {
		t.params, err = t.s.parameters(ctx, c)
		c.looked = err == nil
		return err
	}
	if err = t.look(ctx, c); errors.Is(err, errCreate) { // not made again: its rows are missing
		err = gone(err)
	}
	return err
}

// outdated: records were refused by the types that the parameters of the statement had.
// Of its tables nothing is known, so the server is asked whether they are others now.
func (t *task) outdated(ctx context.Context, c *conn, w *writer) error {
	if t.s.cfg.Mode != modeStatement || len(w.verdicts) == 0 {
		return nil
	}
	params, err := t.s.parametersNow(ctx, c)
	if err != nil || slices.Equal(params, t.params) {
		return err
	}
	return fmt.Errorf("%w by parameters of other types", errRefused)
}
