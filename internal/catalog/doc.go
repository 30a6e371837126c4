// Package catalog is the one place that knows every sink: a table of kinds by
// their name in the pipeline file, and how each is made from its settings. It
// turns a pipeline file into a runnable pipeline. There is no registration by
// init: a kind that is not in this table does not exist.
package catalog
