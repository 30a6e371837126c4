//go:build unix

package services

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// RedisServer is Redis with an append-only file that is flushed every second; what
// was acknowledged survives a SIGKILL, since the kernel has it.
type RedisServer struct{ *Store }

// Redis returns a server that is up. It is shared by the tests of a test binary
// unless own: then the test may kill it, and flush it.
func Redis(t testing.TB, own bool) *RedisServer {
	t.Helper()
	return &RedisServer{store(t, KindRedis, own)}
}

// Prefix begins the keys of one test.
func (*RedisServer) Prefix() string { return ownName() + ":" }

// S3Server is versitygw, S3 over a folder.
type S3Server struct {
	*Store
	Region, AccessKey, SecretKey string
}

// S3 returns a server that is up. It is shared by the tests of a test binary
// unless own.
func S3(t testing.TB, own bool) *S3Server {
	t.Helper()
	return &S3Server{Store: store(t, KindS3, own), Region: "us-east-1", AccessKey: "exactly", SecretKey: "exactly-secret"}
}

// Bucket makes a bucket that no other test knows. Addresses are of the form
// URL/bucket/key.
func (s *S3Server) Bucket(t testing.TB) (name string) {
	t.Helper()
	name = ownName()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.URL+"/"+name, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	const hashOfNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	req.Header.Set("X-Amz-Content-Sha256", hashOfNothing)
	keys := aws.Credentials{AccessKeyID: s.AccessKey, SecretAccessKey: s.SecretKey}
	if err := v4.NewSigner().SignHTTP(t.Context(), keys, req, hashOfNothing, "s3", s.Region, time.Now()); err != nil {
		t.Fatalf("sign: %v", err)
	}
	if _, err := s.do(req, http.StatusOK); err != nil {
		t.Fatal(err)
	}
	return name
}

// OpenSearchServer is OpenSearch, one node, open to everybody.
type OpenSearchServer struct{ *Store }

// OpenSearch returns a server that is up. It is shared by the tests of a test
// binary unless own.
func OpenSearch(t testing.TB, own bool) *OpenSearchServer {
	t.Helper()
	return &OpenSearchServer{store(t, KindOpenSearch, own)}
}

// Index is the name of an index that no other test knows. It is made by the first
// document, or by the test.
func (*OpenSearchServer) Index() string { return ownName() }

// AzureServer is Azurite, the blob service alone. It writes its tables every 5 s:
// what came since is gone after Kill, and kept after a Terminate.
type AzureServer struct {
	*Store
	Account, Key string
	Service      string // address of the account: URL/Account
}

// Azure returns a server that is up. It is shared by the tests of a test binary
// unless own.
func Azure(t testing.TB, own bool) *AzureServer {
	t.Helper()
	s := store(t, KindAzure, own)
	const account = "devstoreaccount1"
	return &AzureServer{
		Store: s, Account: account, Service: s.URL + "/" + account,
		// The one that its makers publish; it is not a secret.
		Key: "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
	}
}

// Container makes a container that no other test knows.
func (s *AzureServer) Container(t testing.TB) (name string) {
	t.Helper()
	name = ownName()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.Service+"/"+name+"?restype=container", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	key, err := base64.StdEncoding.DecodeString(s.Key)
	if err != nil {
		t.Fatal(err)
	}
	const version = "2021-08-06"
	date := time.Now().UTC().Format(http.TimeFormat)
	// "Authorize with Shared Key": the method, eleven headers that are empty, those
	// of Azure, the resource. An emulator's path names the account, hence twice.
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:%s\nx-ms-version:%s\n/%[3]s/%[3]s/%[4]s\nrestype:container", date, version, s.Account, name)
	req.Header.Set("x-ms-date", date)
	req.Header.Set("x-ms-version", version)
	req.Header.Set("Authorization", "SharedKey "+s.Account+":"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	if _, err := s.do(req, http.StatusCreated); err != nil {
		t.Fatal(err)
	}
	return name
}

// GCSServer is fake-gcs-server: the JSON API of Google Cloud Storage, open to
// everybody.
type GCSServer struct{ *Store }

// GCS returns a server that is up. It is shared by the tests of a test binary
// unless own.
func GCS(t testing.TB, own bool) *GCSServer {
	t.Helper()
	return &GCSServer{store(t, KindGCS, own)}
}

// Bucket makes a bucket that no other test knows.
func (s *GCSServer) Bucket(t testing.TB) (name string) {
	t.Helper()
	name = ownName()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := s.call(ctx, http.MethodPost, "/storage/v1/b?project=exactly", []byte(`{"name":"`+name+`"}`), http.StatusOK); err != nil {
		t.Fatal(err)
	}
	return name
}
