package jsonl

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"exactly/sink/object/encode"
	"exactly/sink/object/store"
)

// maxLine bounds the memory of a reader, in bytes; Kafka records are smaller.
const maxLine = 256 << 20

// Reader reads files of this format. With an envelope, lines that are none are
// errors.
func (f Format) Reader() encode.Reader {
	return func(ctx context.Context, r store.Reader) iter.Seq2[encode.Row, error] {
		return func(yield func(encode.Row, error) bool) {
			if err := f.read(ctx, r, yield); err != nil {
				yield(encode.Row{}, err)
			}
		}
	}
}

func (f Format) read(ctx context.Context, r store.Reader, yield func(encode.Row, error) bool) error {
	plain, done, err := f.unpack(io.NewSectionReader(r, 0, r.Size()))
	if err != nil {
		return err
	}
	defer done()
	in := bufio.NewReaderSize(plain, 64<<10)
	for i := int64(0); ; i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		line, err := readLine(in)
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("line %d has no end: the file is cut off", i+1)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", i+1, err)
		}
		row, err := f.row(i, line)
		if err != nil {
			return fmt.Errorf("line %d: %w", i+1, err)
		}
		if !yield(row, nil) {
			return nil
		}
	}
}

func (f Format) unpack(r io.Reader) (io.Reader, func(), error) {
	switch f.Compression {
	case Gzip:
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, nil, fmt.Errorf("gzip: %w", err)
		}
		return z, func() { _ = z.Close() }, nil
	case Zstd:
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(64<<20))
		if err != nil {
			return nil, nil, fmt.Errorf("zstd: %w", err)
		}
		return z, z.Close, nil
	}
	return r, func() {}, nil
}

// readLine reads through the line break, which it leaves out.
func readLine(in *bufio.Reader) ([]byte, error) {
	var long []byte
	for {
		part, err := in.ReadSlice('\n')
		if err == nil && long == nil {
			return part[:len(part)-1], nil
		}
		long = append(long, part...)
		switch {
		case err == nil:
			return long[:len(long)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return long, err
		case len(long) > maxLine:
			return nil, fmt.Errorf("longer than %d bytes", maxLine)
		}
	}
}

func (f Format) row(i int64, line []byte) (encode.Row, error) {
	if !f.Envelope {
		if !json.Valid(line) {
			return encode.Row{}, fmt.Errorf("not JSON: %s", excerpt(line))
		}
		return encode.Row{Index: i, Value: line}, nil
	}
	var e envelope
	if err := json.Unmarshal(line, &e); err != nil {
		return encode.Row{}, fmt.Errorf("not an envelope: %w", err)
	}
	if e.Value == nil {
		return encode.Row{}, fmt.Errorf("an envelope without a value: %s", excerpt(line))
	}
	return encode.Row{
		Index: i, Value: e.Value, Key: e.key(), Source: e.position(), Timestamp: e.Timestamp,
	}, nil
}

func excerpt(b []byte) []byte {
	if b = bytes.TrimSpace(b); len(b) > 80 {
		return append(b[:80:80], "…"...)
	}
	return b
}
