package object

import (
	"errors"
	"fmt"

	"exactly/record"
	"exactly/sink"
	"exactly/step/cel"
)

// Deps is what a sink gets beside its settings. The zero value will do.
type Deps struct {
	// Env compiles partition_by; nil: one that knows no declared fields.
	Env *cel.Env
	// Folder gives the sub-folder of a record's file, in place of the
	// expression, for pipelines written in Go. It must be safe for concurrent
	// use, and give the same for the same record. An error refuses the record.
	Folder func(r *record.Record) (string, error)
}

const codePartition = "partition_value"

// partitioner is partition_by; all tasks share it.
type partitioner struct {
	expr   *cel.Expr
	folder func(r *record.Record) (string, error)
}

// newPartitioner gives nil where everything goes into one folder.
func newPartitioner(src string, d Deps) (*partitioner, error) {
	switch {
	case src == "" && d.Folder == nil:
		return nil, nil
	case src != "" && d.Folder != nil:
		return nil, errors.New("partition_by: set the expression or Deps.Folder, not both")
	case d.Folder != nil:
		return &partitioner{folder: d.Folder}, nil
	}
	env := d.Env
	if env == nil {
		var err error
		if env, err = cel.NewEnv(cel.Options{}); err != nil {
			return nil, fmt.Errorf("partition_by: %w", err)
		}
	}
	expr, err := env.Compile(src, cel.TypeString)
	if err != nil {
		return nil, fmt.Errorf("partition_by: %w", err)
	}
	if expr.UsesEpoch() {
		return nil, errors.New("partition_by: a sink does not know the epoch; set a field from epoch.time in a step, and use that")
	}
	return &partitioner{expr: expr}, nil
}

// folders gives the folders of one task's records.
type folders struct {
	p    *partitioner // nil: no partition_by
	vars cel.Vars
}

// of gives the path of the folder, "" without partition_by; an error is poison.
func (f *folders) of(r *record.Record) (string, error) {
	if f.p == nil {
		return "", nil
	}
	value, err := f.value(r)
	if err != nil {
		return "", err
	}
	path, err := folderOf(value)
	if err != nil {
		return "", sink.Poison(codePartition, err)
	}
	return path, nil
}

func (f *folders) value(r *record.Record) (string, error) {
	if f.p.folder != nil {
		value, err := f.p.folder(r)
		if err != nil {
			return "", sink.Poison(codePartition, fmt.Errorf("partition_by: %w", err))
		}
		return value, nil
	}
	f.vars.Reset(r)
	value, err := f.p.expr.StringValue(&f.vars)
	if err == nil {
		return value, nil
	}
	code := cel.CodeExpression
	var e *cel.EvalError
	if errors.As(err, &e) {
		code = e.Code
	}
	return "", sink.Poison(code, fmt.Errorf("partition_by: %w", err))
}
