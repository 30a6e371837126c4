package config_test

import (
	"time"

	"exactly/internal/config"
)

// The kinds of the tests: like the real ones, but none of them, so that the
// texts of errors here do not change with every sink.
type kafkaSink struct {
	Topic   string            `yaml:"topic" required:"true" example:"payments.enriched" doc:"Topic."`
	Key     string            `yaml:"key" expr:"any" example:"payment_id" doc:"Key of the message."`
	Headers map[string]string `yaml:"headers" expr:"any" doc:"Headers to set."`
}

type sqliteSink struct {
	Path string   `yaml:"path" required:"true" example:"./payments.db" doc:"Database file."`
	Mode string   `yaml:"mode" default:"upsert" enum:"upsert|append" why:"a repeated key is one row" doc:"How rows are written."`
	Key  []string `yaml:"key" example:"[payment_id]" doc:"Columns of the key."`
}

type objectSink struct {
	URL  string   `yaml:"url" required:"true" example:"file:///data" doc:"Where."`
	Roll rollSink `yaml:"roll" doc:"When a file is finished."`
}

type rollSink struct {
	Size int64         `yaml:"size" default:"128MB" unit:"bytes" min:"1" doc:"By size."`
	Age  time.Duration `yaml:"age" default:"5m" min:"1ms" doc:"By age."`
}

type httpSink struct {
	URL            string            `yaml:"url" required:"true" doc:"Address."`
	IdempotencyKey string            `yaml:"idempotency_key" expr:"string" doc:"Key of the call."`
	Headers        map[string]string `yaml:"headers" secret:"true" doc:"Headers."`
	Retries        []float64Retry    `yaml:"retries" doc:"Tries."`
	Auth           *httpAuth         `yaml:"auth" doc:"Credentials."`
}

type float64Retry struct {
	Factor float64 `yaml:"factor" default:"1.5" min:"1" max:"10" doc:"Factor."`
	Every  bool    `yaml:"every" default:"false" doc:"Each time."`
}

type httpAuth struct {
	Token     string `yaml:"token" secret:"true" doc:"Token."`
	TokenFile string `yaml:"token_file" doc:"File with it."`
}

// Validate is found by the package.
func (h *httpSink) Validate() error {
	if h.Auth != nil && h.Auth.Token == "" && h.Auth.TokenFile == "" {
		return settingError("auth: is empty: give token or token_file")
	}
	return nil
}

type settingError string

func (e settingError) Error() string { return string(e) }

func kinds() config.Kinds {
	return config.Kinds{"kafka": &kafkaSink{}, "sqlite": &sqliteSink{}, "object": &objectSink{}, "http": &httpSink{}}
}

// environment has the variables of the test files.
func environment(name string) (string, bool) {
	v, ok := map[string]string{
		"BROKERS": "one:9092, two:9092", "EMPTY": "", "TASKS": "4", "WORD": "four", "PASSWORD": "hunter2",
		"INTERVAL": "50ms", "BINARY": "a\xffb",
	}[name]
	return v, ok
}
