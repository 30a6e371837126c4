// Package lint holds tests about the code itself: which package may import
// which, what every file must have and must not have, and which licences the
// modules that are linked come under. A finding names the file, the line and
// the rule; an exception stands in a table here, with its reason.
//
// Every rule has samples that it must find and samples that it must leave
// alone, so that a rule which no longer works is noticed.
package lint
