package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// process is a running contestant.
type process struct {
	name    string
	cmd     *exec.Cmd
	log     string
	started time.Time
	exited  chan struct{}
	err     error // of Wait, once exited is closed
}

// start runs the job. Its log is kept in the job's folder.
func (r *run) start(j job) (*process, error) {
	if err := os.MkdirAll(j.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of %s: %w", j.name(), err)
	}
	args, err := j.arguments(r.o.Brokers)
	if err != nil {
		return nil, err
	}
	if r.o.Profiles != "" {
		args = append(args, "--cpu-profile", filepath.Join(r.o.Profiles, j.id+"."+strings.NewReplacer(" ", "-", ",", "").Replace(j.name())+".pprof"))
	}
	p := &process{name: j.name(), log: filepath.Join(j.dir, "log"), exited: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", p.name, err)
	}
	defer log.Close()
	p.cmd = exec.Command(r.o.Exe, args...)
	p.cmd.Dir = j.dir
	if j.table != "" {
		p.cmd.Env = append(os.Environ(), dsnVariable+"="+r.tables.dsn)
	}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.started = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// died is the error of a contestant that ended by itself.
func (p *process) died() error {
	return fmt.Errorf("%s ended: %w%s", p.name, errors.Join(p.err, errEnded), p.tail())
}

var errEnded = errors.New("a contestant runs until it is stopped")

// peak is the most memory that was resident, in bytes (VmHWM); 0: this system
// does not tell.
func (p *process) peak() int64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmHWM:" {
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// cpu is what the whole process used, once it has ended.
func (p *process) cpu() time.Duration {
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// stopWithin bounds a graceful stop.
const stopWithin = 30 * time.Second

// stop ends it gracefully, or hard where that takes too long.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil { // Windows has no such signal
		return p.kill()
	}
	t := time.NewTimer(stopWithin)
	defer t.Stop()
	select {
	case <-p.exited:
	case <-t.C:
		return errors.Join(p.kill(), fmt.Errorf("%s did not stop within %s%s", p.name, stopWithin, p.tail()))
	}
	if p.err != nil {
		return fmt.Errorf("%s stopped with %w%s", p.name, p.err, p.tail())
	}
	return nil
}

// kill sends SIGKILL and waits until the process is gone.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.exited
	return nil
}

// tail gives the end of the log, for people.
func (p *process) tail() string {
	b, err := os.ReadFile(p.log)
	if err != nil || len(b) == 0 {
		return ""
	}
	lines := bytes.Split(bytes.TrimSpace(b[max(0, len(b)-4<<10):]), []byte("\n"))
	lines = lines[max(0, len(lines)-15):]
	return fmt.Sprintf("\n  end of %s:\n    %s", p.log, bytes.Join(lines, []byte("\n    ")))
}
