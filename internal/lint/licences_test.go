package lint

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// marks are sentences that only one licence has, in the order in which they
// are looked for. docs/adr/0001-dependencies.md says why these are allowed.
func marks() []struct {
	licence, text string
	allowed       bool
} {
	return []struct {
		licence, text string
		allowed       bool
	}{
		{"AGPL", "GNU AFFERO GENERAL PUBLIC LICENSE", false},
		{"LGPL", "GNU LESSER GENERAL PUBLIC LICENSE", false},
		{"GPL", "GNU GENERAL PUBLIC LICENSE", false},
		{"SSPL", "Server Side Public License", false},
		{"BSL", "Business Source License", false},
		{"Elastic", "Elastic License", false},
		{"Commons Clause", "Commons Clause", false},
		{"Apache-2.0", "Apache License Version 2.0", true},
		{"MPL-2.0", "Mozilla Public License", true},
		{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy", true},
		{"ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose", true},
		{"ISC", "Permission to use, copy, modify, and distribute this software for any purpose", true},
		{"Unlicense", "This is free and unencumbered software released into the public domain", true},
		{"BSD", "Redistribution and use in source and binary forms", true},
	}
}

// licence names the licence of a text, "" if it is none of the known ones. The
// GNU licences come first: MPL-2.0 names them, but not in capitals.
func licence(text string) (name string, allowed bool) {
	text = strings.Join(strings.Fields(text), " ")
	for _, m := range marks() {
		if strings.Contains(text, m.text) {
			return m.licence, m.allowed
		}
	}
	return "", false
}

// TestLicences reads the licence of every module of which code is linked.
func TestLicences(t *testing.T) {
	t.Parallel()
	dir, err := root()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}\t{{.Dir}}{{end}}", "./...")
	cmd.Dir = dir
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list the linked modules: %v\n%s", err, &errs)
	}
	modules := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		if path, at, ok := strings.Cut(lines.Text(), "\t"); ok {
			modules[path] = at
		}
	}
	if len(modules) < 5 {
		t.Errorf("linked modules: got %d, want more", len(modules))
	}
	for path, at := range modules {
		if problem := licenceProblem(at); problem != "" {
			t.Errorf("%s: %s", path, problem)
		}
	}
}

// licenceProblem looks at the licence files of a module.
func licenceProblem(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err.Error()
	}
	var names []string
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		if !e.IsDir() && (strings.HasPrefix(name, "LICENSE") || strings.HasPrefix(name, "LICENCE") || strings.HasPrefix(name, "UNLICENSE") || strings.HasPrefix(name, "COPYING")) {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return "no licence file"
	}
	slices.Sort(names)
	known := false
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err.Error()
		}
		got, ok := licence(string(b))
		if got != "" && !ok {
			return name + " is " + got + ", which is not allowed"
		}
		known = known || ok
	}
	if !known {
		return "none of the allowed licences in " + strings.Join(names, ", ")
	}
	return ""
}

func TestLicenceOnSamples(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text, want string
		allowed    bool
	}{
		{"Apache License\n   Version 2.0, January 2004", "Apache-2.0", true},
		{"Permission is hereby granted, free of charge, to any\nperson obtaining a copy of", "MIT", true},
		{"GNU AFFERO GENERAL PUBLIC LICENSE\nVersion 3", "AGPL", false},
		{"Business Source License 1.1", "BSL", false},
		{"Server Side Public License\nVERSION 1", "SSPL", false},
		{"all rights reserved", "", false},
	}
	for _, tt := range tests {
		if got, ok := licence(tt.text); got != tt.want || ok != tt.allowed {
			t.Errorf("licence(%q): got %q, %t; want %q, %t", tt.text, got, ok, tt.want, tt.allowed)
		}
	}
	if licenceProblem(t.TempDir()) == "" {
		t.Error("a module without a licence file: got no problem")
	}
}
