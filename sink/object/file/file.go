package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"exactly/sink/object/store"
)

const (
	hidden   = "_exactly" // below the root: all that is not an object
	stageDir = "staging"
	markDir  = "marks"

	partSize = 256 << 10
	dirMode  = 0o755
	fileMode = 0o644
)

// Store is a folder. Make it with Open.
type Store struct {
	root string // absolute
}

var _ store.Store = (*Store)(nil)

// Parse gives the folder that a file:// url names, absolute: relative ones are
// taken from the working directory.
func Parse(rawURL string) (string, error) {
	rest, ok := strings.CutPrefix(rawURL, "file://")
	if !ok {
		return "", fmt.Errorf("url %q: want file:///absolute/path or file://relative/path", rawURL)
	}
	path, err := url.PathUnescape(rest)
	if err != nil {
		return "", fmt.Errorf("url %q: %w; write a per cent sign as %%25", rawURL, err)
	}
	if path == "" || strings.ContainsRune(path, 0) {
		return "", fmt.Errorf("url %q names no folder", rawURL)
	}
	if runtime.GOOS == "windows" && len(path) > 2 && path[0] == '/' && path[2] == ':' {
		path = path[1:] // file:///C:/lake
	}
	abs, err := filepath.Abs(filepath.FromSlash(path))
	if err != nil {
		return "", fmt.Errorf("url %q: %w", rawURL, err)
	}
	return abs, nil
}

// Open gives the store of a file:// url. It touches nothing yet.
func Open(rawURL string) (*Store, error) {
	root, err := Parse(rawURL)
	if err != nil {
		return nil, err
	}
	return &Store{root: root}, nil
}

// Locate is the path in the file system.
func (s *Store) Locate(path string) string { return filepath.Join(s.root, filepath.FromSlash(path)) }

func (s *Store) staging() string { return filepath.Join(s.root, hidden, stageDir) }

func (s *Store) stagedPath(name string) (string, error) {
	if name == "" || strings.HasPrefix(name, ".") || strings.ContainsAny(name, `/\`) || !filepath.IsLocal(name) {
		return "", fmt.Errorf("staged name %q is not the name of a file", name)
	}
	return filepath.Join(s.staging(), name), nil
}

func (s *Store) finalPath(path string) (string, error) {
	local := filepath.FromSlash(path)
	if path == "" || !filepath.IsLocal(local) || path == hidden || strings.HasPrefix(path, hidden+"/") {
		return "", fmt.Errorf("object path %q is not a path below the root", path)
	}
	return filepath.Join(s.root, local), nil
}

// Check makes the folders that are missing, and writes, links and removes a
// file.
func (s *Store) Check(context.Context) (err error) {
	if err := mkdirs(s.staging()); err != nil {
		return fmt.Errorf("make the staging folder: %w; let the worker's user write below %s", err, s.root)
	}
	f, err := os.CreateTemp(s.staging(), "check-*.tmp")
	if err != nil {
		return fmt.Errorf("write a file: %w; let the worker's user write below %s", err, s.root)
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	if _, err = f.WriteString("check"); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w; is the disk full or read-only?", f.Name(), err)
	}
	return nil
}

// Mark implements store.Store with a small file that is written once.
func (s *Store) Mark(_ context.Context, name, value string) (string, error) {
	dir := filepath.Join(s.root, hidden, markDir)
	path := filepath.Join(dir, name)
	if name == "" || strings.ContainsAny(name, `/\`) || !filepath.IsLocal(name) {
		return "", fmt.Errorf("mark %q is not the name of a file", name)
	}
	if b, err := os.ReadFile(path); err == nil {
		return strings.TrimSpace(string(b)), nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read mark: %w", err)
	}
	if err := mkdirs(dir); err != nil {
		return "", fmt.Errorf("write mark: %w", err)
	}
	if err := writeOnce(dir, path, value+"\n"); err != nil {
		return "", fmt.Errorf("write mark %s: %w", path, err)
	}
	b, err := os.ReadFile(path) // what a faster one wrote, if it was not us
	if err != nil {
		return "", fmt.Errorf("read mark: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

func writeOnce(dir, path, text string) (err error) {
	f, err := os.CreateTemp(dir, ".mark-*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if rerr := os.Remove(f.Name()); !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}()
	if _, err = f.WriteString(text); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = place(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(dir)
}

// mkdirs is os.MkdirAll that flushes the parents of what it made.
func mkdirs(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := mkdirs(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, dirMode); err != nil {
		if errors.Is(err, fs.ErrExist) {
			if st, serr := os.Stat(dir); serr == nil && st.IsDir() {
				return syncDir(parent) // another one made it just now
			}
		}
		return err
	}
	return syncDir(parent)
}
