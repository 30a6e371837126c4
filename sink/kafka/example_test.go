package kafka_test

import (
	"fmt"

	"exactly/record"
	"exactly/sink/kafka"
)

// A record is sent to the topic of its status, under its payment id.
func ExampleNew() {
	router, err := kafka.New("by_status", kafka.Config{
		TopicExpr:     `"payments." + status`,
		Topics:        []string{"payments.ok", "payments.review"},
		Key:           "payment_id",
		KeepHeaders:   true,
		SourceHeaders: true,
	}, kafka.Deps{})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := record.Record{
		Key:    []byte("merchant-007"),
		Value:  []byte(`{"payment_id":"p-1","status":"review"}`),
		Source: record.Position{Topic: "payments.raw", Partition: 2, Offset: 7},
	}
	messages, err := router.Route(nil, &in)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range messages {
		fmt.Printf("%s %s %s\n", m.Topic, m.Key, m.Value)
		fmt.Printf("%s: %s\n", m.Headers[0].Key, m.Headers[0].Value)
	}

	in.Value = []byte(`{"payment_id":"p-2","status":"unheard-of"}`)
	_, err = router.Route(nil, &in)
	fmt.Println(err)
	// Output:
	// payments.review p-1 {"payment_id":"p-1","status":"review"}
	// exactly-source: payments.raw-2@7
	// sink by_status: kafka.topic_expr: gives "payments.unheard-of", which is not among topics
}
