package config

import _ "embed"

//go:embed template.yaml
var template string

// Template gives the commented pipeline file that `exactly init` writes. It is
// valid as it stands, without any variable set.
func Template() string { return template }
