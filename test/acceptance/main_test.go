//go:build services

package acceptance

import (
	"fmt"
	"os"
	"testing"

	"exactly/internal/services"
)

func TestMain(m *testing.M) {
	// The brokers get the same share of the processors as the workers: times are
	// part of what is tested. (The scripts of test/services are nice otherwise.)
	if err := os.Setenv("NICE", ""); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(services.Main(m))
}

// The clusters that tests share. Those of one test only are its own, and end
// with it.
var (
	one   = services.Options{Nodes: 1}
	three = services.Options{Nodes: 3}
)
