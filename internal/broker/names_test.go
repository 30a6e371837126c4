package broker

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	t.Parallel()
	n := Names{Prefix: "exactly", Pipeline: "payments", Generation: 3}
	for _, tc := range []struct{ what, got, want string }{
		{"journal", n.Journal(), "exactly.payments.g3.journal"},
		{"outbox", n.Outbox(), "exactly.payments.g3.outbox"},
		{"state", n.State(), "exactly.payments.g3.state"},
		{"meta", n.Meta(), "exactly.payments.meta"},
		{"meta txn", n.MetaTxnID(), "exactly.payments.meta"},
		{"txn a", n.TxnID(12, LaneOf(4)), "exactly.payments.g3.t12.a"},
		{"txn b", n.TxnID(0, LaneOf(7)), "exactly.payments.g3.t0.b"},
		{"group", n.Group(), "exactly.payments"},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.what, tc.got, tc.want)
		}
	}
	for _, s := range []string{n.Journal(), n.Outbox(), n.State(), n.Meta(), n.MetaTxnID(), n.TxnID(1, LaneA)} {
		if !strings.HasPrefix(s, n.Own()) {
			t.Errorf("%s is not covered by the prefix %s", s, n.Own())
		}
	}
	if other := (Names{Prefix: "exactly", Pipeline: "payments-2"}); strings.HasPrefix(other.Meta(), n.Own()) {
		t.Errorf("%s is covered by the rights of %s", other.Meta(), n.Own())
	}
}

func TestNamesValidate(t *testing.T) {
	t.Parallel()
	// The longest: prefix + "." + pipeline + ".g2147483647.journal".
	room := maxTopicName - len(".p.g2147483647.journal")
	for name, tc := range map[string]struct {
		n    Names
		code Code
		part string
	}{
		"shortest":   {Names{"e", "p", 1}, "", ""},
		"longest":    {Names{strings.Repeat("e", room), "p", 1}, "", ""},
		"too long":   {Names{strings.Repeat("e", room+3), "p", 1}, CodeName, "by 3"},
		"pipeline63": {Names{"e", strings.Repeat("p", 63), 1}, "", ""},
		"pipeline64": {Names{"e", strings.Repeat("p", 64), 1}, CodeName, "63 characters"},
		"no name":    {Names{"e", "", 1}, CodeName, "pipeline"},
		"dot":        {Names{"e", "a.b", 1}, CodeName, "pipeline"},
		"upper case": {Names{"e", "A", 1}, CodeName, "pipeline"},
		"dash first": {Names{"e", "-a", 1}, CodeName, "pipeline"},
		"prefix":     {Names{"e/x", "a", 1}, CodeName, "kafka.prefix"},
		"reserved":   {Names{"__e", "a", 1}, CodeName, "__"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tc.n.Validate()
			if tc.code == "" {
				if err != nil {
					t.Errorf("got %v, want none", err)
				}
				return
			}
			problem(t, err, tc.code, tc.part)
		})
	}
}

func TestValidTopic(t *testing.T) {
	t.Parallel()
	for topic, ok := range map[string]bool{
		"payments.raw": true, "A_b-1": true, "": false, ".": false, "..": false, "a b": false, "é": false,
		strings.Repeat("x", 249): true, strings.Repeat("x", 250): false,
	} {
		if err := ValidTopic("source.topics", topic); (err == nil) != ok {
			t.Errorf("%q: got %v, want valid %v", topic, err, ok)
		}
	}
}
