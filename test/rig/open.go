//go:build services

package rig

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// OpenSince lists the pipeline's transactions that are open and began at or
// after a time.
func (p *Pipeline) OpenSince(ctx context.Context, from time.Time) []string {
	return p.open(ctx, func(begin time.Time) bool { return !begin.Before(from) })
}

// OpenBefore lists those that began before a time.
func (p *Pipeline) OpenBefore(ctx context.Context, to time.Time) []string {
	return p.open(ctx, func(begin time.Time) bool { return begin.Before(to) })
}

func (p *Pipeline) open(ctx context.Context, match func(begin time.Time) bool) []string {
	p.T.Helper()
	var ids []string
	for task := range p.Tasks {
		ids = append(ids, p.TxnIDs(p.Tasks)(int32(task))...)
	}
	described, err := p.Admin.DescribeTransactions(ctx, ids...)
	Check(p.T, err)
	var out []string
	for _, d := range described.Sorted() {
		if errors.Is(d.Err, kerr.TransactionalIDNotFound) {
			continue
		}
		Check(p.T, d.Err)
		if d.State == "Ongoing" && match(time.UnixMilli(d.StartTimestamp)) {
			out = append(out, d.TxnID)
		}
	}
	return out
}
