package kafka

import (
	"testing"

	"exactly/record"
	"exactly/sink"
	"exactly/sinktest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	settings := map[string]Config{
		"plain":    {Topic: "out", KeepHeaders: true},
		"computed": {TopicExpr: `"out." + string(source.partition)`, Key: "value.id", Value: "value.extra", Headers: map[string]string{"v": "value.value"}, SourceHeaders: true},
	}
	sinktest.Run(t, sinktest.Subject{
		Variants: []string{"plain", "computed"},
		Open: func(_ sinktest.TB, variant string) sinktest.Target {
			return sinktest.Target{
				New: func(t sinktest.TB) sink.Sink {
					r, err := New("out", settings[variant], Deps{})
					if err != nil {
						t.Fatalf("new sink: %v", err)
					}
					return r
				},
				Poison: func(s sinktest.Spec) record.Record {
					r := sinktest.Make(s)
					r.Value = []byte("{")
					return r
				},
			}
		},
	})
}
