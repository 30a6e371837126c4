package mutation

// Rule is a rule of docs/protocol.md that can be broken.
type Rule string

// The rules, by what is done in their place. The list is the one of
// docs/failure-modes.md.
const (
	NoFence           Rule = "no-fence"            // the old owner's producers are not fenced
	NoClaim           Rule = "no-claim"            // a new owner starts without the claim transaction
	NoChain           Rule = "no-chain"            // epoch n+1 may be ended before n
	ReadEarly         Rule = "read-early"          // the journal is read before the fences
	CarryEarly        Rule = "carry-early"         // the claim carries what was read between the fences
	RenewByInit       Rule = "renew-by-init"       // an idle task renews by InitProducerId alone
	PendingForgotten  Rule = "pending-forgotten"   // a journal record lists only its own committables
	SweepAll          Rule = "sweep-all"           // the sweep takes others than older attempts
	CommitEarly       Rule = "commit-early"        // a sink is committed before the decision
	LedgerIgnored     Rule = "ledger-ignored"      // a sink applies what its ledger says is applied
	SentBeforeFlush   Rule = "sent-before-flush"   // the next epoch's records do not wait for the flush
	GenerationIgnored Rule = "generation-ignored"  // marks in sinks are compared without the generation
	IncarnationLost   Rule = "incarnation-ignored" // marks in sinks are compared without the incarnation
	TrimEarly         Rule = "trim-early"          // the outbox is trimmed before sinks have confirmed
	VerdictDropped    Rule = "verdict-dropped"     // a refusal found after the decision is not carried
	ConfirmEarly      Rule = "confirm-early"       // work is confirmed before its commit was acknowledged
	PendingSwept      Rule = "pending-swept"       // the sweep does not keep what the journal lists
	ErrorDecides      Rule = "error-decides"       // an answer to EndTxn that says nothing is taken for success
	FollowEarly       Rule = "follow-early"        // a sink that reads what others write does not wait for them

	// Of sinks only.
	MarkApart  Rule = "mark-apart"   // the mark is moved in a transaction of its own, behind the rows
	LostIsDone Rule = "lost-is-done" // staged work that is gone without a mark is taken for committed
)

// Rules lists them all.
func Rules() []Rule {
	return []Rule{
		NoFence, NoClaim, NoChain, ReadEarly, CarryEarly, RenewByInit, PendingForgotten, SweepAll, CommitEarly,
		LedgerIgnored, SentBeforeFlush, GenerationIgnored, IncarnationLost, TrimEarly, VerdictDropped,
		ConfirmEarly, PendingSwept, ErrorDecides, FollowEarly,
	}
}

// SinkRules lists those that a sink by itself can break.
func SinkRules() []Rule {
	return []Rule{LedgerIgnored, MarkApart, IncarnationLost, GenerationIgnored, VerdictDropped, SweepAll, LostIsDone}
}
