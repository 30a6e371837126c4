package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"exactly/record"
	"exactly/sink"
	"exactly/sink/sqlite"
)

// The engine applies a batch, does not get the answer, and applies it again: the
// row is written once.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "payments.db")

	s, err := sqlite.New("records", sqlite.Config{
		Path: path, Table: "payment_records", Key: []string{"payment_id"},
		Create: true, Schema: map[string]string{"payment_id": "TEXT NOT NULL", "amount_cents": "INTEGER NOT NULL"},
		InsertCount: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	owner := sink.Owner{
		Incarnation: "5bd1e995f00dcafe", Pipeline: "payments", Sink: "records", Generation: 1, Tasks: 1,
		Attempt: 1, Guarantee: sink.ExactlyOnce,
	}
	task, _, err := s.OpenOutbox(ctx, owner, sink.Pos{})
	if err != nil {
		log.Fatal(err)
	}
	batch := sink.Batch{Through: sink.Pos{Epoch: 1, Index: 1}, Records: []sink.Entry{
		{Pos: sink.Pos{Epoch: 1}, Record: record.Record{Value: []byte(`{"payment_id":"p-1","amount_cents":1200}`)}},
		{Pos: sink.Pos{Epoch: 1, Index: 1}, Record: record.Record{Value: []byte(`{"payment_id":"p-2"}`)}},
	}}
	for range 2 {
		res, err := task.Apply(ctx, batch)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("through", res.Through, "refused", res.Verdicts[0].Pos, res.Verdicts[0].Code)
	}
	if err := s.Close(); err != nil {
		log.Fatal(err)
	}

	db, err := sql.Open("sqlite", path)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var id string
	var cents, count int64
	if err := db.QueryRow("SELECT payment_id, amount_cents, insert_count FROM payment_records").Scan(&id, &cents, &count); err != nil {
		log.Fatal(err)
	}
	fmt.Println(id, cents, "written", count)
	// Output:
	// through 1/1 refused 1/1 constraint
	// through 1/1 refused 1/1 constraint
	// p-1 1200 written 1
}
