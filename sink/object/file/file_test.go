package file_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"exactly/sink/object/file"
	"exactly/sink/object/store"
)

func open(t testing.TB) (*file.Store, string) {
	t.Helper()
	root := filepath.Join(t.TempDir(), "lake")
	s, err := file.Open("file://" + filepath.ToSlash(root))
	if err != nil {
		t.Fatal(err)
	}
	return s, root
}

func staged(t testing.TB, s *file.Store, name, final, content string) store.Staged {
	t.Helper()
	u, err := s.Create(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{content[:len(content)/2], content[len(content)/2:]} {
		if err := u.Put(t.Context(), []byte(p)); err != nil {
			t.Fatal(err)
		}
	}
	var st store.Staged
	for range 2 { // Finish may be repeated
		if st, err = u.Finish(t.Context(), final); err != nil {
			t.Fatal(err)
		}
	}
	return st
}

func objects(t testing.TB, s *file.Store) string {
	t.Helper()
	var out []string
	for o, err := range s.Objects(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(s.Locate(o.Path))
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(b)) != o.Size {
			t.Errorf("%s: size %d, want %d", o.Path, o.Size, len(b))
		}
		out = append(out, o.Path+"="+string(b))
	}
	return strings.Join(out, " ")
}

func uploads(t testing.TB, s *file.Store) string {
	t.Helper()
	var out []string
	for name, err := range s.Uploads(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, name)
	}
	return strings.Join(out, " ")
}

func TestComplete(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	if got := objects(t, s) + uploads(t, s); got != "" {
		t.Errorf("a root that does not exist holds %q", got)
	}
	st := staged(t, s, "u1", "a/b/x.jsonl", "hello")
	if got := objects(t, s); got != "" {
		t.Errorf("before Complete a reader sees %q", got)
	}
	for range 3 {
		if err := s.Complete(t.Context(), st); err != nil {
			t.Fatal(err)
		}
		if got, want := objects(t, s), "a/b/x.jsonl=hello"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := uploads(t, s); got != "" {
			t.Errorf("staged files %q remain", got)
		}
	}
}

// TestCompleteInterrupted is a crash between the final name and the removal of
// the staged one.
func TestCompleteInterrupted(t *testing.T) {
	t.Parallel()
	s, root := open(t)
	st := staged(t, s, "u1", "x.jsonl", "hello")
	if err := os.Link(filepath.Join(root, "_exactly", "staging", "u1"), filepath.Join(root, "x.jsonl")); err != nil {
		t.Fatal(err)
	}
	if err := s.Complete(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	if got, want := objects(t, s)+"|"+uploads(t, s), "x.jsonl=hello|"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCompleteErrors(t *testing.T) {
	t.Parallel()
	s, root := open(t)
	lost := staged(t, s, "lost", "lost.jsonl", "hello")
	if err := errors.Join(s.Abort(t.Context(), "lost"), s.Abort(t.Context(), "lost")); err != nil {
		t.Fatal(err)
	}
	if err := s.Complete(t.Context(), lost); !errors.Is(err, store.ErrLost) {
		t.Errorf("an upload that is gone: got %v, want ErrLost", err)
	}
	short := staged(t, s, "short", "short.jsonl", "hello")
	if err := os.Truncate(filepath.Join(root, "_exactly", "staging", "short"), 2); err != nil {
		t.Fatal(err)
	}
	if err := s.Complete(t.Context(), short); !errors.Is(err, store.ErrLost) {
		t.Errorf("an upload that was cut: got %v, want ErrLost", err)
	}
	taken := staged(t, s, "taken", "taken.jsonl", "hello")
	for _, content := range []string{"other", "longer than that"} {
		if err := os.WriteFile(filepath.Join(root, "taken.jsonl"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		err := s.Complete(t.Context(), taken)
		if !errors.Is(err, store.ErrConflict) {
			t.Errorf("a name that is taken: got %v, want ErrConflict", err)
		}
		for _, part := range []string{"taken.jsonl", filepath.Join("staging", "taken")} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("the error does not name %s: %v", part, err)
			}
		}
	}
	if got, want := objects(t, s), "taken.jsonl=longer than that"; got != want {
		t.Errorf("got %q, want %q: nothing may be overwritten", got, want)
	}
	if err := s.Abort(t.Context(), "taken"); err != nil {
		t.Fatal(err)
	}
	if err := s.Complete(t.Context(), taken); !errors.Is(err, store.ErrConflict) {
		t.Errorf("gone, and the name is taken by another: got %v, want ErrConflict", err)
	}
}

func TestCompleteRace(t *testing.T) {
	t.Parallel()
	s, root := open(t)
	for round := range 100 {
		name := fmt.Sprintf("u%03d", round)
		st := staged(t, s, name, name+".jsonl", name)
		var wg sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			wg.Go(func() {
				other, err := file.Open("file://" + filepath.ToSlash(root))
				if err == nil {
					err = other.Complete(t.Context(), st)
				}
				errs[i] = err
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	if got := len(strings.Fields(objects(t, s))); got != 100 {
		t.Errorf("%d objects, want 100", got)
	}
}

func TestPutAfterError(t *testing.T) {
	t.Parallel()
	s, root := open(t)
	u, err := s.Create(t.Context(), "u")
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Put(t.Context(), []byte("ab")); err != nil {
		t.Fatal(err)
	}
	// What a failed write may leave behind the end.
	f, err := os.OpenFile(filepath.Join(root, "_exactly", "staging", "u"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("XXXXXX"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Close(), u.Put(t.Context(), []byte("cd"))); err != nil {
		t.Fatal(err)
	}
	st, err := u.Finish(t.Context(), "x.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Complete(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	if got, want := objects(t, s), "x.jsonl=abcd"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := u.Put(t.Context(), []byte("e")); err == nil {
		t.Errorf("Put behind Finish succeeds")
	}
}

func TestCreate(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	u, err := s.Create(t.Context(), "u")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(t.Context(), "u"); !errors.Is(err, store.ErrExists) {
		t.Errorf("a name twice: got %v, want ErrExists", err)
	}
	if err := errors.Join(u.Close(), u.Close()); err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := u.Finish(t.Context(), "x"); !errors.Is(err, store.ErrBroken) {
		t.Errorf("Finish of a closed upload: got %v, want ErrBroken", err)
	}
	for _, name := range []string{"", ".", "..", "a/b", `a\b`, ".hidden", "../x"} {
		if _, err := s.Create(t.Context(), name); err == nil {
			t.Errorf("Create(%q) succeeds", name)
		}
		if err := s.Abort(t.Context(), name); err == nil {
			t.Errorf("Abort(%q) succeeds", name)
		}
	}
	u, err = s.Create(t.Context(), "v")
	if err != nil {
		t.Fatal(err)
	}
	for _, final := range []string{"", "..", "../x", "/x", "a/../../x", "_exactly/x", "_exactly"} {
		if _, err := u.Finish(t.Context(), final); err == nil {
			t.Errorf("Finish(%q) succeeds", final)
		}
		if err := s.Complete(t.Context(), store.Staged{Name: "v", Final: final}); err == nil {
			t.Errorf("Complete(%q) succeeds", final)
		}
		if _, err := s.Open(t.Context(), final); err == nil {
			t.Errorf("Open(%q) succeeds", final)
		}
	}
}

func TestObjectsLeavesOutHidden(t *testing.T) {
	t.Parallel()
	s, root := open(t)
	for _, p := range []string{"a.jsonl", "d=1/b.jsonl", "_SUCCESS", ".x", "_tmp/c.jsonl", ".git/d.jsonl", "d=1/_e/f"} {
		path := filepath.Join(root, filepath.FromSlash(p))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := objects(t, s), "a.jsonl= d=1/b.jsonl="; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMark(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	var wg sync.WaitGroup
	got := make([]string, 8)
	for i := range got {
		wg.Go(func() { got[i], _ = s.Mark(t.Context(), "m", fmt.Sprint("v", i)) })
	}
	wg.Wait()
	for i := range got {
		if got[i] == "" || got[i] != got[0] {
			t.Errorf("marks differ: %q", got)
		}
	}
	if v, err := s.Mark(t.Context(), "n", "w"); v != "w" || err != nil {
		t.Errorf("another mark: got %q, %v", v, err)
	}
	if _, err := s.Mark(t.Context(), "../x", "w"); err == nil {
		t.Errorf("a mark outside of its folder succeeds")
	}
	if got := objects(t, s); got != "" {
		t.Errorf("marks are objects: %q", got)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	s, root := open(t)
	for range 2 {
		if err := s.Check(t.Context()); err != nil {
			t.Errorf("Check: %v", err)
		}
	}
	if got := uploads(t, s); got != "" {
		t.Errorf("Check leaves %q", got)
	}
	bad, err := file.Open("file://" + filepath.ToSlash(filepath.Join(root, "f", "sub")))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "f"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := bad.Check(t.Context()); err == nil {
		t.Errorf("Check of a folder below a file succeeds")
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ url, want string }{
		{"file:///data/lake", filepath.FromSlash("/data/lake")},
		{"file:///data/a%20b%25/", filepath.FromSlash("/data/a b%")},
		{"file://lake/x", filepath.Join(wd, "lake", "x")},
		{"file://./lake", filepath.Join(wd, "lake")},
		{"file://../lake", filepath.Join(filepath.Dir(wd), "lake")},
	}
	for _, tt := range tests {
		if got, err := file.Parse(tt.url); got != tt.want || err != nil {
			t.Errorf("Parse(%q) = %q, %v, want %q", tt.url, got, err, tt.want)
		}
	}
	for _, url := range []string{"", "/x", "file:/x", "file://", "s3://x", "file:///a%zz", "file:///a%00"} {
		if got, err := file.Parse(url); err == nil {
			t.Errorf("Parse(%q) = %q, want an error", url, got)
		}
	}
}
