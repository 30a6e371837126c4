package object

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"strings"

	"exactly/sink/object/encode"
	"exactly/sink/object/jsonl"
	"exactly/sink/object/parquet"
	"exactly/sink/object/store"
)

// File is a final file below a url, as every reader sees it.
type File struct {
	Path string // below the url, with slashes
	Size int64  // bytes
	Name Name   // what its name says, if Ours
	Ours bool   // its name is one that this sink gives; copies by hand have others
}

// Row is one row of a file. The slices are valid until the next row is read.
type Row struct {
	File string // its path below the url
	encode.Row
}

// ReadOptions say how files are read. The zero value will do where the sink has
// no envelope.
type ReadOptions struct {
	// Envelope as in the sink's settings: lines hold the value inside.
	Envelope bool
	// Match leaves out the files for which it is false; nil: none.
	Match func(File) bool
}

// Files lists the final files of a url: every name that ends in .jsonl,
// .jsonl.gz, .jsonl.zst or .parquet, whoever wrote it, in an order that is the
// same each time; for the files of one task in one folder, that of their
// ranges. An error is the last that it gives. It reads names only, and never
// what the sink keeps beside the files.
func Files(ctx context.Context, url string) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		s, err := openStore(url)
		if err != nil {
			yield(File{}, err)
			return
		}
		files(ctx, s)(yield)
	}
}

func files(ctx context.Context, s store.Store) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		for o, err := range s.Objects(ctx) {
			if err != nil {
				yield(File{}, err)
				return
			}
			if extOf(o.Path) == "" {
				continue
			}
			f := File{Path: o.Path, Size: o.Size}
			f.Name, err = ParseName(path.Base(o.Path))
			f.Ours = err == nil
			if !yield(f, nil) {
				return
			}
		}
	}
}

// Rows reads all files of a url row by row, in memory bounded by one row group
// of a Parquet file or one line. An error names the file and is the last that
// it gives.
func Rows(ctx context.Context, url string, o ReadOptions) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		s, err := openStore(url)
		if err != nil {
			yield(Row{}, err)
			return
		}
		for f, err := range files(ctx, s) {
			if err != nil {
				yield(Row{}, err)
				return
			}
			if o.Match != nil && !o.Match(f) {
				continue
			}
			for row, err := range readFile(ctx, s, f.Path, o) {
				if !yield(row, err) || err != nil {
					return
				}
			}
		}
	}
}

// ReadFile reads one file of a url; p is its path below the url.
func ReadFile(ctx context.Context, url, p string, o ReadOptions) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		s, err := openStore(url)
		if err != nil {
			yield(Row{}, err)
			return
		}
		readFile(ctx, s, p, o)(yield)
	}
}

func readFile(ctx context.Context, s store.Store, p string, o ReadOptions) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		fail := func(err error) { yield(Row{File: p}, fmt.Errorf("read %s: %w", s.Locate(p), err)) }
		read, err := readerOf(p, o)
		if err != nil {
			fail(err)
			return
		}
		r, err := s.Open(ctx, p)
		if err != nil {
			fail(err)
			return
		}
		defer func() { _ = r.Close() }() // nothing was written
		for row, err := range read(ctx, r) {
			if err != nil {
				fail(err)
				return
			}
			if !yield(Row{File: p, Row: row}, nil) {
				return
			}
		}
	}
}

// extOf gives the extension of a format that we read, or "".
func extOf(p string) string {
	for ext := range exts {
		if strings.HasSuffix(p, "."+ext) {
			return ext
		}
	}
	return ""
}

func readerOf(p string, o ReadOptions) (encode.Reader, error) {
	lines := func(z jsonl.Compression) encode.Reader {
		return jsonl.Format{Compression: z, Envelope: o.Envelope}.Reader()
	}
	switch extOf(p) {
	case "jsonl":
		return lines(jsonl.None), nil
	case "jsonl.gz":
		return lines(jsonl.Gzip), nil
	case "jsonl.zst":
		return lines(jsonl.Zstd), nil
	case "parquet":
		return parquet.Reader(), nil
	}
	return nil, errors.New("its name ends in none of .jsonl, .jsonl.gz, .jsonl.zst, .parquet")
}
