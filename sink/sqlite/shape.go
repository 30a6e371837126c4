package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
)

// shape is the set of columns that a record fills. Records of one shape share
// statements of several rows.
type shape struct {
	cols    []int
	ordered bool
	stmts   map[int]driver.Stmt // by number of rows
}

// Rows of one statement: the most, and what is left over. The fewer sizes, the
// fewer statements are kept.
var statementRows = []int{100, 10, 1}

const (
	maxParameters = 32766 // SQLITE_MAX_VARIABLE_NUMBER as it is built here
	maxShapes     = 32    // at once: records of ever other shapes must not fill the memory
)

// shape gives that of a mask: a byte per column, not 0 where it is filled, and
// one more that says whether the order of the source is looked at.
func (p *plan) shape(mask []byte) *shape {
	if s, ok := p.shapes[string(mask)]; ok {
		return s
	}
	if len(p.shapes) >= maxShapes {
		for _, s := range p.shapes {
			s.close()
		}
		clear(p.shapes)
	}
	last := len(mask) - 1
	s := &shape{ordered: mask[last] != 0, stmts: map[int]driver.Stmt{}}
	for i, set := range mask[:last] {
		if set != 0 {
			s.cols = append(s.cols, i)
		}
	}
	p.shapes[string(mask)] = s
	return s
}

func (s *shape) close() {
	for _, st := range s.stmts {
		_ = st.Close()
	}
}

// rows is how many rows the next statement takes of n that wait.
func (s *shape) rows(n int) int {
	for _, k := range statementRows {
		if k <= n && k*len(s.cols) <= maxParameters {
			return k
		}
	}
	return 1
}

// stmt is the statement for n rows.
func (s *shape) stmt(ctx context.Context, c *conn, n int) (driver.StmtExecContext, error) {
	st, ok := s.stmts[n]
	if !ok {
		var err error
		if st, err = c.prepare(ctx, c.plan.insert(s.cols, s.ordered, n)); err != nil {
			return nil, err
		}
		s.stmts[n] = st
	}
	x, ok := st.(driver.StmtExecContext)
	if !ok {
		return nil, errors.New("the SQLite driver lacks ExecContext on statements")
	}
	return x, nil
}
