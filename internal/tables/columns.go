package tables

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"exactly/sink"
	"exactly/step/cel"
)

// ColumnVersion keeps the version of a row where that is no field with a column
// of its own.
const ColumnVersion = "exactly_version"

// VersionColumn is where the version of a row is kept: in the column of its name,
// where the version is simply a field that has one, else in ColumnVersion. columns
// maps columns to expressions; nil: fields go to the columns of their names.
func VersionColumn(version string, columns map[string]string, has func(column string) bool) string {
	src, mapped := columns[version]
	if mapped && src == version || len(columns) == 0 && has(version) {
		return version
	}
	return ColumnVersion
}

// Sources are the expressions of a sink's settings.
type Sources struct {
	Each    string            // "": the row is of the record itself
	Columns map[string]string // empty: fields go to columns by name
	Version string            // "": none
	Args    []string          // of a statement

	// Declared knows the types of the record's fields; nil: they are not declared.
	// It tells what expressions give, and changes nothing in how they read a record.
	Declared *cel.Env
}

// Exprs are the compiled expressions of a sink's settings.
type Exprs struct {
	Each    *cel.Expr            // nil: the row is of the record itself, else one of each element of this list
	Columns map[string]*cel.Expr // nil: fields go to columns by name
	Version *cel.Expr            // nil: none
	Args    []*cel.Expr          // of a statement

	// What they give, as far as it is known before there is a record; else cel.TypeAny.
	ColumnTypes map[string]cel.Type
	VersionType cel.Type
	ArgTypes    []cel.Type
}

// Compile compiles them; its errors name the setting.
func Compile(src Sources) (x Exprs, err error) {
	if src.Each == "" && len(src.Columns) == 0 && src.Version == "" && len(src.Args) == 0 {
		return x, nil
	}
	env, err := cel.NewEnv(cel.Options{})
	if err != nil {
		return x, err
	}
	if src.Each != "" {
		if x.Each, err = env.Compile(src.Each, cel.TypeList); err != nil {
			return x, fmt.Errorf("each: %w", err)
		}
		if env, err = cel.NewEnv(cel.Options{Each: true}); err != nil {
			return x, err
		}
	}
	known, err := src.types()
	if err != nil {
		return x, err
	}
	if len(src.Columns) > 0 {
		x.Columns, x.ColumnTypes = map[string]*cel.Expr{}, map[string]cel.Type{}
	}
	for col, src := range src.Columns {
		if x.Columns[col], err = env.Compile(src, cel.TypeAny); err != nil {
			return x, fmt.Errorf("columns.%s: %w", col, err)
		}
		x.ColumnTypes[col] = known(x.Columns[col])
	}
	if src.Version != "" {
		if x.Version, err = env.Compile(src.Version, cel.TypeAny); err != nil {
			return x, fmt.Errorf("version: %w", err)
		}
		x.VersionType = known(x.Version)
	}
	for i, src := range src.Args {
		e, err := env.Compile(src, cel.TypeAny)
		if err != nil {
			return x, fmt.Errorf("args[%d]: %w", i, err)
		}
		x.Args, x.ArgTypes = append(x.Args, e), append(x.ArgTypes, known(e))
	}
	return x, nil
}

// types gives what tells the type of an expression.
func (src Sources) types() (func(*cel.Expr) cel.Type, error) {
	env := src.Declared
	if env == nil {
		return (*cel.Expr).Type, nil
	}
	if src.Each != "" {
		var err error
		if env, err = env.WithEach(); err != nil {
			return nil, err
		}
	}
	return func(x *cel.Expr) cel.Type {
		declared, err := env.Compile(x.String(), cel.TypeAny)
		if err != nil { // a field that is not declared: the expression is good without
			return x.Type()
		}
		return declared.Type()
	}, nil
}

// CheckFields looks at the setting unknown_fields.
func CheckFields(unknown string, columns map[string]string) error {
	switch {
	case unknown != "ignore" && unknown != "reject":
		return fmt.Errorf("unknown_fields is %q, want ignore or reject", unknown)
	case unknown == "reject" && len(columns) > 0:
		return errors.New("unknown_fields: reject has no meaning beside columns, which say what is taken")
	}
	return nil
}

// CheckKey looks at the key of mode upsert.
func CheckKey(key []string, columns map[string]string) error {
	if len(key) == 0 {
		return errors.New("key is missing: mode upsert needs the columns that identify a row; to have a row per record, set mode: append")
	}
	for i, k := range key {
		if slices.Contains(key[:i], k) {
			return fmt.Errorf("key names the column %q twice", k)
		}
		if _, ok := columns[k]; len(columns) > 0 && !ok {
			return fmt.Errorf("columns lacks the key column %q", k)
		}
	}
	return nil
}

// CheckCreate looks at create and schema beside each other.
func CheckCreate(create bool, schema map[string]string) error {
	switch {
	case !create && len(schema) > 0:
		return errors.New("schema has no meaning without create: true")
	case create && len(schema) == 0:
		return errors.New("create: true needs schema: the columns of the table with their types")
	}
	return nil
}

// KeyFirst sorts the names of columns: those of the key first, in its order, then
// the others by name.
func KeyFirst(key, columns []string) []string {
	rank := func(col string) int {
		if i := slices.Index(key, col); i >= 0 {
			return i
		}
		return len(key)
	}
	out := slices.Sorted(slices.Values(columns))
	slices.SortStableFunc(out, func(a, b string) int { return rank(a) - rank(b) })
	return out
}

// SameColumns reports whether a unique index over cols identifies rows by key.
func SameColumns(cols, key []string) bool {
	return len(cols) == len(key) && !slices.ContainsFunc(key, func(k string) bool { return !slices.Contains(cols, k) })
}

// Missing says that a table lacks a column that a setting names, with what may
// have been meant.
func Missing(setting, table, column string, have []string) error {
	for _, h := range have {
		if strings.EqualFold(h, column) {
			return fmt.Errorf("%s: table %s has no column %q; did you mean %q? Names are compared with their case", setting, table, column, h)
		}
	}
	return fmt.Errorf("%s: table %s has no column %q that can be written; it has %s", setting, table, column, strings.Join(have, ", "))
}

// Poison classes what is wrong with one record; errors of expressions and of JSON
// bring a code of their own.
func Poison(err error) error {
	var ee *cel.EvalError
	if errors.As(err, &ee) {
		return sink.Poison(ee.Code, err)
	}
	return err
}

// Quote makes an SQL identifier of any name.
func Quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// QuoteAll makes a list of identifiers.
func QuoteAll(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = Quote(n)
	}
	return strings.Join(out, ", ")
}
