package tables

import (
	"fmt"

	"exactly/sink"
)

// Split applies a batch in transactions of at most so many records, each with its
// own move of the ledger. What was applied before an error is in the result.
func Split(b sink.Batch, most int, apply func(sink.Batch) ([]sink.Verdict, error)) (sink.Result, error) {
	res := sink.Result{Through: b.Prev}
	for rest := b.Records; ; {
		part := sink.Batch{Prev: res.Through, Through: b.Through, Confirmed: b.Confirmed, Records: rest}
		if len(rest) > most {
			part.Records = rest[:most]
			part.Through = part.Records[most-1].Pos
		}
		rest = rest[len(part.Records):]
		vs, err := apply(part)
		if err != nil {
			return res, err
		}
		res.Through, res.Verdicts = part.Through, append(res.Verdicts, vs...)
		if len(rest) == 0 {
			return res, nil
		}
	}
}

// After gives the records behind a mark.
func After(at sink.Pos, entries []sink.Entry) []sink.Entry {
	for len(entries) > 0 && !at.Before(entries[0].Pos) {
		entries = entries[1:]
	}
	return entries
}

// Behind says that a ledger is behind what the journal saw applied. store is
// what may have been restored from an older copy.
func Behind(table, store string, o sink.Owner, at sink.Pos, found bool, want sink.Pos) error {
	have := "stands at " + at.String()
	if !found {
		have = "has no mark"
	}
	return fmt.Errorf("%w: %s %s for pipeline %s, sink %s, generation %d, task %d, and %s was applied already;"+
		" the %s was replaced or restored from an older copy: put the newer one back, or start a new generation that reads the source again",
		sink.ErrLedgerBehind, table, have, o.Pipeline, o.Sink, o.Generation, o.Task, want, store)
}
