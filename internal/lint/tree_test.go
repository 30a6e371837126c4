package lint

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// file is a text file of the repository.
type file struct {
	path string // from the root, with slashes
	text string
	fset *token.FileSet
	ast  *ast.File // nil unless it is Go
}

// pkg is the import path of the package that a Go file belongs to.
func (f *file) pkg() string { return path.Join("exactly", path.Dir(f.path)) }

func (f *file) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

// at is the place of a node, for a finding.
func (f *file) at(p token.Pos) string {
	return fmt.Sprintf("%s:%d", f.path, f.fset.Position(p).Line)
}

func parse(name, text string) (*file, error) {
	f := &file{path: name, text: text, fset: token.NewFileSet()}
	if path.Ext(name) != ".go" {
		return f, nil
	}
	var err error
	f.ast, err = parser.ParseFile(f.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	return f, nil
}

var root = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
})

// tree returns every text file that is in the repository or about to be.
func tree(t *testing.T) []*file {
	t.Helper()
	files, err := theTree()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var theTree = sync.OnceValues(func() ([]*file, error) {
	dir, err := root()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the files of the repository: %w", err)
	}
	var files []*file
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) { // removed, not yet committed
			continue
		}
		if err != nil {
			return nil, err
		}
		if strings.Contains(string(b[:min(len(b), 8000)]), "\x00") { // binary
			continue
		}
		f, err := parse(name, string(b))
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
})
