package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// edit is one replacement in a file of GOROOT/src. The text must occur exactly
// once, so that another Go release cannot go unnoticed.
type edit struct {
	file, old, new string
}

// edits of package runtime. simrand is a splitmix64 (Steele, Lea, Flood 2014).
func edits() []edit {
	return []edit{
		{"runtime/rand.go", "//go:linkname maps_rand internal/runtime/maps.rand\nfunc maps_rand() uint64 {\n\treturn rand()\n}", `//go:linkname maps_rand internal/runtime/maps.rand
func maps_rand() uint64 {
	return simrand()
}

var simstate uint64

//go:nosplit
func simrand() uint64 {
	if getg().bubble == nil {
		return 0x9e3779b97f4a7c15
	}
	simstate += 0x9e3779b97f4a7c15
	z := simstate
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}`},
		{"runtime/rand.go", "func rand() uint64 {\n", "func rand() uint64 {\n\tif getg().bubble != nil {\n\t\treturn simrand()\n\t}\n"},
		{"runtime/rand.go", "\tglobalRand.state.Init(*seed)\n", "\tfor i := range seed {\n\t\tseed[i] = byte(i + 1)\n\t}\n\tglobalRand.state.Init(*seed)\n"},
		{"runtime/select.go", "j := cheaprandn(uint32(norder + 1))", "j := uint32(simrand() % uint64(norder+1))"},
		{"runtime/time.go", "t.rand = cheaprand()", "t.rand = uint32(simrand())"},
		// The program's only processor is never taken from a goroutine: not after its
		// slice, and not in a slow system call, for which a thread would be made, whose
		// memory would shift the addresses of everything later, and so the order of maps
		// whose keys are pointers.
		{"runtime/proc.go", "func retake(now int64) uint32 {\n", "func retake(now int64) uint32 {\n\tif debug.asyncpreemptoff != 0 {\n\t\treturn 0\n\t}\n"},
		// For the same reason no thread is made while another one is on its way to the
		// list of idle ones, as happens while packages are initialised: one thread runs
		// the goroutine of main then, a second one all others, and sysmon is the third.
		// The bound is for a thread that does not come.
		{"runtime/proc.go", "\tnmp := mget()\n\tif nmp == nil {\n\t\t// No M is available", `	nmp := mget()
	for i := 0; nmp == nil && debug.asyncpreemptoff != 0 && !iscgo && mcount() > 2 && i < 1<<20; i++ {
		unlock(&sched.lock)
		osyield()
		lock(&sched.lock)
		nmp = mget()
	}
	if nmp == nil {
		// No M is available`},
		{"runtime/sema.go", "func internal_sync_nanotime() int64 {\n\treturn nanotime()\n}", "func internal_sync_nanotime() int64 {\n\tif getg().bubble != nil {\n\t\treturn 1\n\t}\n\treturn nanotime()\n}"},
	}
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: overlay DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "overlay:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("ask for GOROOT: %w", err)
	}
	src := filepath.Join(strings.TrimSpace(string(out)), "src")
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	replace := map[string]string{}
	texts := map[string]string{}
	for _, e := range edits() {
		path := filepath.Join(src, e.file)
		if _, ok := texts[path]; !ok {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			texts[path] = string(b)
		}
		if n := strings.Count(texts[path], e.old); n != 1 {
			return fmt.Errorf("%s holds %q %d times, want once: this Go release differs from the one in go.mod; adapt test/sim/overlay", path, e.old, n)
		}
		texts[path] = strings.Replace(texts[path], e.old, e.new, 1)
	}
	for path, text := range texts {
		to := filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
			return err
		}
		replace[path] = to
	}
	b, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "overlay.json"), b, 0o644)
}
