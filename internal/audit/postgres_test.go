package audit

import (
	"strings"
	"testing"
)

// TestPostgresQuotesNoDSN: what cannot be read is not quoted, and the remedy is named.
func TestPostgresQuotesNoDSN(t *testing.T) {
	t.Parallel()
	p := &PostgresReader{DSN: "host=localhost port=x password = s3cr3tPW"}
	if _, err := p.Shape(t.Context()); err == nil || strings.Contains(err.Error(), "s3cr3tPW") || !strings.Contains(err.Error(), "password_file") {
		t.Errorf("got %v, want the remedy and no password", err)
	}
}
