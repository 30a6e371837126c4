package file

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"

	"exactly/sink/object/store"
)

const sumPrefix = "sha256:"

type upload struct {
	s      *Store
	name   string
	f      *os.File // nil once finished or closed
	size   int64
	sum    hash.Hash
	synced bool
	broken error // set by a failed flush, for ever
}

// Create implements store.Store.
func (s *Store) Create(_ context.Context, name string) (store.Upload, error) {
	path, err := s.stagedPath(name)
	if err != nil {
		return nil, err
	}
	if err := mkdirs(s.staging()); err != nil {
		return nil, fmt.Errorf("make the staging folder: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, fmt.Errorf("%s: %w", path, store.ErrExists)
	case err != nil:
		return nil, fmt.Errorf("create staged file: %w", err)
	}
	return &upload{s: s, name: name, f: f, sum: sha256.New()}, nil
}

func (u *upload) Name() string { return u.name }

func (u *upload) PartSize() int { return partSize }

// Put writes at the known end, so that what a failed Put left is overwritten.
func (u *upload) Put(_ context.Context, p []byte) error {
	if u.f == nil {
		return fmt.Errorf("write staged file %s: it is finished", u.name)
	}
	if _, err := u.f.WriteAt(p, u.size); err != nil {
		return fmt.Errorf("write staged file: %w", err)
	}
	u.size += int64(len(p))
	u.sum.Write(p)
	return nil
}

func (u *upload) Finish(_ context.Context, final string) (store.Staged, error) {
	if _, err := u.s.finalPath(final); err != nil {
		return store.Staged{}, err
	}
	if err := u.flush(); err != nil {
		return store.Staged{}, fmt.Errorf("finish staged file %s: %w", u.name, err)
	}
	return store.Staged{
		Name: u.name, Final: final, Size: u.size,
		Sum: sumPrefix + hex.EncodeToString(u.sum.Sum(nil)),
	}, nil
}

func (u *upload) flush() error {
	switch {
	case u.synced:
		return nil
	case u.broken != nil:
		return u.broken
	case u.f == nil:
		return fmt.Errorf("it was closed: %w", store.ErrBroken)
	}
	if err := u.f.Truncate(u.size); err != nil { // a failed Put may have left more
		return err
	}
	if err := errors.Join(u.f.Sync(), u.Close()); err != nil {
		// A second fsync would report success: the kernel forgets the pages
		// that it could not write.
		u.broken = fmt.Errorf("%w: %w", store.ErrBroken, err)
		return u.broken
	}
	if err := syncDir(u.s.staging()); err != nil {
		u.broken = fmt.Errorf("%w: %w", store.ErrBroken, err)
		return u.broken
	}
	u.synced = true
	return nil
}

func (u *upload) Close() error {
	if u.f == nil {
		return nil
	}
	err := u.f.Close()
	u.f = nil
	return err
}
