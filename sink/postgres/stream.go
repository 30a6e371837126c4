package postgres

import (
	"context"
	"errors"
	"io"

	"github.com/jackc/pgx/v5/pgconn"

	"exactly/sink"
)

// streams: the records go into one table by COPY, as they are made.
func (w *writer) streams() bool {
	return len(w.plans) == 1 && w.plans[0].mode == modeAppend && w.plans[0].x.Each == nil && !w.plans[0].info.guarded
}

// stream makes rows for COPY, which takes in what is there while the next ones are
// made. It reads as the text of the rows of one shape.
type stream struct {
	w     *writer
	r     *row
	rest  []sink.Entry // behind the row at hand
	shape *shape       // of the row at hand; nil: there are no more
	run   *shape       // what is read
	buf   []byte
	done  int // bytes of buf that were read
}

var _ io.Reader = (*stream)(nil)

// stream appends records in the order of the source: runs of one shape by COPY,
// where they are long enough.
func (w *writer) stream(ctx context.Context, c *conn, entries []sink.Entry) error {
	s := &stream{w: w, r: w.rows[0], rest: entries}
	s.next()
	q := queued{c: c, b: &pgconn.Batch{}}
	for s.shape != nil {
		head := s.head()
		if len(head.vals) < copyRows {
			head.add(q.next(), 0, len(head.vals))
			continue
		}
		if err := q.flush(ctx); err != nil {
			return w.failed(err)
		}
		s.buf, s.done = copyText(head.vals), 0
		if err := c.copy(ctx, head.copy, s); err != nil {
			return w.failed(err)
		}
	}
	return w.failed(q.flush(ctx))
}

// next makes the row of the next record that is not refused.
func (s *stream) next() {
	s.shape = nil
	for s.shape == nil && len(s.rest) > 0 {
		e := &s.rest[0]
		s.rest = s.rest[1:]
		if e.Tombstone() {
			s.w.refuse(e.Pos, sink.Poison(codeKey, errors.New("a table of mode append knows no deletes")))
			continue
		}
		s.w.vars.Reset(&e.Record)
		if err := s.r.fill(e.Pos); err != nil {
			s.w.refuse(e.Pos, err)
			continue
		}
		s.shape = s.r.p.shape(s.r.mask)
	}
}

// head takes the first rows of a run, to see whether it is worth a COPY.
func (s *stream) head() *group {
	s.run = s.shape
	g := &group{sql: s.run.sql, types: s.run.types, copy: s.r.p.copyFrom(s.run.cols)}
	for s.shape == s.run && len(g.vals) < copyRows {
		g.vals = append(g.vals, s.r.pick(s.run.cols))
		s.next()
	}
	return g
}

// copyChunk is how much text is made at once.
const copyChunk = 64 << 10

// Read implements io.Reader.
func (s *stream) Read(b []byte) (int, error) {
	if s.done == len(s.buf) {
		s.buf, s.done = s.buf[:0], 0
		for s.shape == s.run && len(s.buf) < copyChunk {
			for i, c := range s.run.cols {
				s.buf = appendCopy(s.buf, i, s.r.vals[c])
			}
			s.buf = append(s.buf, '\n')
			s.next()
		}
		if len(s.buf) == 0 {
			return 0, io.EOF
		}
	}
	n := copy(b, s.buf[s.done:])
	s.done += n
	return n, nil
}

// copyText writes rows in the text format of COPY.
func copyText(rows [][][]byte) []byte {
	var b []byte
	for _, r := range rows {
		for i, v := range r {
			b = appendCopy(b, i, v)
		}
		b = append(b, '\n')
	}
	return b
}

// appendCopy writes the value of the i-th column.
func appendCopy(b []byte, i int, v []byte) []byte {
	if i > 0 {
		b = append(b, '\t')
	}
	if v == nil {
		return append(b, `\N`...)
	}
	from := 0
	for j, ch := range v {
		var as string
		switch ch {
		case '\\':
			as = `\\`
		case '\n':
			as = `\n`
		case '\r':
			as = `\r`
		case '\t':
			as = `\t`
		default:
			continue
		}
		b = append(append(b, v[from:j]...), as...)
		from = j + 1
	}
	return append(b, v[from:]...)
}
