package postgres

import (
	"context"
	"fmt"

	"exactly/sink"
)

// Tables with the name of the ledger where one could be meant: beside the table, then
// in the schemas of the search path, in its order.
const ledgersQuery = `SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE c.relname = $1 AND c.relkind IN ('r', 'p') AND (n.nspname = $2 OR n.nspname = ANY (current_schemas(false)))
	ORDER BY n.nspname <> $2, array_position(current_schemas(false), n.nspname)`

// findLedger gives the ledger its schema, unless the settings do, by its own name or by
// the table's. What a search path says can change: by a schema of the user's name, by a
// table in a schema before. So a task stays with the ledger that has its marks, and a
// new one takes that beside its table, if it is there.
func (t *task) findLedger(ctx context.Context, c *conn) error {
	if t.ledger.schema != "" || t.o.Guarantee == sink.AtLeastOnce {
		return nil
	}
	home := t.ledger
	if len(c.plans) > 0 {
		home = c.plans[0].info.at.beside(t.ledger)
		if c.plans[0].info.name.schema != "" {
			t.ledger = home
			return nil
		}
	} else {
		rows, err := c.query(ctx, "SELECT coalesce(current_schema(), '')")
		if err != nil {
			return fmt.Errorf("look for the ledger %s: %w", t.ledger, err)
		}
		home.schema = string(rows[0][0])
	}
	rows, err := c.query(ctx, ledgersQuery, []byte(home.table), []byte(home.schema))
	switch {
	case err != nil:
		return fmt.Errorf("look for the ledger %s: %w", t.ledger, err)
	case len(rows) == 0:
		t.ledger = home
		return nil
	}
	most := -1
	for _, r := range rows {
		at := tableName{schema: string(r[0]), table: home.table}
		n := 0
		if len(rows) > 1 {
			if n, err = t.marksIn(ctx, c, at); err != nil {
				return err
			}
		}
		if n > most {
			most, t.ledger = n, at
		}
	}
	return nil
}

// marksIn says how much a ledger knows of the task: nothing (0), something of its sink
// (1), its mark (2).
func (t *task) marksIn(ctx context.Context, c *conn, at tableName) (int, error) {
	rows, err := c.query(ctx, "SELECT count(*) FILTER (WHERE generation = $3::int AND task = $4::int), count(*) FROM "+at.String()+" WHERE pipeline = $1 AND sink = $2",
		t.marks(c).args()...)
	switch {
	case err != nil && (state(err) == "42501" || state(err) == "42703"):
		return 0, nil // not to be read, or another table: none that was written to
	case err != nil:
		return 0, fmt.Errorf("read the ledger %s: %w", at, err)
	case string(rows[0][0]) != "0":
		return 2, nil
	case string(rows[0][1]) != "0":
		return 1, nil
	}
	return 0, nil
}
