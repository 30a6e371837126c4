//go:build services

package acceptance

import (
	"os"
	"testing"

	"exactly/internal/services"
)

func TestMain(m *testing.M) { os.Exit(services.MainTimed(m)) }

// The clusters that tests share. Those of one test only are its own, and end
// with it.
var (
	one   = services.Options{Nodes: 1}
	three = services.Options{Nodes: 3}
)
