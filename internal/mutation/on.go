//go:build mutations

package mutation

import "os"

// Built reports whether rules can be broken in this binary.
const Built = true

// Var is the environment variable that names the broken rule.
const Var = "EXACTLY_MUTATION"

var broken = Rule(os.Getenv(Var))

// On reports whether a rule is broken.
func On(r Rule) bool { return r == broken }
