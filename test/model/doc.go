// Package model checks the models of the protocol in docs/ with Spin: each
// holds as it stands, each of its switches makes it fail, and it visits the same
// states as the relation in internal/model. docs/model.md has the sizes.
package model
