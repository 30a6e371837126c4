package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// metadataMinAge is how soon a client asks again for metadata. The default of
// 5 s is how long TxnOffsetCommit may have to wait beside produces that add
// partitions.
const metadataMinAge = 20 * time.Millisecond

// Options gives the options that every client of the pipeline starts from;
// append to them. It does no I/O: files are read when a connection is opened.
// Session time-out and heartbeat interval are among them.
func Options(c Config) ([]kgo.Opt, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.WithDefaults()
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID(c.ClientID),
		kgo.WithLogger(logAdapter{log: c.Log, seen: &seenLines{last: map[string]time.Time{}}}),
		kgo.Dialer(dialer(c)),
		kgo.DisableClientMetrics(),

		kgo.RetryBackoffFn(backoff),
		kgo.RequestRetries(100), // short back-offs: the time-out ends the trying, not the count
		kgo.MetadataMinAge(metadataMinAge),
		kgo.MetadataMaxAge(30 * time.Second), // a new source partition is seen within this

		kgo.ProducerLinger(0),
		// Compression is left at the client's default, snappy: a third of LZ4's CPU
		// at the same ratio on JSON of 200 bytes a record. Clients that share one
		// option race on the list inside it.
		kgo.ConcurrentTransactionsBackoff(5 * time.Millisecond),

		kgo.SessionTimeout(c.SessionTimeout),
		kgo.HeartbeatInterval(c.HeartbeatInterval),
	}
	if c.SASL.Mechanism != "" {
		m, err := c.login.mechanism(c.SASL, c.Log)
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.SASL(m))
	}
	return opts[:len(opts):len(opts)], nil
}

// backoff doubles from 10 ms to 500 ms. There is no jitter: a worker has few
// clients, and simulations replay.
func backoff(fails int) time.Duration {
	const least, most = 10 * time.Millisecond, 500 * time.Millisecond
	if fails < 1 {
		return least
	}
	if fails > 6 {
		return most
	}
	return min(least<<(fails-1), most)
}

// pause waits, or returns the context's error.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Admin does what is not bound to a task. It is safe for concurrent use.
type Admin struct {
	c    Config // with defaults
	opts []kgo.Opt
	cl   *kgo.Client
}

// NewAdmin makes an Admin with a client of its own. Nothing is dialled yet. The
// caller closes it.
func NewAdmin(c Config) (*Admin, error) {
	c = c.WithDefaults()
	opts, err := Options(c)
	if err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("make a kafka client: %w", err)
	}
	return &Admin{c: c, opts: opts, cl: cl}, nil
}

// Config gives the configuration, with defaults, that further clients start
// from: they share its login.
func (a *Admin) Config() Config { return a.c }

// Options gives the options that every further client of this worker starts
// from: they share its login. Do not modify the slice.
func (a *Admin) Options() []kgo.Opt { return a.opts }

// Client gives the Admin's own client, for requests that it has no method for.
func (a *Admin) Client() *kgo.Client { return a.cl }

// Names gives the names of one generation.
func (a *Admin) Names(generation int32) Names { return a.c.Names(generation) }

// Close closes the connections. Calls that are under way fail.
func (a *Admin) Close() { a.cl.Close() }

// Ping asks one broker for something, which shows that address, TLS and login
// are right.
func (a *Admin) Ping(ctx context.Context) error {
	err := a.cl.Ping(ctx)
	where := fmt.Sprintf("kafka at %v", a.c.Brokers)
	if errors.Is(err, io.EOF) {
		return &Problem{
			Code: CodeAuth, Place: where, Cause: "the broker closed the connection at once", Err: err,
			Remedy: "check kafka.tls and kafka.sasl against what the listener of that port expects",
		}
	}
	return explain("reach", where, err)
}

// place names a partition, as errors and logs show it.
func place(topic string, partition int32) string {
	return topic + "-" + strconv.Itoa(int(partition))
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
