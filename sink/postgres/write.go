package postgres

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"

	"exactly/internal/tables"
	"exactly/sink"
	"exactly/step/cel"
)

// group is a run of records that one statement takes, or one statement each.
type group struct {
	sql   string
	types []uint32
	vals  [][][]byte // per record; per column or parameter
	pos   []sink.Pos
	keys  []string // of an upsert
	each  bool     // a statement per record, with its values as text

	inTurn bool   // see plan.inTurn
	copy   string // the COPY that takes them all; "": none
	at     turn
}

// turn says when a group's statement is executed: by phase, then by table, then by
// round.
type turn struct{ phase, rank, round int }

func (t turn) compare(o turn) int {
	return cmp.Or(t.phase-o.phase, t.rank-o.rank, t.round-o.round)
}

// copyRows is how many rows there must be for COPY to be worth its round trip.
const copyRows = 50

// add puts the statements for records i to j into a batch.
func (g *group) add(b *pgconn.Batch, i, j int) {
	if g.each {
		for _, vs := range g.vals[i:j] {
			b.ExecParams(g.sql, vs, g.types, nil, nil)
		}
		return
	}
	n := len(g.types)
	params, formats := make([][]byte, n), slices.Repeat([]int16{1}, n)
	for c := range n {
		params[c] = textArray(g.vals[i:j], c)
	}
	b.ExecParams(g.sql, params, g.types, formats, nil)
}

// textArray writes the column c of rows as a text[] in the binary format
// (arrayfuncs.c, array_recv).
func textArray(rows [][][]byte, c int) []byte {
	size, null := 20, uint32(0)
	for _, r := range rows {
		size += 4 + len(r[c])
		if r[c] == nil {
			null = 1
		}
	}
	b := make([]byte, 0, size)
	be := binary.BigEndian
	b = be.AppendUint32(be.AppendUint32(be.AppendUint32(b, 1), null), oidText)
	b = be.AppendUint32(be.AppendUint32(b, uint32(len(rows))), 1) //nolint:gosec // at most maxTransaction
	for _, r := range rows {
		if r[c] == nil {
			b = be.AppendUint32(b, 0xffffffff)
			continue
		}
		b = append(be.AppendUint32(b, uint32(len(r[c]))), r[c]...) //nolint:gosec // below the largest message
	}
	return b
}

// writer turns the records of one transaction into rows.
type writer struct {
	s        *Sink
	plans    []*plan  // none in mode statement
	params   []column // of the statement
	verdicts []sink.Verdict
	most     int // records of a statement; 0: as many as there are
	sieve    sieve
	ascii    bool // the ledger may not hold more

	prefix tables.Prefix
	vars   cel.Vars
	rows   []*row // by plan
}

func newWriter(t *task, c *conn) *writer {
	w := &writer{s: t.s, plans: c.plans, params: t.params, prefix: tables.PrefixOf(t.o)}
	w.ascii = c.pg.ParameterStatus("server_encoding") != "UTF8"
	for _, p := range w.plans {
		w.rows = append(w.rows, newRow(p, t.o, &w.vars))
	}
	return w
}

// item is what one record writes: all of it, or nothing.
type item struct {
	pos    sink.Pos
	remove bool
	writes []write
	bytes  int
}

// write is one row, one delete, or the parameters of one statement.
type write struct {
	table int // the index of its plan
	shape *shape
	key   string // of an upsert
	vals  [][]byte
}

func (w *writer) refuse(at sink.Pos, err error) {
	reason := err.Error()
	reason = strings.ReplaceAll(strings.ToValidUTF8(reason, "\uFFFD"), "\x00", "\uFFFD") // the server's text takes no NUL
	if w.ascii {
		reason = inASCII(reason)
	}
	w.verdicts = append(w.verdicts, sink.Verdict{Pos: at, Code: sink.Code(err), Reason: reason})
}

// inASCII writes other characters by their numbers, for a database whose encoding may
// lack them.
func inASCII(s string) string {
	var b []byte
	for _, r := range s {
		if r < utf8.RuneSelf {
			b = append(b, byte(r))
			continue
		}
		quoted := strconv.QuoteRuneToASCII(r)
		b = append(b, quoted[1:len(quoted)-1]...)
	}
	return string(b)
}

// put writes records: carefully, where that was refused as a whole.
func (w *writer) put(ctx context.Context, c *conn, entries []sink.Entry, careful bool) error {
	if careful {
		return w.sift(ctx, c, entries)
	}
	if !w.streams() {
		return w.failed(w.all(entries, func(items []item) error { return w.write(ctx, c, items) }))
	}
	for chunk := range slices.Chunk(entries, w.chunk(len(entries))) {
		if err := w.stream(ctx, c, chunk); err != nil {
			return err
		}
	}
	return nil
}

// all makes what records write, as much at a time as one statement may have.
func (w *writer) all(entries []sink.Entry, f func([]item) error) error {
	for len(entries) > 0 {
		var items []item
		items, entries = w.items(entries)
		for chunk := range slices.Chunk(items, w.chunk(len(items))) {
			if err := f(chunk); err != nil {
				return err
			}
		}
	}
	return nil
}

// chunk is how many of n records a statement may have.
func (w *writer) chunk(n int) int {
	if w.most > 0 {
		n = min(n, w.most)
	}
	return max(1, n)
}

const (
	// someRows are made at once: records with lists may come to any number.
	someRows  = 20_000
	someBytes = 64 << 20
	// mostElements are what a list may have.
	mostElements = 100_000
	// mostBytes are what the rows of one record may come to: expressions may copy it
	// into each of them.
	mostBytes = 128 << 20
)

// items makes what the first records write, and gives the others back. Those that
// cannot be made are refused.
func (w *writer) items(entries []sink.Entry) (out []item, rest []sink.Entry) {
	rows, size := 0, 0
	for i := range entries {
		if rows >= someRows || size >= someBytes {
			return out, entries[i:]
		}
		e := &entries[i]
		it := item{pos: e.Pos, remove: e.Tombstone() && len(w.plans) > 0}
		var err error
		w.vars.Reset(&e.Record)
		switch {
		case it.remove:
			err = w.removals(e, &it)
		case len(w.plans) == 0:
			err = w.statement(&it)
		default:
			err = w.rowsOf(&it)
		}
		if err != nil {
			w.refuse(e.Pos, err)
			continue
		}
		rows, size = rows+len(it.writes), size+it.bytes
		out = append(out, it)
	}
	return out, nil
}

func (w *writer) rowsOf(it *item) error {
	for i, r := range w.rows {
		err := r.each(it.pos, func() error {
			s := r.p.shape(r.mask)
			it.bytes += r.bytes()
			if it.bytes > mostBytes {
				return tooBig(mostBytes)
			}
			it.writes = append(it.writes, write{table: i, shape: s, key: r.key(), vals: r.pick(s.cols)})
			return nil
		})
		if err != nil && len(w.rows) > 1 {
			return fmt.Errorf("table %s: %w", r.p.info.name, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// key tells rows of other keys apart; "" for those that are appended.
func (r *row) key() string {
	if r.p.mode != modeUpsert {
		return ""
	}
	var k []byte
	for _, c := range r.p.key {
		k = appendKey(k, r.vals[c], &r.p.info.columns[c])
	}
	return string(k)
}

func appendKey(k, v []byte, c *column) []byte {
	if c.exact {
		v = canonical(v, c)
	}
	return append(binary.AppendUvarint(k, uint64(len(v))), v...)
}

// removals delete what the key of a tombstone names, children first.
func (w *writer) removals(e *sink.Entry, it *item) error {
	for i, p := range slices.Backward(w.plans) {
		if p.mode != modeUpsert || len(p.parent) == 0 {
			return sink.Poison(codeKey, fmt.Errorf("table %s knows no deletes: it is appended to, or has no parent columns", p.info.name))
		}
		cols := make([]*column, len(p.parent))
		for j, c := range p.parent {
			cols[j] = &p.info.columns[c]
		}
		vals, err := deleteKey(e.Key, cols)
		if err != nil {
			return err
		}
		var key []byte
		for j, v := range vals {
			key = appendKey(key, v, cols[j])
		}
		if p.order >= 0 {
			vals = append(slices.Clone(vals), bytea(w.prefix.Place(e.Pos)))
		}
		it.writes = append(it.writes, write{table: i, shape: p.remove, key: string(key), vals: vals})
	}
	return nil
}

func (w *writer) statement(it *item) error {
	vals := make([][]byte, len(w.s.x[0].Args))
	for i, x := range w.s.x[0].Args {
		v, err := exprValue(x, &w.vars, &w.params[i])
		if err != nil {
			return tables.Poison(fmt.Errorf("args[%d]: %w", i, err))
		}
		vals[i] = v
		it.bytes += len(v)
	}
	if it.bytes > mostBytes {
		return tooBig(mostBytes)
	}
	it.writes = []write{{vals: vals}}
	return nil
}

// errRefused: a statement of the batch was refused for what a row holds. The
// transaction is gone; it has to be made again row by row where need be.
var errRefused = errors.New("the database refused what was written")

// write executes what items write in as few round trips as there can be.
func (w *writer) write(ctx context.Context, c *conn, items []item) error {
	return w.between(ctx, c, items, nil, nil)
}

// between is write with statements before and behind.
func (w *writer) between(ctx context.Context, c *conn, items []item, before, behind []string) error {
	q := queued{c: c, b: &pgconn.Batch{}}
	for _, sql := range before {
		q.next().ExecParams(sql, nil, nil, nil, nil)
	}
	for _, g := range w.arrange(items) {
		if g.copy == "" || len(g.pos) < copyRows {
			g.add(q.next(), 0, len(g.pos))
			continue
		}
		if err := q.flush(ctx); err != nil {
			return err
		}
		if err := c.copy(ctx, g.copy, bytes.NewReader(copyText(g.vals))); err != nil {
			return err
		}
	}
	for _, sql := range behind {
		q.next().ExecParams(sql, nil, nil, nil, nil)
	}
	return q.flush(ctx)
}

// queued are statements that go to the server together, once something else has to
// follow them.
type queued struct {
	c       *conn
	b       *pgconn.Batch
	waiting bool
}

// next is where one more statement is added.
func (q *queued) next() *pgconn.Batch {
	q.waiting = true
	return q.b
}

func (q *queued) flush(ctx context.Context) error {
	if !q.waiting {
		return nil
	}
	_, err := q.c.run(ctx, q.b)
	q.b, q.waiting = &pgconn.Batch{}, false
	return err
}

// ofRows: what the server has against a statement may be the fault of single rows.
func (w *writer) ofRows(err error) bool {
	return err != nil && (w.refusal(err) != nil || doubtful(err))
}

func (w *writer) failed(err error) error {
	if w.ofRows(err) {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return err
}

// refusal is the poison error of a statement's; nil, where it is not a row's fault.
func (w *writer) refusal(err error) error {
	switch {
	case len(w.plans) == 1:
		return refusal("table "+w.plans[0].info.name.String(), err)
	case len(w.plans) > 1 && tableOf(err) != "":
		return refusal("table "+tables.Quote(tableOf(err)), err)
	}
	return refusal("the database", err)
}
