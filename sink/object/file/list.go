package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"exactly/sink/object/store"
)

// Uploads implements store.Store.
func (s *Store) Uploads(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		entries, err := os.ReadDir(s.staging())
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				yield("", fmt.Errorf("list staged files: %w", err))
			}
			return
		}
		for _, e := range entries {
			if err := ctx.Err(); err != nil {
				yield("", err)
				return
			}
			if e.Type().IsRegular() && !yield(e.Name(), nil) {
				return
			}
		}
	}
}

// Objects implements store.Store. A root that does not exist holds none.
func (s *Store) Objects(ctx context.Context) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		stop := errors.New("stop")
		err := filepath.WalkDir(s.root, func(path string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil // no root, or removed while we walked
			case err != nil:
				return err
			case ctx.Err() != nil:
				return ctx.Err()
			case path == s.root:
				return nil
			case strings.HasPrefix(d.Name(), "_"), strings.HasPrefix(d.Name(), "."):
				if d.IsDir() {
					return fs.SkipDir
				}
				return nil
			case !d.Type().IsRegular():
				return nil
			}
			o, err := s.object(path, d)
			if err != nil {
				return err
			}
			if o.Path != "" && !yield(o, nil) {
				return stop
			}
			return nil
		})
		if err != nil && !errors.Is(err, stop) {
			yield(store.Object{}, fmt.Errorf("list objects below %s: %w", s.root, err))
		}
	}
}

func (s *Store) object(path string, d fs.DirEntry) (store.Object, error) {
	info, err := d.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return store.Object{}, nil
	}
	if err != nil {
		return store.Object{}, err
	}
	rel, err := filepath.Rel(s.root, path)
	if err != nil {
		return store.Object{}, err
	}
	return store.Object{Path: filepath.ToSlash(rel), Size: info.Size()}, nil
}

type reader struct {
	*os.File
	size int64
}

func (r reader) Size() int64 { return r.size }

// Open implements store.Store.
func (s *Store) Open(_ context.Context, path string) (store.Reader, error) {
	final, err := s.finalPath(path)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(final)
	if err != nil {
		return nil, fmt.Errorf("open object: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return reader{f, info.Size()}, nil
}
