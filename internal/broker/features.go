package broker

import (
	"context"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Features is what the protocol wants to know about a cluster.
type Features struct {
	ClusterID string // "": the cluster has none
	Brokers   int
	// TransactionVersion is the finalised transaction.version (KIP-890): from 2
	// on TxnOffsetCommit needs no AddOffsetsToTxn. 0: not finalised, or a
	// cluster that does not know it.
	TransactionVersion int16
	// MaxTransactionTimeout is transaction.max.timeout.ms; 0: unknown, since
	// the user may not ask.
	MaxTransactionTimeout time.Duration
}

// Features asks the cluster. It needs no rights but those of the plan.
func (a *Admin) Features(ctx context.Context) (Features, error) {
	brokers, err := a.metadata(ctx)
	if err != nil {
		return Features{}, err
	}
	f := Features{Brokers: len(brokers.Brokers)}
	if brokers.ClusterID != nil {
		f.ClusterID = *brokers.ClusterID
	}
	if f.TransactionVersion, err = a.transactionVersion(ctx); err != nil {
		return Features{}, err
	}
	for _, b := range brokers.Brokers {
		f.MaxTransactionTimeout, err = a.maxTransactionTimeout(ctx, b.NodeID)
		if err == nil || ctx.Err() != nil {
			break // else: one that has just died is listed for a while
		}
	}
	return f, err
}

func (a *Admin) metadata(ctx context.Context) (*kmsg.MetadataResponse, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // none; nil would be all
	req.AllowAutoTopicCreation = false
	resp, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return nil, explain("describe", "the cluster", err)
	}
	return resp, nil
}

func (a *Admin) brokers(ctx context.Context) ([]kmsg.MetadataResponseBroker, error) {
	resp, err := a.metadata(ctx)
	if err != nil {
		return nil, err
	}
	return resp.Brokers, nil
}

func (a *Admin) transactionVersion(ctx context.Context) (int16, error) {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "exactly", "1"
	resp, err := req.RequestWith(ctx, a.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return 0, explain("ask the features of", "the cluster", err)
	}
	for _, f := range resp.FinalizedFeatures {
		if f.Name == "transaction.version" {
			return f.MaxVersionLevel, nil
		}
	}
	return 0, nil
}

func (a *Admin) maxTransactionTimeout(ctx context.Context, node int32) (time.Duration, error) {
	const name = "transaction.max.timeout.ms"
	where := "broker " + strconv.Itoa(int(node))
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(node)), []string{name}
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return 0, explain("read the settings of", where, err)
	}
	for _, r := range resp.Resources {
		err := kerr.ErrorForCode(r.ErrorCode)
		if denied(err) {
			return 0, nil
		}
		if err != nil {
			return 0, explain("read the settings of", where, err)
		}
		for _, c := range r.Configs {
			if c.Name == name && c.Value != nil {
				ms, err := strconv.ParseInt(*c.Value, 10, 64)
				if err != nil {
					return 0, explain("read "+name+" of", where, err)
				}
				return time.Duration(ms) * time.Millisecond, nil
			}
		}
	}
	return 0, nil
}
