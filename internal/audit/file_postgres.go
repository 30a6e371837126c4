package audit

import (
	"errors"
	"maps"
	"slices"

	"exactly/record"
	"exactly/sink/postgres"
)

// postgres: a row of an upserted table is its key, whatever audit.id says.
func (b *binder) postgres(s *Sink, c postgres.Config) error {
	if c.Mode == "statement" {
		return errors.New("what a statement does to which tables cannot be audited: compare it by a query of your own")
	}
	table, err := postgres.QuoteTable(c.Table)
	if err != nil {
		return err
	}
	upsert := c.Mode != "append"
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
	if upsert || s.ID == nil && len(c.Key) > 0 {
		key := c.Key
		s.ID = func(r *record.Record) ([]byte, error) { return FieldsID(r.Value, key) }
		s.TombstoneID = func(k []byte) ([]byte, error) { return tombstoneID(k, key) }
	}
	if len(c.Columns) > 0 {
		r.Only = slices.Sorted(maps.Keys(c.Columns))
		return b.columns(s, c.Columns)
	}
	return nil
}
