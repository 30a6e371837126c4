package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// machine says what a figure was measured on, as far as the system tells.
func machine() string {
	s := fmt.Sprintf("%d cores, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return s // not Linux
	}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return s + ", " + strings.TrimSpace(value)
		}
	}
	return s
}
