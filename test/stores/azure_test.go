//go:build services

package stores

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"exactly/internal/services"
)

// blockBlob is a client that asks once and never again by itself.
func blockBlob(t *testing.T, s *services.AzureServer, container, name string) *blockblob.Client {
	t.Helper()
	key, err := blob.NewSharedKeyCredential(s.Account, s.Key)
	check(t, err)
	o := &blockblob.ClientOptions{ClientOptions: azcore.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}}
	cl, err := blockblob.NewClientWithSharedKeyCredential(s.Service+"/"+container+"/"+name, key, o)
	check(t, err)
	return cl
}

// stage sends blocks that are not part of the blob before they are committed.
func stage(ctx context.Context, t *testing.T, cl *blockblob.Client, texts ...string) (ids []string) {
	t.Helper()
	for i, text := range texts {
		id := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s-%04d", text[:1], i))
		_, err := cl.StageBlock(ctx, id, streaming.NopCloser(bytes.NewReader([]byte(text))), nil)
		check(t, err)
		ids = append(ids, id)
	}
	return ids
}

// commit makes the blob of staged blocks if there is none.
func commit(ctx context.Context, cl *blockblob.Client, ids []string) error {
	_, err := cl.CommitBlockList(ctx, ids, &blockblob.CommitBlockListOptions{
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: new(azcore.ETagAny)}},
	})
	return err
}

// content is the blob, "" where there is none.
func content(ctx context.Context, t *testing.T, cl *blockblob.Client) string {
	t.Helper()
	out, err := cl.DownloadStream(ctx, nil)
	if bloberror.HasCode(err, bloberror.BlobNotFound) {
		return ""
	}
	check(t, err)
	defer out.Body.Close()
	b, err := io.ReadAll(out.Body)
	check(t, err)
	return string(b)
}

// TestAzureBlockList: staged blocks are invisible until their list is committed, a
// second commit on the condition that there is no blob is refused, and an orderly
// restart loses nothing. (A SIGKILL loses what came in the last seconds.)
func TestAzureBlockList(t *testing.T) {
	t.Parallel()
	s := services.Azure(t, true)
	ctx := deadline(t)
	container := s.Container(t)
	cl := blockBlob(t, s, container, "epoch-7")
	ids := stage(ctx, t, cl, "one ", "two")
	if got := content(ctx, t, cl); got != "" {
		t.Errorf("before the commit: got %q, want nothing", got)
	}
	check(t, commit(ctx, cl, ids))
	late := stage(ctx, t, cl, "other")
	if err := commit(ctx, cl, late); !bloberror.HasCode(err, bloberror.BlobAlreadyExists, bloberror.ConditionNotMet) {
		t.Errorf("a second commit: got %v, want the condition not met", err)
	}
	check(t, s.Proc().Terminate())
	if _, err := s.Proc().Wait(ctx); err != nil {
		t.Fatal(err)
	}
	check(t, s.Start(ctx))
	if got := content(ctx, t, cl); got != "one two" {
		t.Errorf("got %q, want %q", got, "one two")
	}
}

// TestAzureOneWinner: of two commits at once, on the condition that there is no
// blob, one is taken.
func TestAzureOneWinner(t *testing.T) {
	t.Parallel()
	s := services.Azure(t, false)
	ctx := deadline(t)
	container := s.Container(t)
	for i := range 5 {
		cl := blockBlob(t, s, container, fmt.Sprint("epoch-", i))
		lists := [2][]string{stage(ctx, t, cl, "a"), stage(ctx, t, cl, "b")}
		errs := race(func(i int) error { return commit(ctx, cl, lists[i]) })
		got := content(ctx, t, cl)
		if (errs[0] == nil) == (errs[1] == nil) || errs[0] == nil && got != "a" || errs[1] == nil && got != "b" {
			t.Errorf("two commits at once: %v, and the blob is %q", errs, got)
		}
	}
}
