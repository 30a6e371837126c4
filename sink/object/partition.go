package object

import (
	"errors"
	"fmt"

	"exactly/record"
	"exactly/sink"
)

// Deps is what a sink gets beside its settings. The zero value will do.
type Deps struct {
	// Folder gives the sub-folder of a record's file, in place of the
	// expression partition_by, for pipelines written in Go. It must be safe for
	// concurrent use, and give the same for the same record. An error refuses
	// the record.
	Folder func(r *record.Record) (string, error)
}

// partitioner gives the folder of a record.
type partitioner struct {
	folder func(r *record.Record) (string, error)
}

// newPartitioner gives nil where everything goes into one folder.
func newPartitioner(expr string, d Deps) (*partitioner, error) {
	if d.Folder != nil && expr != "" {
		return nil, errors.New("partition_by: set the expression or Deps.Folder, not both")
	}
	if d.Folder != nil {
		return &partitioner{folder: d.Folder}, nil
	}
	if expr != "" {
		return nil, fmt.Errorf("soon")
	}
	return nil, nil
}

// of gives the path of the folder, "" without partition_by; an error is poison.
func (p *partitioner) of(r *record.Record) (string, error) {
	if p == nil {
		return "", nil
	}
	value, err := p.folder(r)
	if err != nil {
		return "", err
	}
	path, err := folderOf(value)
	if err != nil {
		return "", sink.Poison(codePartition, err)
	}
	return path, nil
}
