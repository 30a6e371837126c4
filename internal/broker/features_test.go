package broker

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

func TestFeatures(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		opts  []kfake.Opt
		fault *kerr.Error
		want  Features
	}{
		"now": {
			[]kfake.Opt{kfake.NumBrokers(3)},
			nil,
			Features{"cluster-1", 3, 2, 15 * time.Minute},
		},
		"set": {
			[]kfake.Opt{kfake.BrokerConfigs(map[string]string{"transaction.max.timeout.ms": "60000"})},
			nil,
			Features{"cluster-1", 1, 2, time.Minute},
		},
		"old": {
			[]kfake.Opt{kfake.MaxVersions(kversion.V3_0_0())},
			nil,
			Features{"cluster-1", 2, 0, 15 * time.Minute},
		},
		"no right": {
			[]kfake.Opt{kfake.NumBrokers(1)},
			kerr.ClusterAuthorizationFailed,
			Features{"cluster-1", 1, 2, 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cl, c := fakeOf(t, tc.want.Brokers, append(tc.opts, kfake.ClusterID("cluster-1"))...)
			if tc.fault != nil {
				cl.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Err: tc.fault, Count: -1})
			}
			got, err := newAdmin(t, c).Features(soon(t))
			if err != nil || got != tc.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tc.want)
			}
		})
	}
}

// TestFeaturesOneDown: a broker that has just died is still listed, and no
// reason not to start.
func TestFeaturesOneDown(t *testing.T) {
	t.Parallel()
	_, c := fake(t)
	dial, down := c.Dialer, c.Brokers[0]
	c.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == down {
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		}
		return dial(ctx, network, address)
	}
	got, err := newAdmin(t, c).Features(soon(t))
	if err != nil || got.Brokers != 3 || got.MaxTransactionTimeout != 15*time.Minute {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestFeaturesFinalised: version 1 finalised on a cluster that supports 2.
func TestFeaturesFinalised(t *testing.T) {
	t.Parallel()
	_, c := fake(t)
	a := newAdmin(t, c)
	req := kmsg.NewPtrUpdateFeaturesRequest()
	f := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	f.Feature, f.MaxVersionLevel, f.UpgradeType = "transaction.version", 1, 2
	req.FeatureUpdates = append(req.FeatureUpdates, f)
	resp, err := req.RequestWith(soon(t), a.cl)
	if err != nil || resp.ErrorCode != 0 {
		t.Fatal(err, resp)
	}
	got, err := a.Features(soon(t))
	if err != nil || got.TransactionVersion != 1 {
		t.Errorf("got %+v, %v, want version 1", got, err)
	}
}
