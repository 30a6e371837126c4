package httpsink

import (
	"slices"
	"testing"
)

func TestLanes(t *testing.T) {
	t.Parallel()
	c := func(group, key string) *call {
		out := &call{key: key}
		if group != "-" {
			out.group = []byte(group)
		}
		return out
	}
	tests := []struct {
		name  string
		calls []*call
		want  [][]int
	}{
		{"none", nil, nil},
		{"by Kafka key", []*call{c("a", "1"), c("b", "2"), c("a", "3")}, [][]int{{0, 2}, {1}}},
		{"no Kafka key", []*call{c("-", "1"), c("-", "2")}, [][]int{{0}, {1}}},
		{"empty Kafka key", []*call{c("", "1"), c("", "2")}, [][]int{{0, 1}}},
		{"by idempotency key", []*call{c("a", "1"), c("b", "1")}, [][]int{{0, 1}}},
		{"joined by a later one", []*call{c("a", "1"), c("b", "2"), c("a", "2"), c("c", "3"), c("b", "4")}, [][]int{{0, 1, 2, 4}, {3}}},
		{"a key of one kind is not one of the other", []*call{c("a", ""), c("-", "a")}, [][]int{{0}, {1}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got [][]int
			for _, lane := range lanes(tt.calls) {
				var is []int
				for _, c := range lane {
					is = append(is, slices.Index(tt.calls, c))
				}
				got = append(got, is)
			}
			if !slices.EqualFunc(got, tt.want, slices.Equal) {
				t.Errorf("lanes: got %v, want %v", got, tt.want)
			}
		})
	}
}
