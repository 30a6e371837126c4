//go:build services

package stores

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"exactly/internal/services"
)

// bucket is one of a test, and a client that asks once and never again by itself.
type bucket struct {
	*s3.Client
	name string
}

// s3At is the server's own address, or that of a proxy before it.
func s3At(s *services.S3Server, url, name string) *bucket {
	return &bucket{s3.New(s3.Options{
		BaseEndpoint: aws.String(url), Region: s.Region, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(s.AccessKey, s.SecretKey, ""),
		Retryer:     aws.NopRetryer{},
	}), name}
}

// upload begins a multipart upload and sends its parts.
func (b *bucket) upload(ctx context.Context, t *testing.T, key string, parts ...[]byte) *s3.CompleteMultipartUploadInput {
	t.Helper()
	u, err := b.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: &b.name, Key: &key})
	check(t, err)
	done := &types.CompletedMultipartUpload{}
	for i, p := range parts {
		n := aws.Int32(int32(i + 1))
		out, err := b.UploadPart(ctx, &s3.UploadPartInput{Bucket: &b.name, Key: &key, UploadId: u.UploadId, PartNumber: n, Body: bytes.NewReader(p)})
		check(t, err)
		done.Parts = append(done.Parts, types.CompletedPart{PartNumber: n, ETag: out.ETag})
	}
	return &s3.CompleteMultipartUploadInput{Bucket: &b.name, Key: &key, UploadId: u.UploadId, MultipartUpload: done, IfNoneMatch: aws.String("*")}
}

// get is the object, nil where there is none.
func (b *bucket) get(ctx context.Context, t *testing.T, key string) []byte {
	t.Helper()
	out, err := b.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: &key})
	if errors.As(err, new(*types.NoSuchKey)) {
		return nil
	}
	check(t, err)
	defer out.Body.Close()
	body, err := io.ReadAll(out.Body)
	check(t, err)
	return body
}

// modified tells one version of the object from another; "" where there is none.
func (b *bucket) modified(ctx context.Context, t *testing.T, key string) string {
	t.Helper()
	out, err := b.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &b.name, Key: &key})
	if errors.As(err, new(*types.NotFound)) {
		return ""
	}
	check(t, err)
	return *out.ETag + " of " + out.LastModified.String()
}

// counts are the objects and the unfinished uploads of the bucket.
func (b *bucket) counts(ctx context.Context, t *testing.T) (objects, uploads int) {
	t.Helper()
	list, err := b.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &b.name})
	check(t, err)
	open, err := b.ListMultipartUploads(ctx, &s3.ListMultipartUploadsInput{Bucket: &b.name})
	check(t, err)
	return len(list.Contents), len(open.Uploads)
}

// code is the error's name in S3, "" for none.
func code(err error) string {
	if e := smithy.APIError(nil); errors.As(err, &e) {
		return e.ErrorCode()
	}
	return ""
}

// parts are two: all but the last have to be 5 MiB at least.
func parts(fill byte) [][]byte {
	return [][]byte{bytes.Repeat([]byte{fill}, 5<<20), []byte("end")}
}

// TestS3OneWinner: of two uploads of one key that are completed at once, both if
// there is no object, one is taken.
func TestS3OneWinner(t *testing.T) {
	t.Parallel()
	s := services.S3(t, false)
	ctx := deadline(t)
	b := s3At(s, s.URL, s.Bucket(t))
	for range 5 {
		b.name = s.Bucket(t)
		uploads := [2]*s3.CompleteMultipartUploadInput{
			b.upload(ctx, t, "epoch-7", parts('a')...), b.upload(ctx, t, "epoch-7", parts('b')...),
		}
		errs := race(func(i int) error {
			_, err := b.CompleteMultipartUpload(ctx, uploads[i])
			return err
		})
		winner := 0
		if errs[0] != nil {
			winner = 1
		}
		if errs[winner] != nil || errs[1-winner] == nil {
			t.Fatalf("two uploads completed at once: %v; want one of them taken", errs)
		}
		if c := code(errs[1-winner]); c != "PreconditionFailed" && c != "ConditionalRequestConflict" {
			t.Errorf("the loser is told %q (%v)", c, errs[1-winner])
		}
		if got, want := b.get(ctx, t, "epoch-7"), bytes.Join(parts(byte('a'+winner)), nil); !bytes.Equal(got, want) {
			t.Errorf("the object has %d bytes and begins with %q; want the winner's %d", len(got), got[:min(len(got), 1)], len(want))
		}
	}
}

// TestS3SurvivesSIGKILL: parts that were sent before can be completed after it, and
// what was completed is there.
func TestS3SurvivesSIGKILL(t *testing.T) {
	t.Parallel()
	s := services.S3(t, true)
	ctx := deadline(t)
	b := s3At(s, s.URL, s.Bucket(t))
	_, err := b.CompleteMultipartUpload(ctx, b.upload(ctx, t, "before", parts('a')...))
	check(t, err)
	open := b.upload(ctx, t, "after", parts('b')...)
	restart(t, s.Store)
	if got := b.get(ctx, t, "after"); got != nil {
		t.Errorf("an object of %d bytes that was never completed", len(got))
	}
	_, err = b.CompleteMultipartUpload(ctx, open)
	check(t, err)
	for key, fill := range map[string]byte{"before": 'a', "after": 'b'} {
		if got, want := b.get(ctx, t, key), bytes.Join(parts(fill), nil); !bytes.Equal(got, want) {
			t.Errorf("%s: got %d bytes, want %d", key, len(got), len(want))
		}
	}
	if objects, uploads := b.counts(ctx, t); objects != 2 || uploads != 0 {
		t.Errorf("got %d objects and %d open uploads, want 2 and none", objects, uploads)
	}
}
