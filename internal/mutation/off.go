//go:build !mutations

package mutation

// Built reports whether rules can be broken in this binary.
const Built = false

// On reports whether a rule is broken.
func On(Rule) bool { return false }
