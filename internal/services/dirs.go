package services

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Dir is where programs are installed and the logs of failed runs are kept:
// EXACTLY_SERVICES_DIR, or exactly-services in the user's cache folder. The
// scripts in test/services use the same rule.
func Dir() (string, error) {
	if d := os.Getenv("EXACTLY_SERVICES_DIR"); d != "" {
		return d, nil
	}
	if d := os.Getenv("XDG_CACHE_HOME"); d != "" {
		return filepath.Join(d, "exactly-services"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the folder for services: %w (set EXACTLY_SERVICES_DIR)", err)
	}
	return filepath.Join(home, ".cache", "exactly-services"), nil
}

// Root is the folder of the repository: the nearest one above the working
// directory with a go.mod. Tests run in the folder of their package.
func Root() (string, error) {
	d, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for {
		_, err := os.Stat(filepath.Join(d, "go.mod"))
		if err == nil {
			return d, nil
		}
		up := filepath.Dir(d)
		if !errors.Is(err, os.ErrNotExist) || up == d {
			return "", fmt.Errorf("find the repository: no go.mod above the working directory: %w", err)
		}
		d = up
	}
}

// script is the path of one script of test/services.
func script(name string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	return filepath.Join(root, "test", "services", name), nil
}
