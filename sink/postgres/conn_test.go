package postgres

import (
	"strings"
	"testing"
)

// TestConnectQuotesNoDSN: neither pgconn nor pgx is let say what it cannot read. What
// both take would be dialled.
func TestConnectQuotesNoDSN(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3tPW"
	for _, dsn := range []string{
		"host=localhost password = s3cr3tPW statement_cache_capacity=x",
		"host=localhost PASSWORD=s3cr3tPW statement_cache_capacity=x",
		`host=localhost password=a\ s3cr3tPW statement_cache_capacity=x`,
		"host=localhost password = s3cr3tPW description_cache_capacity=x",
		"host=localhost password = s3cr3tPW default_query_exec_mode=x",
		"host=localhost password=x default_query_exec_mode=s3cr3tPW",
		"postgres://u@localhost/d?password=s3cr3tPW&statement_cache_capacity=x",
		"postgres://u:s3cr3tPW@localhost/d?statement_cache_capacity=x",
		"postgres://u:p/s3cr3tPW@localhost/d",
		"postgres://u:p%s3cr3tPW@localhost/d",
		"postgres:/u:s3cr3tPW@localhost/d",
		"host=localhost port=x password = s3cr3tPW",
		"host=localhost password='s3cr3tPW",
		"host=localhost s3cr3tPW",
	} {
		c, err := Connect(t.Context(), dsn)
		if err == nil {
			_ = c.Close(t.Context())
			t.Errorf("%s: connected", dsn)
			continue
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", dsn, err)
		}
	}
}
