package config

import "testing"

// What --explain prints holds no secret of an address.
func TestRedacted(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain":                                 "plain",
		"https://api.example/v1":                "https://api.example/v1",
		"https://u:p@api.example/v1":            "https://u:xxxxx@api.example/v1",
		"https://api.example/v1?token=s&x=1&y":  "https://api.example/v1?token=xxxxx&x=xxxxx&y=xxxxx",
		"https://u:p@api.example/v1?token=s#at": "https://u:xxxxx@api.example/v1?token=xxxxx#at",
		"https://%zz?token=s":                   "(an address that cannot be read)",
	} {
		if got := redacted(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}
