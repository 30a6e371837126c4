package audit

import (
	"context"
	"fmt"
	"path"
	"time"

	"exactly/sink/object"
)

// ObjectReader reads the files below a url. It takes every file of a known
// format, whoever wrote it, so that a copied file is a file too many.
type ObjectReader struct {
	URL      string
	Envelope bool
	Columns  []string      // of the schema; nil: files hold whole records
	Times    []string      // columns that hold a time
	Age      time.Duration // after which a running worker finishes a file; 0: at once
}

// Shape: files keep every record.
func (o *ObjectReader) Shape(context.Context) (Shape, error) {
	s := Shape{Mode: Every, Fields: o.Columns, Loose: o.Columns != nil, Times: o.Times}
	if o.Age > 0 {
		s.WhenMissing = fmt.Sprintf("a running worker finishes files after %s (roll.age): what one still collects counts as missing", o.Age)
	}
	return s, nil
}

// Read reads all files. Those of one task in one folder come in the order of
// their ranges and make one stream; a file of somebody else is one of its own.
func (o *ObjectReader) Read(ctx context.Context, fn func(*Held) error) error {
	opts := object.ReadOptions{Envelope: o.Envelope}
	for f, err := range object.Files(ctx, o.URL) {
		if err != nil {
			return err
		}
		stream := f.Path
		if f.Ours && f.Name.Nonce == "" { // with one there is no order among files
			stream = fmt.Sprintf("%s/%s g%d t%d", path.Dir(f.Path), f.Name.Incarnation, f.Name.Generation, f.Name.Task)
		}
		for row, err := range object.ReadFile(ctx, o.URL, f.Path, opts) {
			if err != nil {
				return err
			}
			h := Held{Stream: stream, Place: fmt.Sprintf("%s row %d", f.Path, row.Index)}
			h.Key, h.Value = row.Key, row.Value
			if err := fn(&h); err != nil {
				return err
			}
		}
	}
	return nil
}
