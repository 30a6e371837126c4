//go:build services

package stores

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"exactly/internal/services"
	"exactly/test/proxy"
	httpproxy "exactly/test/proxy/http"
)

// TestS3CompleteIsLost: a CompleteMultipartUpload that never arrives, or the answer
// to which is lost, breaks off, is another one or comes late. The client knows
// nothing. Asking again writes nothing anew: the server knows the upload by its id,
// or refuses with an error that leaves it open who wrote the object. Another upload
// of the key is refused, and the object is there once and whole.
func TestS3CompleteIsLost(t *testing.T) {
	t.Parallel()
	s := services.S3(t, false)
	for _, tt := range []struct {
		name   string
		answer bool
		act    proxy.Act[*httpproxy.Message]
		silent bool // the client has to lose patience
		knows  bool // it learns that it was carried out
	}{
		{name: "request cut", act: proxy.Cut[*httpproxy.Message]()},
		{name: "request lost in silence", act: proxy.Drop[*httpproxy.Message](), silent: true},
		{name: "answer cut", answer: true, act: proxy.Cut[*httpproxy.Message]()},
		{name: "answer lost in silence", answer: true, act: proxy.Drop[*httpproxy.Message](), silent: true},
		{name: "answer cut half-way", answer: true, act: httpproxy.Half()},
		{name: "answer 500", answer: true, act: httpproxy.Status(http.StatusInternalServerError, http.Header{"Content-Type": {"application/xml"}}, "<Error><Code>InternalError</Code></Error>")},
		{name: "answer 200 with an error in it", answer: true, act: httpproxy.Status(http.StatusOK, http.Header{"Content-Type": {"application/xml"}}, "<Error><Code>InternalError</Code></Error>")},
		{name: "answer late", answer: true, act: proxy.Delay[*httpproxy.Message](500 * time.Millisecond), knows: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx := deadline(t)
			px := httpproxy.Start(t, s.Address)
			name := s.Bucket(t)
			b, straight := s3At(s, px.URL, name), s3At(s, s.URL, name)
			done := b.upload(ctx, t, "epoch-7", parts('a')...)
			armed := px.Add(httpproxy.CompleteMultipartUpload(tt.answer, tt.act))
			err := giveUp(ctx, armed, tt.silent, func(ctx context.Context) error {
				_, err := b.CompleteMultipartUpload(ctx, done)
				return err
			})
			if (err == nil) != tt.knows {
				t.Fatalf("complete: got %v, want success: %t", err, tt.knows)
			}
			if armed.Hits() != 1 {
				t.Errorf("the rule struck %d times, want once", armed.Hits())
			}
			objects, uploads := straight.counts(ctx, t)
			if executed := tt.answer; executed && (objects != 1 || uploads != 0) || !executed && (objects != 0 || uploads != 1) {
				t.Errorf("carried out: %t; got %d objects and %d open uploads", executed, objects, uploads)
			}
			before := straight.modified(ctx, t, "epoch-7")
			_, err = b.CompleteMultipartUpload(ctx, done)
			if c := code(err); err != nil && (!tt.answer || c != "NoSuchUpload" && c != "PreconditionFailed") {
				t.Errorf("again, carried out before: %t: %v", tt.answer, err)
			}
			late := b.upload(ctx, t, "epoch-7", parts('b')...)
			if _, err := b.CompleteMultipartUpload(ctx, late); code(err) != "PreconditionFailed" {
				t.Errorf("another upload of the key: got %v, want PreconditionFailed", err)
			}
			_, err = b.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: late.Bucket, Key: late.Key, UploadId: late.UploadId})
			check(t, err)
			if got, want := straight.get(ctx, t, "epoch-7"), bytes.Join(parts('a'), nil); !bytes.Equal(got, want) {
				t.Errorf("the object has %d bytes, want %d", len(got), len(want))
			}
			if after := straight.modified(ctx, t, "epoch-7"); tt.answer && before != after {
				t.Errorf("asking again wrote the object anew: %s, then %s", before, after)
			}
			if objects, uploads := straight.counts(ctx, t); objects != 1 || uploads != 0 {
				t.Errorf("at the end: %d objects and %d open uploads, want one and none", objects, uploads)
			}
		})
	}
}

// giveUp calls f, and takes it back once the rule has struck if it would wait for an
// answer that never comes: a time-out that no slow machine can bring forward.
func giveUp(ctx context.Context, armed *httpproxy.Armed, silent bool, f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	if silent {
		wg.Go(func() {
			if armed.Wait(ctx, 1) == nil {
				cancel()
			}
		})
	}
	err := f(ctx)
	cancel()
	wg.Wait()
	return err
}

// TestS3ClientRepeats: the library repeats by itself a CompleteMultipartUpload whose
// answer was cut, and the object is there once.
func TestS3ClientRepeats(t *testing.T) {
	t.Parallel()
	s := services.S3(t, false)
	ctx := deadline(t)
	px := httpproxy.Start(t, s.Address)
	b := s3At(s, px.URL, s.Bucket(t))
	done := b.upload(ctx, t, "epoch-7", parts('a')...)
	px.Add(httpproxy.CompleteMultipartUpload(true, proxy.Cut[*httpproxy.Message]()))
	seen := px.Add(httpproxy.Rule{Method: http.MethodPost, Query: []string{"uploadId"}, Times: proxy.Always})
	_, err := b.CompleteMultipartUpload(ctx, done, func(o *s3.Options) { o.Retryer = retry.NewStandard() })
	if c := code(err); err != nil && c != "NoSuchUpload" && c != "PreconditionFailed" {
		t.Errorf("repeated: %v", err)
	}
	if seen.Hits() != 2 {
		t.Errorf("%d requests, want two", seen.Hits())
	}
	if objects, uploads := b.counts(ctx, t); objects != 1 || uploads != 0 {
		t.Errorf("%d objects and %d open uploads, want one and none", objects, uploads)
	}
}
