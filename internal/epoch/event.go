package epoch

import (
	"exactly/internal/journal"
	"exactly/sink"
)

// Producer is one of a task's two transactional producers.
type Producer int

const (
	A Producer = iota // even epochs, and the claim
	B                 // odd epochs
)

// Of is the producer that carries an epoch.
func Of(epoch int64) Producer { return Producer(epoch & 1) }

func (p Producer) String() string { return [...]string{"a", "b"}[p] }

// Event is something that happened.
type Event interface{ event() }

type (
	// Start begins the takeover.
	Start struct{}
	// Fenced: InitProducerId of the producer was answered.
	Fenced struct{ Producer Producer }
	// Read: the last committed journal record, nil if there is none, and its
	// offset (the partition's end, if there is none).
	Read struct {
		Record *journal.Record
		Offset int64
	}
	// Resolved: where a first start begins. Only Sources, Tail and Cursors are
	// looked at.
	Resolved struct{ Record *journal.Record }
	// Claimed: the claim's transaction was acknowledged as committed.
	Claimed struct{}
	// Verified: the claim's record was seen in the journal. Undisturbed, if no
	// other committed record stands between what was read and the claim.
	Verified struct{ Undisturbed bool }
	// Recovered: everything pending of staging sinks is committed.
	Recovered struct{}
	// Swept: what older attempts staged and nobody decided is rolled back.
	Swept struct{}
	// Opened: sinks, state and source stand where the journal says.
	Opened struct{}

	// Fill asks to produce a record.
	Fill struct{}
	// Barrier: the open epoch ends here, or, with none open, one that only
	// confirms may be made. Sources are as of the last record.
	Barrier struct{ Sources []journal.Source }
	// Flushed: every record of the epoch was acknowledged. Tail is the outbox's
	// end with them.
	Flushed struct {
		Epoch int64
		Tail  journal.Tail
	}
	// Prepared: every staging sink has prepared the epoch.
	Prepared struct {
		Epoch        int64
		Committables []sink.Committable
	}
	// Journaled: the journal record was acknowledged inside the transaction.
	Journaled struct{ Epoch int64 }
	// OffsetsSent: the source offsets are inside the transaction.
	OffsetsSent struct{ Epoch int64 }
	// Decided: EndTxn was acknowledged as committed.
	Decided struct{ Epoch int64 }

	// Applied: an outbox sink has come further. Cursor is durable in the sink,
	// or becomes durable with the decision, verdicts included.
	Applied struct {
		Sink     string
		Cursor   journal.Cursor
		Verdicts []Verdict
	}
	// Staged: an outbox stager has made work durable and invisible; the cursor
	// moves with the decision that lists it.
	Staged struct {
		Sink     string
		Pending  []journal.Pending
		Cursor   journal.Cursor
		Verdicts []Verdict
	}
	// Committed: decided work is visible in the sink.
	Committed struct{ Items []journal.Pending }
	// Renew asks for one transaction on each producer although there may be
	// nothing to say: transactional ids and group offsets expire.
	Renew struct{}
	// Moved: the source position has moved by what is no record (transaction
	// markers), which is worth an epoch of its own for those who watch the lag.
	Moved struct{}
	// Stop: finish what is open, begin nothing new but what confirms.
	Stop struct{}
	// Failed: anything else. The attempt is over.
	Failed struct{ Err error }
)

// Verdict is a refusal on its way into a decision. Payload is the engine's.
type Verdict struct {
	Sink string
	sink.Verdict
	Payload any
}

func (Start) event()       {}
func (Fenced) event()      {}
func (Read) event()        {}
func (Resolved) event()    {}
func (Claimed) event()     {}
func (Verified) event()    {}
func (Recovered) event()   {}
func (Swept) event()       {}
func (Opened) event()      {}
func (Fill) event()        {}
func (Barrier) event()     {}
func (Flushed) event()     {}
func (Prepared) event()    {}
func (Journaled) event()   {}
func (OffsetsSent) event() {}
func (Decided) event()     {}
func (Applied) event()     {}
func (Staged) event()      {}
func (Committed) event()   {}
func (Renew) event()       {}
func (Moved) event()       {}
func (Stop) event()        {}
func (Failed) event()      {}
