package jsonl

import (
	"bytes"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"exactly/record"
	"exactly/sink"
	"exactly/sink/object/encode"
)

// Compression is how the file is packed.
type Compression string

const (
	None Compression = "none"
	Gzip Compression = "gzip"
	Zstd Compression = "zstd"
)

const zstdWindow = 128 << 10 // bytes; decides the memory of an encoder

// Format is JSON Lines with these settings.
type Format struct {
	Compression Compression
	Envelope    bool
}

var _ encode.Format = Format{}

// Ext is "jsonl", "jsonl.gz" or "jsonl.zst".
func (f Format) Ext() string {
	switch f.Compression {
	case Gzip:
		return "jsonl.gz"
	case Zstd:
		return "jsonl.zst"
	}
	return "jsonl"
}

// New implements encode.Format.
func (f Format) New(w io.Writer) encode.Encoder {
	e := &encoder{envelope: f.Envelope, w: w}
	switch f.Compression {
	case Gzip:
		z := gzip.NewWriter(w)
		e.w, e.end = z, z
	case Zstd:
		z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true),
			zstd.WithWindowSize(zstdWindow), zstd.WithEncoderLevel(zstd.SpeedFastest))
		if err != nil {
			panic(err) // the options are constants
		}
		e.w, e.end = z, z
	}
	return e
}

type encoder struct {
	envelope bool
	w        io.Writer
	end      io.Closer // of the compressor; nil: none
	line     []byte
}

func (e *encoder) Add(r *record.Record) error {
	line, err := appendValue(e.line[:0], r.Value)
	if err != nil {
		return err
	}
	if e.envelope {
		n := len(line)
		line = appendEnvelope(line, r, line)
		line = append(line[:0], line[n:]...)
	}
	e.line = append(line, '\n')
	_, err = e.w.Write(e.line)
	if cap(e.line) > 1<<20 {
		e.line = nil // one large record must not hold memory for ever
	}
	return err
}

// appendValue appends a record's value as one line, or says why it is none.
func appendValue(dst, value []byte) ([]byte, error) {
	if len(value) == 0 {
		return nil, sink.Poison(encode.CodeEmptyValue, fmt.Errorf("the value is empty; JSON Lines needs a JSON value"))
	}
	v := jsontext.Value(value)
	if !v.IsValid(jsontext.AllowDuplicateNames(true)) {
		return nil, sink.Poison(encode.CodeNotJSON, fmt.Errorf("the value is not JSON"))
	}
	if bytes.IndexByte(value, '\n') < 0 && bytes.IndexByte(value, '\r') < 0 {
		return append(dst, value...), nil
	}
	c := v.Clone()
	if err := c.Compact(jsontext.AllowDuplicateNames(true)); err != nil {
		return nil, sink.Poison(encode.CodeNotJSON, fmt.Errorf("the value is not JSON: %w", err))
	}
	return append(dst, c...), nil
}

func (e *encoder) Buffered() int64 { return 0 }

func (e *encoder) Flush() error { return nil }

func (e *encoder) Close(encode.Meta) error {
	e.line = nil
	if e.end == nil {
		return nil
	}
	return e.end.Close()
}
