package postgres

import (
	"fmt"
	"slices"
	"strings"

	"exactly/internal/tables"
	"exactly/step/cel"
)

// Types of columns, by what they can read a text as.
var (
	numberTypes = strings.Fields("int2 int4 int8 numeric float4 float8")
	momentTypes = strings.Fields("timestamptz timestamp date timetz time interval")
)

// strict: the column takes no word but those of its type.
// Types that are not known here may read anything: '[1,2]' is a range.
func (c *column) strict() bool {
	return slices.Contains(numberTypes, c.base) || slices.Contains(momentTypes, c.base) || c.base == "bool" || c.base == "uuid"
}

// never: no value of a type of expressions can be one of the column's, so that every
// record would be a dead letter. Strings may say anything, and what is declared as
// bytes comes as one. 20260131 is a date, and so is ["2026-01-31"], since types of time
// pass over punctuation; 32 digits are a uuid.
func (c *column) never(t cel.Type) bool {
	array := c.kind == kindArray && strings.HasPrefix(c.base, "_") // int2vector is none to the parser
	switch t {
	case cel.TypeBool:
		return array || c.strict() && c.base != "bool"
	case cel.TypeInt, cel.TypeUint:
		return array || c.base == "uuid"
	case cel.TypeDecimal:
		return array
	case cel.TypeTime:
		return array || c.strict() && (!slices.Contains(momentTypes, c.base) || c.base == "interval")
	case cel.TypeList, cel.TypeMap:
		return c.strict() && !slices.Contains(momentTypes, c.base)
	}
	return false
}

// remedies say how an expression gives what the column takes.
func (c *column) remedy(t cel.Type) string {
	switch {
	case t == cel.TypeList || t == cel.TypeMap:
		return "let it give a part of that, or make the column jsonb"
	case c.kind == kindArray:
		return "let it give a list, as in [x]"
	case c.base == "uuid":
		return "let it give a string"
	case t == cel.TypeBool && slices.Contains(numberTypes, c.base):
		return "let it give a number, as in x ? 1 : 0"
	case t == cel.TypeTime && slices.Contains(numberTypes, c.base):
		return "int(x) gives the seconds of a time, or make the column timestamptz"
	}
	return "let it give a value of the column's type"
}

// fits refuses expressions that give what their columns can never take.
func (p *plan) fits() error {
	for _, i := range p.exprs {
		c := &p.info.columns[i]
		if t := p.x.ColumnTypes[c.name]; c.never(t) {
			return p.unfit("columns."+c.name, c, t)
		}
	}
	if p.version >= 0 {
		if c := &p.info.columns[p.version]; c.never(p.x.VersionType) {
			return p.unfit("version", c, p.x.VersionType)
		}
	}
	return nil
}

func (p *plan) unfit(setting string, c *column, t cel.Type) error {
	return fmt.Errorf("%s: the expression gives a value of type %s, which column %s of table %s (%s) never takes, so that every record would be a dead letter; %s",
		setting, t, c.name, p.info.name, c.full, c.remedy(t))
}

// argsFit holds those of a statement against its parameters.
func argsFit(x *tables.Exprs, params []column) error {
	for i := range params {
		c := &params[i]
		if t := x.ArgTypes[i]; c.never(t) {
			return fmt.Errorf("args[%d]: the expression gives a value of type %s, which parameter $%d of the statement (%s) never takes, so that every record would be a dead letter; %s",
				i, t, i+1, c.full, c.remedy(t))
		}
	}
	return nil
}
