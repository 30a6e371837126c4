package file

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"exactly/sink/object/store"
)

// Complete implements store.Store.
func (s *Store) Complete(ctx context.Context, st store.Staged) error {
	staged, err := s.stagedPath(st.Name)
	if err != nil {
		return err
	}
	final, err := s.finalPath(st.Final)
	if err != nil {
		return err
	}
	info, err := os.Stat(staged)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.completed(ctx, st, staged, final)
	case err != nil:
		return fmt.Errorf("complete %s: %w", staged, err)
	case info.Size() != st.Size:
		return fmt.Errorf("complete %s: it has %d bytes where %d were staged: %w", staged, info.Size(), st.Size, store.ErrLost)
	}
	if err := mkdirs(filepath.Dir(final)); err != nil {
		return fmt.Errorf("make the folder of %s: %w", final, err)
	}
	err = place(staged, final)
	switch {
	case errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrNotExist):
		// Done before us, or by another process just now.
		return s.completed(ctx, st, staged, final)
	case err != nil:
		return fmt.Errorf("give %s its final name: %w", staged, err)
	}
	return settle(staged, final)
}

// completed is the answer where the staged file is gone or the final name is
// taken: done, if the final object is the one that was staged.
func (s *Store) completed(ctx context.Context, st store.Staged, staged, final string) error {
	size, sum, err := checksum(ctx, final)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("staged file %s, final file %s: %w", staged, final, store.ErrLost)
	case err != nil:
		return fmt.Errorf("compare %s with what was staged: %w", final, err)
	case size != st.Size || sum != st.Sum:
		return fmt.Errorf("staged file %s (%d bytes, %s), final file %s (%d bytes, %s): %w",
			staged, st.Size, st.Sum, final, size, sum, store.ErrConflict)
	}
	return settle(staged, final)
}

// settle makes the final name durable before the staged one goes.
func settle(staged, final string) error {
	if err := syncDir(filepath.Dir(final)); err != nil {
		return err
	}
	if err := os.Remove(staged); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove staged file: %w", err)
	}
	return nil
}

// place gives a file a second name, or its new name where links are unknown. It
// never overwrites: fs.ErrExist.
func place(from, to string) error {
	err := os.Link(from, to)
	if err == nil || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, serr := os.Lstat(to); serr == nil {
		return fmt.Errorf("%s: %w", to, fs.ErrExist)
	} else if !errors.Is(serr, fs.ErrNotExist) {
		return errors.Join(err, serr)
	}
	if rerr := os.Rename(from, to); rerr != nil {
		if errors.Is(rerr, fs.ErrNotExist) {
			return rerr
		}
		return errors.Join(err, rerr)
	}
	return nil
}

// checksum reads the whole file. Its content was flushed before it was decided
// upon, so nothing is to be flushed here.
func checksum(ctx context.Context, path string) (int64, string, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	h := sha256.New()
	buf := make([]byte, partSize)
	var size int64
	for {
		if err := ctx.Err(); err != nil {
			return 0, "", err
		}
		n, err := f.Read(buf)
		h.Write(buf[:n])
		size += int64(n)
		if err == io.EOF {
			return size, sumPrefix + hex.EncodeToString(h.Sum(nil)), nil
		}
		if err != nil {
			return 0, "", err
		}
	}
}

// Abort implements store.Store.
func (s *Store) Abort(_ context.Context, name string) error {
	path, err := s.stagedPath(name)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove staged file: %w", err)
	}
	return nil
}
