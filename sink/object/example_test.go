package object_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"exactly/record"
	"exactly/sink"
	"exactly/sink/object"
)

// A sink as the engine uses it: records are taken in, become a file at a
// barrier, and are visible after the decision.
func Example() {
	if err := example(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// before the decision: 0 rows
	// {"id":1}
	// {"id":2}
}

func example(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "lake")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	url := fileURL(dir)

	s, err := object.New("lake", object.Config{URL: url}, object.Deps{})
	if err != nil {
		return err
	}
	o := sink.Owner{
		Incarnation: "00c0ffee00c0ffee", Pipeline: "payments", Sink: "lake",
		Generation: 1, Attempt: 1, Guarantee: sink.ExactlyOnce,
	}
	opened, _, err := s.OpenOutbox(ctx, o, sink.Pos{})
	if err != nil {
		return err
	}
	task := opened.(sink.OutboxStager)
	_, err = task.Apply(ctx, sink.Batch{Through: sink.Pos{Epoch: 1, Index: 1}, Records: []sink.Entry{
		{Pos: sink.Pos{Epoch: 1, Index: 0}, Record: record.Record{Value: []byte(`{"id":1}`)}},
		{Pos: sink.Pos{Epoch: 1, Index: 1}, Record: record.Record{Value: []byte(`{"id":2}`)}},
	}})
	if err != nil {
		return err
	}
	work, err := task.Stage(ctx, time.Now(), true)
	if err != nil {
		return err
	}
	if err := show(ctx, url, "before the decision: "); err != nil {
		return err
	}
	// Here the Kafka transaction that lists work decides.
	if err := task.Commit(ctx, work); err != nil {
		return err
	}
	return show(ctx, url, "")
}

func show(ctx context.Context, url, when string) error {
	n := 0
	for row, err := range object.Rows(ctx, url, object.ReadOptions{}) {
		if err != nil {
			return err
		}
		n++
		fmt.Printf("%s\n", row.Value)
	}
	if when != "" {
		fmt.Printf("%s%d rows\n", when, n)
	}
	return nil
}
