package audit

import (
	"errors"

	"exactly/sink/postgres"
)

// postgres binds a table in PostgreSQL.
func (b *binder) postgres(s *Sink, c postgres.Config) error {
	if c.Rows() == "statement" {
		return errors.New("what a statement does to which tables cannot be audited: compare it by a query of your own")
	}
	table, err := postgres.QuoteTable(c.Table)
	if err != nil {
		return err
	}
	upsert := c.Rows() != "append"
	r := &PostgresReader{
		DSN: c.DSN, PasswordFile: c.PasswordFile, Table: table, Upsert: upsert, Any: c.Version != "",
		Writes: c.Audit.InsertCount, ConnectTimeout: c.ConnectTimeout, Ignore: []string{"exactly_order", "exactly_version"},
	}
	a := c.Audit
	for _, name := range []string{a.RunID, a.Epoch, a.Topic, a.Partition, a.Offset, a.ProcessedAt, a.UpdatedAt} {
		if name != "" {
			r.Ignore = append(r.Ignore, name)
		}
	}
	s.Reader = r
	r.Only, err = b.table(s, upsert, c.Key, c.Columns)
	return err
}
