//go:build unix

package services

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const testTimeout = 20 * time.Second

func shell(t *testing.T, text string) *Proc {
	t.Helper()
	return Start(t, Command{Name: "shell", Path: "sh", Args: []string{"-c", text}, Env: []string{"WORD=hello"}})
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

func TestProcExitCodes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		act        func(*Proc) error
		want       int
	}{
		{"right", "exit 0", nil, 0},
		{"own code", "exit 4", nil, 4},
		{"killed", "exec sleep 60", (*Proc).Kill, -1},
		{"asked to stop", "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done", (*Proc).Terminate, 7},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := shell(t, tt.text)
			ctx := deadline(t)
			if strings.Contains(tt.text, "ready") {
				if _, err := p.WaitLog(ctx, 0, "ready"); err != nil {
					t.Fatal(err)
				}
			}
			if tt.act != nil {
				if err := tt.act(p); err != nil {
					t.Fatal(err)
				}
			}
			got, err := p.Wait(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("exit code: got %d, want %d", got, tt.want)
			}
			if p.Alive() {
				t.Error("Alive after Wait: got true")
			}
			if err := p.Kill(); err != nil {
				t.Errorf("Kill of an ended process: %v", err)
			}
		})
	}
}

func TestProcFreezeAndThaw(t *testing.T) {
	t.Parallel()
	p := shell(t, "i=0; while :; do i=$((i+1)); echo beat $i; sleep 0.01; done")
	ctx := deadline(t)
	if _, err := p.WaitLog(ctx, 0, "beat 3\n"); err != nil {
		t.Fatal(err)
	}
	if err := p.Freeze(ctx); err != nil {
		t.Fatal(err)
	}
	before, err := p.Log()
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if _, err := p.WaitLog(short, len(before), "beat"); err == nil {
		t.Error("a frozen process went on writing")
	}
	if !p.Alive() || !p.Frozen() {
		t.Errorf("a frozen process: Alive %t, Frozen %t", p.Alive(), p.Frozen())
	}
	if err := p.Thaw(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.WaitLog(ctx, len(before), "beat"); err != nil {
		t.Error(err)
	}
}

func TestWaitLogTellsOfTheEnd(t *testing.T) {
	t.Parallel()
	p := shell(t, "echo $WORD; echo last words; exit 3")
	ctx := deadline(t)
	end, err := p.WaitLog(ctx, 0, "hello")
	if err != nil {
		t.Fatal(err)
	}
	if end != len("hello") {
		t.Errorf("end of the match: got %d, want %d", end, len("hello"))
	}
	_, err = p.WaitLog(ctx, end, "hello")
	if err == nil {
		t.Fatal("the second hello: got one, want an error")
	}
	for _, want := range []string{"exit status 3", "last words"} {
		if got := err.Error(); !strings.Contains(got, want) {
			t.Errorf("error %q does not say %q", got, want)
		}
	}
}

func TestStartOfMissingProgram(t *testing.T) {
	t.Parallel()
	_, err := startProc(Command{Name: "nothing", Path: filepath.Join(t.TempDir(), "no"), Log: filepath.Join(t.TempDir(), "log")})
	if err == nil {
		t.Fatal("start of a missing program: got no error")
	}
}

func TestPeakRSS(t *testing.T) {
	t.Parallel()
	p := shell(t, "echo up; kill -STOP $$") // an exec in its place would begin with a page
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := p.WaitLog(ctx, 0, "up"); err != nil { // before, it is not the shell yet
		t.Fatal(err)
	}
	got, err := p.PeakRSS()
	if err != nil {
		t.Fatal(err)
	}
	if got < 100<<10 || got > 1<<30 {
		t.Errorf("peak memory of the shell: got %d bytes, want between 100 KiB and 1 GiB", got)
	}
}

// TestChildDiesWithParent starts this test binary as a parent that starts a
// child and is then killed.
func TestChildDiesWithParent(t *testing.T) {
	t.Parallel()
	const asParent = "EXACTLY_SERVICES_TEST_PARENT"
	if dir := os.Getenv(asParent); dir != "" {
		p, err := startProc(Command{Name: "child", Path: "sleep", Args: []string{"60"}, Log: filepath.Join(dir, "child")})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "pid.new"), fmt.Append(nil, p.PID()), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "pid.new"), filepath.Join(dir, "pid")); err != nil {
			t.Fatal(err)
		}
		<-p.Done()
		t.Fatal("the child ended before its parent was killed")
	}
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := Start(t, Command{
		Name: "parent", Path: self,
		Args: []string{"-test.run=^TestChildDiesWithParent$"}, Env: []string{asParent + "=" + dir},
	})
	ctx := deadline(t)
	var pid int
	err = poll(ctx, parent.gone, func(context.Context) error {
		b, err := os.ReadFile(filepath.Join(dir, "pid"))
		if err != nil {
			return err
		}
		_, err = fmt.Sscan(string(b), &pid)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Kill(); err != nil {
		t.Fatal(err)
	}
	err = poll(ctx, nil, func(context.Context) error {
		// An orphan may stay a zombie until it is reaped.
		out, _ := exec.Command("ps", "-o", "state=", "-p", fmt.Sprint(pid)).Output()
		if s := strings.TrimSpace(string(out)); s == "" || strings.HasPrefix(s, "Z") {
			return nil
		}
		return fmt.Errorf("child %d lives", pid)
	})
	if err != nil {
		t.Error(err)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
}
