package kafka

import (
	"strings"
	"testing"

	"exactly/step/cel"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	declared, err := cel.NewEnv(cel.Options{Fields: map[string]cel.Type{"payment_id": cel.TypeString}, Epoch: true})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		c    Config
		want string
	}{
		{"no topic", Config{}, "sink enriched: kafka.topic: is required (or topic_expr)"},
		{"two topics", Config{Topic: "a", TopicExpr: "b"}, "kafka.topic_expr: topic is set as well"},
		{"list without expression", Config{Topic: "a", Topics: []string{"b"}}, "kafka.topics: lists what topic_expr may give"},
		{"create what", Config{TopicExpr: "payment_id", Create: true}, "kafka.create: with topic_expr, list in topics"},
		{"partition", Config{Topic: "a", Partition: "random"}, `kafka.partition: "random" is neither`},
		{"name", Config{Topic: "a/b"}, `kafka.topic: "a/b" cannot be the name of a topic`},
		{"dots", Config{Topic: ".."}, `kafka.topic: ".." cannot be`},
		{"too long", Config{Topic: strings.Repeat("a", 250)}, "kafka.topic: a name of 250 characters"},
		{"own topic", Config{Topic: "exactly.payments.g1.outbox"}, "belongs to the pipeline itself"},
		{"own topic in the list", Config{TopicExpr: "payment_id", Topics: []string{"x", "exactly.payments.meta"}}, "kafka.topics: "},
		{"header without name", Config{Topic: "a", Headers: map[string]string{"": "1"}}, "kafka.headers: a name is empty"},
		{"header twice", Config{Topic: "a", SourceHeaders: true, Headers: map[string]string{"exactly-source": "1"}}, "kafka.headers.exactly-source: is set by source_headers"},
		{"syntax", Config{Topic: "a", Key: "1 +"}, "kafka.key: 1:"},
		{"unknown field", Config{Topic: "a", Headers: map[string]string{"h": "payment_ix"}}, "kafka.headers.h: 1:1: "},
		{"type", Config{TopicExpr: "1 + 1"}, "kafka.topic_expr: 1:1: the expression must give string, but gives int"},
		{"epoch", Config{Topic: "a", Timestamp: "epoch.time"}, "kafka.timestamp: epoch cannot be used here"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := New("enriched", tt.c, Deps{Env: declared, Reserved: []string{"exactly.payments."}})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("New: got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func FuzzCheckTopic(f *testing.F) {
	for _, s := range []string{"", ".", "a", "__x", "a b", "exactly.p.meta", strings.Repeat("x", 250)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		legal := name != "" && name != "." && name != ".." && len(name) <= 249 && !strings.HasPrefix(name, "__") && !strings.HasPrefix(name, "exactly.")
		for _, c := range []byte(name) {
			legal = legal && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-')
		}
		if err := checkTopic(name, []string{"exactly."}); (err == nil) != legal {
			t.Errorf("checkTopic %q: got %v, want legal %v", name, err, legal)
		}
	})
}
