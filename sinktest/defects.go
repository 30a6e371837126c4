package sinktest

// Defect is a broken promise that a model sink can be given, to see that a
// test notices.
type Defect string

// The defects, with the duty that each one breaks.
const (
	LedgerIgnored      Defect = "ledger ignored"            // a replayed batch is applied again
	DuplicateOnRetry   Defect = "duplicate on retry"        // a call that follows a failed one does not look at the mark
	SplitTransaction   Defect = "data before ledger"        // data and mark in two transactions
	GapAccepted        Defect = "gap accepted"              // any higher batch is taken for the next
	AheadAccepted      Defect = "lost data accepted"        // a journal ahead of the ledger is believed
	LastRecordLost     Defect = "last record lost"          // of a batch of several
	Reordered          Defect = "reordered"                 // a batch is applied backwards
	KeepsBatch         Defect = "caller's batch kept"       // the slice is read after the call
	VerdictDropped     Defect = "verdict dropped"           // it is told once and not stored
	VerdictTwice       Defect = "verdict kept for ever"     // it is told again after it was confirmed
	PoisonTakesBatch   Defect = "poison takes its batch"    // records beside a refused one vanish
	TombstoneIgnored   Defect = "tombstone ignored"         // deletes are dropped in spite of Features.Deletes
	DownIsPoison       Defect = "outage taken for poison"   // a transient error is classed as poison
	DownIsSuccess      Defect = "outage taken for success"  // errors of the service are swallowed
	ForeignMarkIgnored Defect = "foreign mark ignored"      // the mark's incarnation is not looked at
	GenerationIgnored  Defect = "generation ignored"        // epochs of the next generation look like old ones
	OwnerByPrefix      Defect = "owner compared by prefix"  // task 10 shares the mark of task 1
	VisibleWhileStaged Defect = "commit before decision"    // staged work can be read
	LostIsSuccess      Defect = "lost work taken for done"  // "not found" when committing is success
	CommitDoubles      Defect = "commit repeated"           // a second commit inserts again
	RaceyCommit        Defect = "commit races"              // look and act are two requests
	AbortNeedsWork     Defect = "abort not idempotent"      // an abort of nothing is an error
	AbortForgets       Defect = "abort does nothing"        // aborted work can still be committed
	SweepByPrefix      Defect = "sweep by prefix"           // the sweep of task 1 takes task 10
	SweepLater         Defect = "sweep of other attempts"   // the sweep takes this and later attempts too
	SweepIgnoresKeep   Defect = "pending work forgotten"    // the sweep takes what the journal lists
	SweepNothing       Defect = "sweep does nothing"        // orphans stay
	SweepOwnGeneration Defect = "older generations stay"    // what a zombie of an older generation stages is never swept
	ObservedByPrefix   Defect = "observed by prefix"        // staged work of pipelines with a longer name is taken for one's own
	StageForgets       Defect = "failed stage forgotten"    // what a failed Stage did not hand over is not staged again
	AppliedKept        Defect = "applied records kept"      // a copy of every second epoch, for ever
	UnappliedKept      Defect = "kept in an outage"         // a copy of each batch that could not be applied, for ever
	FenceRefuses       Defect = "fence refuses records"     // a superseded attempt gets verdicts
	SuccessorFenced    Defect = "successor fenced"          // the first attempt that opened the sink stays its owner
	PointLeftOut       Defect = "fail point left out"       // nothing can crash the sink after it has committed
	SessionLost        Defect = "prepare of a lost session" // a crash of the service loses writes silently
)
