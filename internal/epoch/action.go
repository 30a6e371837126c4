package epoch

import "exactly/internal/journal"

// Action is something to do.
type Action interface{ action() }

type (
	// Fence sends InitProducerId, without expected id and epoch.
	Fence struct{ Producer Producer }
	// ReadJournal asks for the read_committed end offset now, and reads to it.
	ReadJournal struct{}
	// ResolveStart turns the pipeline's start position into numbers.
	ResolveStart struct{}
	// Claim commits a transaction on A with this record and all its offsets.
	Claim struct{ Record *journal.Record }
	// Verify reads on from the offset of what was read to the claim's record.
	Verify struct {
		Prev       *journal.Record
		PrevOffset int64
		Claim      *journal.Record
	}
	// Recover commits what was decided and not confirmed, in order.
	Recover struct{ Pending []journal.Pending }
	// Sweep rolls back what older attempts staged and Keep does not list.
	Sweep struct{ Keep []journal.Pending }
	// Open opens sinks and source where Record says.
	Open struct{ Record *journal.Record }

	// Begin begins the transaction of an epoch.
	Begin struct {
		Epoch    int64
		Producer Producer
	}
	// Flush waits for the acknowledgement of every record of the epoch.
	Flush struct{ Epoch int64 }
	// Prepare asks the staging sinks to prepare the epoch.
	Prepare struct{ Epoch int64 }
	// Journal produces the verdicts' dead letters and the journal record.
	Journal struct {
		Epoch    int64
		Record   *journal.Record
		Verdicts []Verdict
	}
	// Offsets sends TxnOffsetCommit for all sources.
	Offsets struct {
		Epoch   int64
		Sources []journal.Source
	}
	// End sends EndTxn(commit).
	End struct{ Epoch int64 }
	// Publish hands the outbox records of a decided epoch to the outbox sinks.
	Publish struct {
		Epoch int64
		Tail  journal.Tail
	}
	// Commit commits decided work, in order.
	Commit struct{ Items []journal.Pending }
	// Confirm tells the outbox sinks what is decided as applied.
	Confirm struct{ Cursors map[string]*journal.Cursor }
	// Trim allows the outbox to be deleted below the offset.
	Trim struct{ Offset int64 }
	// Over ends the attempt.
	Over struct{ Err error }
)

func (Fence) action()        {}
func (ReadJournal) action()  {}
func (ResolveStart) action() {}
func (Claim) action()        {}
func (Verify) action()       {}
func (Recover) action()      {}
func (Sweep) action()        {}
func (Open) action()         {}
func (Begin) action()        {}
func (Flush) action()        {}
func (Prepare) action()      {}
func (Journal) action()      {}
func (Offsets) action()      {}
func (End) action()          {}
func (Publish) action()      {}
func (Commit) action()       {}
func (Confirm) action()      {}
func (Trim) action()         {}
func (Over) action()         {}
