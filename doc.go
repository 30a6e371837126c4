// Package exactly moves events from Kafka through transforms into Kafka,
// databases, files and HTTP services, each effect exactly once: a pipeline can
// be killed, frozen, cut off and restarted at any point, and every sink ends
// with each decided record once, and never sees one that was not decided.
//
// A Pipeline says what is read, done and written; Run makes this process one of
// its workers. Start as many processes as you like: they share the tasks.
//
//	p := exactly.Pipeline{
//		Name:   "payments",
//		Kafka:  exactly.Kafka{Brokers: []string{"localhost:9092"}},
//		Source: exactly.Source{Topics: []string{"payments.raw"}},
//		Steps:  []step.Spec{{Where: "amount_cents > 0"}},
//		Sinks:  []exactly.Sink{{Name: "enriched", Sink: out}},
//	}
//	err := p.Run(ctx)
//
// Sinks come from the packages below sink/, or from you: implement sink.Outbox
// (decided records are applied, with a mark of how far) or sink.Staging (work is
// prepared invisibly and committed after the decision), and hold it against the
// conformance suite of package sinktest.
package exactly
