// Package config turns a pipeline file into the settings of a pipeline.
//
// One description per setting, the struct tags on File, on what it holds and on
// the Config struct of each sink, gives everything that concerns it: parsing,
// the default, the checks, the text of each error with the nearest right name,
// the JSON Schema (JSONSchema), the reference page (Reference) and what
// `exactly validate --explain` prints (File.Explain). The tags are:
//
//	yaml:"name"  doc:"One sentence."  default:"100ms"  why:"why this default"
//	required:"true"  enum:"a|b"  min:"1"  max:"10"  pattern:"[a-z]+"
//	example:"…"  unit:"bytes"  secret:"true"  expr:"string|bool|int|bytes|any|list"
//
// A file is read strictly: nothing is ignored. Every error (Error) carries a
// stable code, the place with an excerpt, the cause and the remedy; all errors
// of a file are reported at once (Errors). Expressions are compiled here, so
// that their errors point into the file too.
//
// It holds paths and values of credentials and never reads credential files:
// who connects re-reads them when they change. `${file:…}` is the exception;
// it is part of the file's text and read once. It talks to no network, keeps no
// state and knows no sink: the table of kinds is given by the caller.
package config
