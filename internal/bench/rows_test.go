package bench

import (
	"strings"
	"testing"
)

// TestNoDSNIsQuoted: pgx takes less than pgconn, and would quote what it refuses.
func TestNoDSNIsQuoted(t *testing.T) {
	t.Parallel()
	check := func(what string, err error) {
		if err == nil || strings.Contains(err.Error(), "s3cr3tPW") {
			t.Errorf("%s: got %v, want an error without the password", what, err)
		}
	}
	_, err := openDatabase(t.Context(), "postgres://u@localhost/d?password=s3cr3tPW&statement_cache_capacity=x", "s")
	check("rows", err)
	_, err = Tables(t.Context(), TablesOptions{DSN: "host=localhost password = s3cr3tPW statement_cache_capacity=x"})
	check("tables", err)
}
