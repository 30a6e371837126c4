package postgres

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"exactly/internal/mutation"
	"exactly/sink"
)

// ledger reads and writes the marks of one task. Its methods run inside a
// transaction.
type ledger struct {
	c     *conn
	table tableName
	o     sink.Owner
}

func (l *ledger) verdicts() tableName {
	return tableName{schema: l.table.schema, table: l.table.table + "_verdicts"}
}

// ledgerLock is the advisory lock under which tables are made: CREATE TABLE IF
// NOT EXISTS alone fails in a race.
const ledgerLock = 0x65786163746c79 // "exactly"

// create makes both tables, where they are not there: to be allowed to make
// tables is needed only then.
func (l *ledger) create(ctx context.Context) error {
	there, err := l.c.exist(ctx, l.table, l.verdicts())
	if there {
		return nil
	}
	if err == nil {
		err = l.c.exec(ctx, fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", ledgerLock))
	}
	if err == nil {
		err = l.c.exec(ctx, "CREATE TABLE IF NOT EXISTS "+l.table.String()+` (
			pipeline text NOT NULL, sink text NOT NULL, generation integer NOT NULL, task integer NOT NULL,
			incarnation text NOT NULL, attempt bigint NOT NULL, epoch bigint NOT NULL, "index" bigint NOT NULL,
			PRIMARY KEY (pipeline, sink, generation, task)) WITH (fillfactor = 50);
			CREATE TABLE IF NOT EXISTS `+l.verdicts().String()+` (
			pipeline text NOT NULL, sink text NOT NULL, generation integer NOT NULL, task integer NOT NULL,
			epoch bigint NOT NULL, "index" bigint NOT NULL, code text NOT NULL, reason text NOT NULL,
			PRIMARY KEY (pipeline, sink, generation, task, epoch, "index"))`)
	}
	if err != nil {
		return fmt.Errorf("create the ledger table %s: %w", l.table, err)
	}
	return nil
}

// where is the row of the task, with its first four parameters.
const where = " WHERE pipeline = $1 AND sink = $2 AND generation = $3::int AND task = $4::int"

func (l *ledger) args(more ...[]byte) [][]byte {
	generation := l.o.Generation
	if mutation.On(mutation.GenerationIgnored) {
		generation = 0
	}
	return append([][]byte{[]byte(l.o.Pipeline), []byte(l.o.Sink), text(generation), text(l.o.Task)}, more...)
}

// foreign looks for marks that another incarnation left for this sink of a
// pipeline of this name, for any task, and for those of earlier generations.
func (l *ledger) foreign(ctx context.Context) (earlier bool, err error) {
	rows, err := l.c.query(ctx, "SELECT DISTINCT incarnation, generation < $3::int FROM "+l.table.String()+" WHERE pipeline = $1 AND sink = $2",
		[]byte(l.o.Pipeline), []byte(l.o.Sink), text(l.o.Generation))
	if err != nil {
		return false, fmt.Errorf("read the ledger %s: %w", l.table, err)
	}
	for _, r := range rows {
		if found := string(r[0]); found != l.o.Incarnation && !mutation.On(mutation.IncarnationLost) {
			return false, l.foreignMark(found)
		}
		earlier = earlier || string(r[1]) == "t"
	}
	return earlier, nil
}

func (l *ledger) foreignMark(incarnation string) error {
	return fmt.Errorf("%w: %s says that incarnation %s of pipeline %s wrote here, this is %s;"+
		" if the pipeline was created anew on purpose and the rows may stay, remove the old marks with"+
		" DELETE FROM %s WHERE pipeline = %s AND sink = %s, else give this pipeline another name or database",
		sink.ErrForeignMark, l.table, incarnation, l.o.Pipeline, l.o.Incarnation, l.table, literal(l.o.Pipeline), literal(l.o.Sink))
}

// lock adds to b what locks and reads the mark of the task.
func (l *ledger) lock(b *pgconn.Batch) {
	b.ExecParams("SELECT incarnation, epoch, \"index\" FROM "+l.table.String()+where+" FOR UPDATE", l.args(), nil, nil, nil)
}

// locked reads the answer.
func (l *ledger) locked(rows [][][]byte) (at sink.Pos, found bool, err error) {
	if len(rows) == 0 {
		return at, false, nil
	}
	r := rows[0]
	if incarnation := string(r[0]); incarnation != l.o.Incarnation && !mutation.On(mutation.IncarnationLost) {
		return at, true, l.foreignMark(incarnation)
	}
	at, err = posOf(r[1], r[2])
	return at, true, err
}

func posOf(epoch, index []byte) (p sink.Pos, err error) {
	if p.Epoch, err = strconv.ParseInt(string(epoch), 10, 64); err == nil {
		p.Index, err = strconv.ParseInt(string(index), 10, 64)
	}
	if err != nil {
		return p, fmt.Errorf("read a place in the ledger: %w", err)
	}
	return p, nil
}

// fresh drops verdicts and marks of epochs that are there before this task has a mark of
// its own: of another incarnation, whose ledger was removed on purpose, as told.
func (l *ledger) fresh(ctx context.Context) error {
	if _, err := l.c.query(ctx, "DELETE FROM "+l.verdicts().String()+where, l.args()...); err != nil {
		return fmt.Errorf("drop old verdicts from %s: %w", l.verdicts(), err)
	}
	marks := epochMarks{*l}
	there, err := l.c.exist(ctx, marks.name())
	if there {
		err = marks.drop(ctx, " AND incarnation <> $5", []byte(l.o.Incarnation))
	}
	return err
}

// used reports whether the sink has written anything in this generation, whichever
// task.
func (l *ledger) used(ctx context.Context) (bool, error) {
	marks := epochMarks{*l}
	for table, moved := range map[tableName]string{l.table: ` AND (epoch, "index") > (0, 0)`, marks.name(): ""} {
		there, err := l.c.exist(ctx, table)
		if there {
			var rows [][][]byte
			rows, err = l.c.query(ctx, "SELECT 1 FROM "+table.String()+" WHERE pipeline = $1 AND sink = $2 AND generation = $3::int AND incarnation = $4"+moved+" LIMIT 1",
				[]byte(l.o.Pipeline), []byte(l.o.Sink), text(l.o.Generation), []byte(l.o.Incarnation))
			if len(rows) > 0 {
				return true, nil
			}
		}
		if err != nil {
			return false, fmt.Errorf("read the ledger %s: %w", table, err)
		}
	}
	return false, nil
}

// begin makes the mark of a task that has none, at the place where it begins, or
// notes who is at work.
func (l *ledger) begin(ctx context.Context, at sink.Pos) error {
	_, err := l.c.query(ctx, "INSERT INTO "+l.table.String()+` AS dst
		(pipeline, sink, generation, task, incarnation, attempt, epoch, "index")
		VALUES ($1, $2, $3::int, $4::int, $5, $6::bigint, $7::bigint, $8::bigint)
		ON CONFLICT (pipeline, sink, generation, task) DO UPDATE SET attempt = greatest(dst.attempt, excluded.attempt)`,
		l.args([]byte(l.o.Incarnation), text(l.o.Attempt), text(at.Epoch), text(at.Index))...)
	if err != nil {
		return fmt.Errorf("open the ledger %s: %w", l.table, err)
	}
	return nil
}

// move adds to b what moves the mark: the last statement of a transaction. The
// row is locked, so that it is where it was read.
func (l *ledger) move(b *pgconn.Batch, to sink.Pos) {
	b.ExecParams("UPDATE "+l.table.String()+` SET epoch = $5::bigint, "index" = $6::bigint, attempt = greatest(attempt, $7::bigint)`+where,
		l.args(text(to.Epoch), text(to.Index), text(l.o.Attempt)), nil, nil, nil)
}

// keep adds to b what stores verdicts until they are confirmed.
func (l *ledger) keep(b *pgconn.Batch, vs []sink.Verdict) {
	if mutation.On(mutation.VerdictDropped) {
		return
	}
	for _, v := range vs {
		b.ExecParams("INSERT INTO "+l.verdicts().String()+
			` (pipeline, sink, generation, task, epoch, "index", code, reason) VALUES ($1, $2, $3::int, $4::int, $5::bigint, $6::bigint, $7, $8)`,
			l.args(text(v.Pos.Epoch), text(v.Pos.Index), []byte(v.Code), []byte(v.Reason)), nil, nil, nil)
	}
}

// kept gives the stored verdicts behind from up to through.
func (l *ledger) kept(ctx context.Context, from, through sink.Pos) ([]sink.Verdict, error) {
	rows, err := l.c.query(ctx, `SELECT epoch, "index", code, reason FROM `+l.verdicts().String()+where+
		` AND (epoch, "index") > ($5::bigint, $6::bigint) AND (epoch, "index") <= ($7::bigint, $8::bigint) ORDER BY epoch, "index"`,
		l.args(text(from.Epoch), text(from.Index), text(through.Epoch), text(through.Index))...)
	if err != nil {
		return nil, fmt.Errorf("read the kept verdicts: %w", err)
	}
	var vs []sink.Verdict
	for _, r := range rows {
		pos, err := posOf(r[0], r[1])
		if err != nil {
			return nil, err
		}
		vs = append(vs, sink.Verdict{Pos: pos, Code: string(r[2]), Reason: string(r[3])})
	}
	return vs, nil
}

// forget adds to b what drops verdicts that a decision has made durable
// elsewhere.
func (l *ledger) forget(b *pgconn.Batch, confirmed sink.Pos) {
	b.ExecParams("DELETE FROM "+l.verdicts().String()+where+` AND (epoch, "index") <= ($5::bigint, $6::bigint)`,
		l.args(text(confirmed.Epoch), text(confirmed.Index)), nil, nil, nil)
}
