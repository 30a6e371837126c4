// Package cli is the command line of exactly: one file per command, each with a
// constructor that is listed in commands (root.go). It parses flags, calls the
// package that holds a command's logic, and prints.
//
// Results go to standard output, logs and errors to standard error. The exit
// code is 0 when all is right, 1 for a failure at run time, 2 for wrong usage
// or configuration, 3 where the environment is not as it must be (no broker,
// missing topics or rights), and 4 where a check or audit found something.
//
//go:generate go test -run TestReference -update .
package cli
