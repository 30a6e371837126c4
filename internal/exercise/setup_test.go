package exercise

import (
	"strings"
	"testing"
)

// TestConnectQuotesNoDSN: pgx takes less than pgconn, and would quote what it refuses.
func TestConnectQuotesNoDSN(t *testing.T) {
	t.Parallel()
	x := &exercise{o: Options{DSN: "host=localhost password = s3cr3tPW statement_cache_capacity=x"}}
	if err := x.connect(t.Context()); err == nil || strings.Contains(err.Error(), "s3cr3tPW") || !strings.Contains(err.Error(), "--postgres") {
		t.Errorf("got %v, want an error that names --postgres and not the password", err)
	}
}
