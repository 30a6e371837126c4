package embedded

import (
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Start gives a running cluster; the caller closes it.
//
// kfake ends an answer that reached the request's MaxBytes before it listed the
// aborted transactions of the partition at hand (01_fetch.go, "break full"), and a
// committed reader then takes aborted records for committed ones. The limit of a
// partition has no such flaw, so that requests are limited by it alone.
func Start(opts ...kfake.Opt) (*kfake.Cluster, error) {
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		return nil, fmt.Errorf("start the embedded Kafka: %w", err)
	}
	c.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) { //nolint:revive // kfake's signature
		byPartition(req.(*kmsg.FetchRequest))
		return nil, nil, false
	})
	return c, nil
}

// byPartition spreads the limit of an answer over its partitions. Those that the
// session knows, and the request does not name, keep the limits that they have.
func byPartition(req *kmsg.FetchRequest) {
	n := 0
	for i := range req.Topics {
		n += len(req.Topics[i].Partitions)
	}
	share := max(1, req.MaxBytes/int32(max(n, 1)))
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			p := &req.Topics[i].Partitions[j]
			p.PartitionMaxBytes = min(p.PartitionMaxBytes, share)
		}
	}
	req.MaxBytes = math.MaxInt32
}
