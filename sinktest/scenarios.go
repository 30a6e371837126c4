package sinktest

import "exactly/sink"

// scenario is one named subtest.
type scenario struct {
	name string
	fits func(s Subject, t Target, k kind, f sink.Features) bool
	run  func(w *world)
}

// scenarios lists them all, simple ones first.
func scenarios() []scenario {
	return []scenario{
		{"Route", routing, route},
		{"HappyPath", visible, happyPath},
		{"BatchesAcrossEpochs", visible, acrossEpochs},
		{"RecordsOfOneKey", visible, oneKey},
		{"OrderPerKey", visible, orderPerKey},
		{"Tombstones", deletes, tombstones},
		{"Reopen", visible, reopen},
		{"TasksAtOnce", visible, tasksAtOnce},
		{"LargeBatch", visible, largeBatch},
		{"Memory", outOfProcess, memory},
		{"CancelledContext", applied, cancelled},

		{"SameBatchTwice", fromOutbox, sameBatchTwice},
		{"ReplayAfterReopen", applied, replayAfterReopen},
		{"PartialOverlap", fromOutbox, partialOverlap},
		{"RunWithoutRecords", fromOutbox, withoutRecords},
		{"Gap", ledger, gap},
		{"JournalAheadOfLedger", keepsLedger, journalAhead},
		{"JournalAheadOfMarks", stagesEpochs, journalAheadOfMarks},
		{"AddedLater", applied, addedLater},
		{"CallerOwnsBatch", applied, callerOwns},
		{"AtLeastOnce", applied, atLeastOnce},

		{"Poison", rejects, poisonInBatch},
		{"PoisonThenCrash", rejects, poisonThenCrash},
		{"VerdictSurvives", durable, verdictSurvives},

		{"FailPoints", visible, failPoints},
		{"AnswerLost", visible, answerLost},
		{"ServiceFaults", faulty, serviceFaults},
		{"ServiceDown", downs, serviceDown},
		{"MemoryWhileDown", appliesLater, memoryWhileDown},
		{"ServiceKilled", killable, serviceKilled},

		{"Zombie", visible, zombie},
		{"RaceOfOwners", applied, raceOfOwners},
		{"ForeignMark", incarnations, foreignMark},
		{"OtherOwnersUntouched", visible, otherOwners},

		{"InvisibleUntilCommit", staged, invisible},
		{"CommitTwice", staged, commitTwice},
		{"CommitOfLostWork", staged, commitOfLost},
		{"AbortTwice", staged, abortTwice},
		{"Sweep", staged, sweep},
		{"SweepOlderGeneration", staged, sweepOlderGeneration},
		{"LateZombieStages", staged, lateZombie},
		{"RaceOfCommits", staged, raceOfCommits},
		{"NothingToStage", staged, nothingToStage},
		{"StageFails", stages, stageFails},
	}
}

func routing(_ Subject, _ Target, k kind, _ sink.Features) bool { return k == kindTransactional }
func visible(_ Subject, _ Target, k kind, _ sink.Features) bool { return k != kindTransactional }
func applied(_ Subject, _ Target, k kind, _ sink.Features) bool { return k == kindOutbox }
func staged(_ Subject, _ Target, k kind, _ sink.Features) bool {
	return k == kindStager || k == kindStaging
}

func stagesEpochs(_ Subject, _ Target, k kind, _ sink.Features) bool { return k == kindStaging }

func stages(_ Subject, _ Target, k kind, _ sink.Features) bool { return k == kindStager }

func fromOutbox(_ Subject, _ Target, k kind, _ sink.Features) bool {
	return k == kindOutbox || k == kindStager
}

func ledger(s Subject, _ Target, k kind, _ sink.Features) bool {
	return k == kindStager || k == kindOutbox && !s.Marks.NoLedger
}

func keepsLedger(s Subject, _ Target, k kind, _ sink.Features) bool {
	return k == kindOutbox && !s.Marks.NoLedger
}

func incarnations(s Subject, _ Target, k kind, _ sink.Features) bool {
	return k != kindTransactional && !s.Marks.NoIncarnation
}

func deletes(_ Subject, _ Target, k kind, f sink.Features) bool {
	return k != kindTransactional && f.Deletes && !f.Keyless
}

func rejects(_ Subject, _ Target, k kind, f sink.Features) bool {
	return k != kindTransactional && f.Rejects
}

func durable(_ Subject, _ Target, k kind, f sink.Features) bool {
	return k == kindOutbox && f.Rejects && f.DurableVerdicts
}

func faulty(_ Subject, t Target, k kind, _ sink.Features) bool {
	return k != kindTransactional && t.SetFault != nil
}

func downs(_ Subject, t Target, k kind, _ sink.Features) bool {
	return k != kindTransactional && t.Down != nil && t.Up != nil
}

func killable(_ Subject, t Target, k kind, _ sink.Features) bool {
	return k != kindTransactional && t.Kill != nil
}

func outOfProcess(_ Subject, t Target, k kind, _ sink.Features) bool {
	return k != kindTransactional && !t.InMemory
}

// appliesLater: while the service is down, a staging sink's attempt ends with the
// first call that fails; the others are called again.
func appliesLater(s Subject, t Target, k kind, f sink.Features) bool {
	return fromOutbox(s, t, k, f) && downs(s, t, k, f)
}
