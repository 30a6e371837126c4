package httpsink_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"exactly/record"
	"exactly/sink"
	httpsink "exactly/sink/http"
)

// A record is called out with its key. The partner cuts the connection after it
// has carried the first call out, so the sink asks again, with the same key and
// the same bytes.
func ExampleNew() {
	executed := map[string]int{}
	partner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		body, _ := io.ReadAll(r.Body)
		fmt.Printf("%s %s %s\n", r.Method, key, body)
		if executed[key] == 0 {
			executed[key]++
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusCreated)
	}))
	defer partner.Close()

	partnerSink, err := httpsink.New("partner", httpsink.Config{
		URL:            partner.URL + "/v1/events",
		IdempotencyKey: "payment_id",
	}, httpsink.Deps{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer partnerSink.Close()

	ctx := context.Background()
	owner := sink.Owner{Incarnation: "00f1e2d3c4b5a697", Pipeline: "payments", Sink: "partner", Guarantee: sink.ExactlyOnce}
	task, resume, err := partnerSink.OpenOutbox(ctx, owner, sink.Pos{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer task.Close()

	at := sink.Pos{Epoch: 1, Index: 0}
	result, err := task.Apply(ctx, sink.Batch{
		Prev: resume.Through, Through: at,
		Records: []sink.Entry{{Pos: at, Record: record.Record{Value: []byte(`{"payment_id":"p-1"}`)}}},
	})
	fmt.Println("through", result.Through, err, "executed", executed)
	// Output:
	// POST p-1 {"payment_id":"p-1"}
	// POST p-1 {"payment_id":"p-1"}
	// through 1/0 <nil> executed map[p-1:1]
}
