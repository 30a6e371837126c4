package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

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
	copy  string   // the COPY that takes them all; "": none
	at    int      // its round
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

// copyText writes rows in the text format of COPY.
func copyText(rows [][][]byte) []byte {
	var b []byte
	for _, r := range rows {
		for i, v := range r {
			if i > 0 {
				b = append(b, '\t')
			}
			if v == nil {
				b = append(b, `\N`...)
				continue
			}
			for _, ch := range v {
				switch ch {
				case '\\':
					b = append(b, `\\`...)
				case '\n':
					b = append(b, `\n`...)
				case '\r':
					b = append(b, `\r`...)
				case '\t':
					b = append(b, `\t`...)
				default:
					b = append(b, ch)
				}
			}
		}
		b = append(b, '\n')
	}
	return b
}

// writer turns the records of one transaction into groups, and the groups into
// rows.
type writer struct {
	t        *task
	p        *plan // nil in mode statement
	groups   []*group
	verdicts []sink.Verdict

	prefix tables.Prefix
	keys   []*column      // of the key
	round  map[string]int // by key: how many records of it came
	open   map[place]*group
	base   int // no record goes into an earlier round
	last   int // the highest round so far
	before *shape
}

// place is what one statement takes: the records of a shape in a round.
type place struct {
	round int
	shape *shape
}

func (w *writer) refuse(at sink.Pos, err error) {
	reason := err.Error()
	w.verdicts = append(w.verdicts, sink.Verdict{Pos: at, Code: sink.Code(err), Reason: strings.ToValidUTF8(reason, "\uFFFD")})
}

// arrange makes groups of records. In mode append they keep the order of the
// source. In mode upsert a statement cannot write a row twice, so the n-th record
// of each key goes into the n-th round; rounds are executed in order, and within
// one there is nothing to keep in order.
func (w *writer) arrange(entries []sink.Entry) {
	if w.t.s.cfg.Mode == modeStatement {
		w.statements(entries)
		return
	}
	w.prefix, w.round, w.open = tables.PrefixOf(w.t.o), map[string]int{}, map[place]*group{}
	for _, k := range w.p.key {
		w.keys = append(w.keys, &w.p.info.columns[k])
	}
	r := newRow(w.p, w.t.o)
	for i := range entries {
		e := &entries[i]
		if e.Tombstone() {
			w.remove(e)
			continue
		}
		if err := r.fill(&e.Record, e.Pos); err != nil {
			w.refuse(e.Pos, err)
			continue
		}
		s := w.p.shape(r.mask)
		vals := make([][]byte, len(s.cols))
		for i, c := range s.cols {
			vals[i] = r.vals[c]
		}
		if w.p.cfg.Mode == modeAppend {
			w.append(s, vals, e.Pos)
			continue
		}
		key := make([][]byte, len(w.p.key))
		for i, c := range w.p.key {
			key[i] = r.vals[c]
		}
		w.upsert(s, key, vals, e.Pos)
	}
	if w.p.cfg.Mode == modeAppend {
		return
	}
	slices.SortStableFunc(w.groups, func(a, b *group) int { return a.at - b.at })
	for _, g := range w.groups {
		if !w.p.inTurn {
			sort.Sort(g)
		}
	}
}

func (w *writer) append(s *shape, vals [][]byte, pos sink.Pos) {
	if w.before != s {
		w.before = s
		w.groups = append(w.groups, &group{sql: s.sql, types: s.types, copy: w.p.copyFrom(s.cols)})
	}
	g := w.groups[len(w.groups)-1]
	g.vals, g.pos = append(g.vals, vals), append(g.pos, pos)
}

// upsert puts one record, or one delete, into its round.
func (w *writer) upsert(s *shape, key, vals [][]byte, pos sink.Pos) {
	if w.p.inTurn && s != w.before {
		w.base, w.before = w.last+1, s
	}
	var k []byte
	for i, v := range key {
		if c := w.keys[i]; c.exact {
			v = canonical(v, c)
		}
		k = append(binary.AppendUvarint(k, uint64(len(v))), v...)
	}
	n := max(w.round[string(k)], w.base)
	w.round[string(k)] = n + 1
	w.last = max(w.last, n)
	at := place{n, s}
	g := w.open[at]
	if g == nil {
		g = &group{sql: s.sql, types: s.types, at: n}
		w.open[at] = g
		w.groups = append(w.groups, g)
	}
	g.vals, g.pos, g.keys = append(g.vals, vals), append(g.pos, pos), append(g.keys, string(k))
}

// Sorted by key, the rows of a statement are locked in the same order by all tasks.
func (g *group) Len() int           { return len(g.pos) }
func (g *group) Less(i, j int) bool { return g.keys[i] < g.keys[j] }
func (g *group) Swap(i, j int) {
	g.vals[i], g.vals[j] = g.vals[j], g.vals[i]
	g.pos[i], g.pos[j] = g.pos[j], g.pos[i]
	g.keys[i], g.keys[j] = g.keys[j], g.keys[i]
}

// remove deletes what the key of a tombstone names.
func (w *writer) remove(e *sink.Entry) {
	if w.p.cfg.Mode == modeAppend {
		w.refuse(e.Pos, sink.Poison(codeKey, errors.New("a table of mode append knows no deletes")))
		return
	}
	key, err := deleteKey(e.Key, w.keys)
	if err != nil {
		w.refuse(e.Pos, err)
		return
	}
	vals := slices.Clone(key)
	if w.p.order >= 0 {
		vals = append(vals, bytea(w.prefix.Place(e.Pos)))
	}
	w.upsert(w.p.remove, key, vals, e.Pos)
}

// statements makes one of each record.
func (w *writer) statements(entries []sink.Entry) {
	g := &group{sql: w.t.s.cfg.Statement, each: true}
	vars := &cel.Vars{}
	for i := range entries {
		e := &entries[i]
		vars.Reset(&e.Record)
		vals, err := w.arguments(vars)
		if err != nil {
			w.refuse(e.Pos, tables.Poison(err))
			continue
		}
		g.vals, g.pos = append(g.vals, vals), append(g.pos, e.Pos)
	}
	if len(g.pos) > 0 {
		w.groups = append(w.groups, g)
	}
}

func (w *writer) arguments(vars *cel.Vars) ([][]byte, error) {
	vals := make([][]byte, len(w.t.s.x.Args))
	for i, x := range w.t.s.x.Args {
		v, err := exprValue(x, vars, &w.t.params[i])
		if err != nil {
			return nil, fmt.Errorf("args[%d]: %w", i, err)
		}
		vals[i] = v
	}
	return vals, nil
}

// errRefused: a statement of the batch was refused for what a row holds. The
// transaction is gone; it has to be made again row by row where need be.
var errRefused = errors.New("the database refused a row")

// write executes all groups in as few round trips as there can be.
func (w *writer) write(ctx context.Context, c *conn) error {
	b, waiting := &pgconn.Batch{}, false
	flush := func() error {
		if !waiting {
			return nil
		}
		_, err := c.run(ctx, b)
		b, waiting = &pgconn.Batch{}, false
		return w.failed(err)
	}
	for _, g := range w.groups {
		if g.copy == "" || len(g.pos) < copyRows {
			g.add(b, 0, len(g.pos))
			waiting = true
			continue
		}
		if err := flush(); err != nil {
			return err
		}
		if err := c.copy(ctx, g.copy, copyText(g.vals)); err != nil {
			return w.failed(err)
		}
	}
	return flush()
}

func (w *writer) failed(err error) error {
	if err != nil && refusal(w.target(), err) != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return err
}

func (w *writer) target() string {
	if w.p == nil {
		return "the database"
	}
	return "table " + w.p.info.name.String()
}

// carefully executes all groups under savepoints, and halves what is refused
// until the rows at fault are alone.
func (w *writer) carefully(ctx context.Context, c *conn) error {
	// A constraint that waits for the end would tell nothing about the row.
	if err := c.exec(ctx, "SET CONSTRAINTS ALL IMMEDIATE"); err != nil {
		return err
	}
	for _, g := range w.groups {
		if err := w.part(ctx, c, g, 0, len(g.pos)); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) part(ctx context.Context, c *conn, g *group, i, j int) error {
	b := &pgconn.Batch{}
	b.ExecParams("SAVEPOINT exactly", nil, nil, nil, nil)
	g.add(b, i, j)
	b.ExecParams("RELEASE SAVEPOINT exactly", nil, nil, nil, nil)
	_, err := c.run(ctx, b)
	if err == nil {
		return nil
	}
	verdict := refusal(w.target(), err)
	if verdict == nil {
		return err
	}
	if err := c.exec(ctx, "ROLLBACK TO SAVEPOINT exactly; RELEASE SAVEPOINT exactly"); err != nil {
		return err
	}
	if j-i == 1 {
		w.refuse(g.pos[i], verdict)
		return nil
	}
	middle := (i + j) / 2
	if err := w.part(ctx, c, g, i, middle); err != nil {
		return err
	}
	return w.part(ctx, c, g, middle, j)
}
