package step

import (
	"bytes"
	"errors"
	"fmt"

	"exactly/record"
	"exactly/step/cel"
)

// NewChain makes a runner of the program with buffers of its own: one per task.
func (p *Program) NewChain() Chain {
	return &chain{prog: p, levels: make([]level, len(p.segments))}
}

type chain struct {
	prog   *Program
	levels []level // one per segment, since a flat_map runs one inside the other
	epoch  Epoch
	sub    int32
}

// level is the record at work in one segment.
type level struct {
	rec  record.Record
	vars cel.Vars
	buf  []byte // results of set, until the record is done
	ends []int  // of each result in buf; -1: absent
}

func (c *chain) Apply(dst []record.Record, r record.Record, e Epoch) ([]record.Record, error) {
	r.Sub = 0
	if r.Tombstone() {
		return append(dst, r), nil
	}
	c.epoch, c.sub = e, 0
	out, err := c.run(dst, 0, r, -1)
	if err != nil {
		return dst, err // nothing of a flat_map that failed half way
	}
	return out, nil
}

// run takes a record through a segment and those after it. elem is the index of
// the record in the list that the segment before split, -1 in the first.
func (c *chain) run(dst []record.Record, at int, r record.Record, elem int) ([]record.Record, error) {
	l, seg := &c.levels[at], &c.prog.segments[at]
	l.rec, l.buf = r, l.buf[:0]
	l.vars.Reset(&l.rec)
	l.vars.SetEpoch(c.epoch)
	if c.prog.format == Raw {
		return c.runRaw(dst, l, seg)
	}
	doc, err := l.vars.Doc()
	if err != nil {
		if at == 0 {
			return nil, stepError("decode", err)
		}
		return nil, stepError(fmt.Sprintf("%s[%d]", c.prog.segments[at-1].split.place, elem), err)
	}
	for i := range seg.steps {
		s := &seg.steps[i]
		switch {
		case s.test != nil:
			keep, err := l.test(s)
			if err != nil || !keep {
				return dst, err
			}
		case s.set != nil:
			if err := l.set(doc, s.set); err != nil {
				return nil, err
			}
		default:
			for _, path := range s.unset {
				doc.Remove(path)
			}
		}
	}
	if seg.split != nil {
		return c.split(dst, at)
	}
	switch {
	case doc.Edited():
		r.Value = doc.Append(make([]byte, 0, doc.Size()))
	case at > 0: // a part of another record, or of a buffer
		r.Value = bytes.Clone(r.Value)
	}
	r.Sub = c.sub
	c.sub++
	return append(dst, r), nil
}

func (c *chain) runRaw(dst []record.Record, l *level, seg *segment) ([]record.Record, error) {
	if len(l.rec.Value) == 0 {
		return nil, &Error{Step: "decode", Code: cel.CodeEmptyValue, Err: &record.DocError{Kind: record.EmptyValue}}
	}
	for i := range seg.steps {
		keep, err := l.test(&seg.steps[i])
		if err != nil || !keep {
			return dst, err
		}
	}
	return append(dst, l.rec), nil
}

func (l *level) test(s *compiled) (keep bool, err error) {
	b, err := s.test.x.Bool(&l.vars)
	if err != nil {
		return false, stepError(s.test.place, err)
	}
	return b == s.keep, nil
}

// set evaluates everything before it changes anything.
func (l *level) set(doc *record.Doc, set []assignment) error {
	l.ends = l.ends[:0]
	from := len(l.buf)
	for i := range set {
		buf, ok, err := set[i].x.AppendJSON(l.buf, &l.vars)
		if err != nil {
			return stepError(set[i].place, err)
		}
		l.buf = buf
		end := len(buf)
		if !ok {
			end = -1
		}
		l.ends = append(l.ends, end)
	}
	for i := range set {
		end := l.ends[i]
		if end < 0 {
			doc.Remove(set[i].path)
			continue
		}
		if err := doc.Set(set[i].path, l.buf[from:end:end]); err != nil {
			return &Error{Step: set[i].place, Code: cel.CodeWrongType, Err: err}
		}
		from = end
	}
	return nil
}

// split makes each element of the flat_map's list a record and takes it on.
func (c *chain) split(dst []record.Record, at int) ([]record.Record, error) {
	l, split := &c.levels[at], c.prog.segments[at].split
	elems, err := split.x.List(&l.vars)
	if err != nil {
		return nil, stepError(split.place, err)
	}
	for i, e := range elems {
		r := l.rec
		r.Value = e
		if dst, err = c.run(dst, at+1, r, i); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// stepError puts the place to an error of package cel.
func stepError(place string, err error) error {
	var ee *cel.EvalError
	if errors.As(err, &ee) {
		return &Error{Step: place, Code: ee.Code, Err: ee.Err}
	}
	return &Error{Step: place, Code: cel.CodeExpression, Err: err}
}
