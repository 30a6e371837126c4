//go:build !windows

package file

import (
	"errors"
	"fmt"
	"os"
)

// syncDir makes names in dir durable (fsync(2): flushing a file does not flush
// the entry in its folder).
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("flush folder: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("flush folder %s: %w", dir, err)
	}
	return nil
}
