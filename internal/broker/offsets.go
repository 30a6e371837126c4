package broker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Offsets are positions by topic and partition: of the next record to read,
// with the leader epoch of the record before it where it is known, else -1.
type Offsets map[string]map[int32]kgo.EpochOffset

func (o Offsets) set(topic string, partition int32, at kgo.EpochOffset) {
	if o[topic] == nil {
		o[topic] = map[int32]kgo.EpochOffset{}
	}
	o[topic][partition] = at
}

// each calls f in the order of topic and partition.
func (o Offsets) each(f func(topic string, partition int32, at kgo.EpochOffset)) {
	for _, t := range slices.Sorted(maps.Keys(o)) {
		for _, p := range slices.Sorted(maps.Keys(o[t])) {
			f(t, p, o[t][p])
		}
	}
}

// StartPosition is a parsed source.start: exactly one of Earliest, Latest, Time
// and Group says where a pipeline without a journal begins.
type StartPosition struct {
	Earliest bool
	Latest   bool
	Time     time.Time // zero: none
	Group    string    // take over this group's committed offsets
	// GroupElseEarliest: partitions that the group has no offset for begin at
	// their start, in place of an error.
	GroupElseEarliest bool
}

// ParseStart parses source.start. "" is earliest.
func ParseStart(s string) (StartPosition, error) {
	switch {
	case s == "" || s == "earliest":
		return StartPosition{Earliest: true}, nil
	case s == "latest":
		return StartPosition{Latest: true}, nil
	case strings.HasPrefix(s, "group:"):
		group, elseEarliest := strings.CutSuffix(strings.TrimPrefix(s, "group:"), ",earliest")
		if group != "" {
			return StartPosition{Group: group, GroupElseEarliest: elseEarliest}, nil
		}
	default:
		if t, err := time.Parse(time.RFC3339, s); err == nil {
			return StartPosition{Time: t}, nil
		}
	}
	return StartPosition{}, &Problem{
		Code: CodeStart, Place: "source.start", Cause: fmt.Sprintf("%q is no start position", s),
		Remedy: "give earliest, latest, a time as in 2026-01-31T15:04:05Z, group:NAME or group:NAME,earliest",
	}
}

// ResolveStart turns a start position into numbers for every partition of the
// topics, once: what it gives is stored by the first claim, and no reset policy
// acts ever after. "latest" and times count what is committed: a transaction
// that is open now is read from its first record on.
func (a *Admin) ResolveStart(ctx context.Context, start string, topics ...string) (Offsets, error) {
	pos, err := ParseStart(start)
	if err != nil {
		return nil, err
	}
	infos, err := a.DescribeTopics(ctx, topics...)
	if err != nil {
		return nil, err
	}
	switch {
	case pos.Latest:
		return a.list(ctx, infos, listEnd, true)
	case pos.Group != "":
		return a.fromGroup(ctx, pos, infos)
	case !pos.Time.IsZero():
		return a.fromTime(ctx, pos.Time, infos)
	}
	return a.list(ctx, infos, listStart, false)
}

// fromTime gives the first record at or after t, and the end where there is
// none.
func (a *Admin) fromTime(ctx context.Context, t time.Time, infos map[string]TopicInfo) (Offsets, error) {
	// The end first: a record that is written between the two questions is then
	// read, and not skipped.
	ends, err := a.list(ctx, infos, listEnd, true)
	if err != nil {
		return nil, err
	}
	out, err := a.list(ctx, infos, max(0, t.UnixMilli()), true)
	if err != nil {
		return nil, err
	}
	out.each(func(topic string, p int32, at kgo.EpochOffset) {
		if at.Offset < 0 {
			out[topic][p] = ends[topic][p]
		}
	})
	return out, nil
}

// fromGroup takes over what another consumer has committed.
func (a *Admin) fromGroup(ctx context.Context, pos StartPosition, infos map[string]TopicInfo) (Offsets, error) {
	all := map[string][]int32{}
	for t, info := range infos {
		for p := range info.Partitions {
			all[t] = append(all[t], p)
		}
	}
	committed, err := a.committed(ctx, pos.Group, all)
	if err != nil {
		return nil, err
	}
	starts, err := a.list(ctx, infos, listStart, false)
	if err != nil {
		return nil, err
	}
	ends, err := a.list(ctx, infos, listEnd, false)
	if err != nil {
		return nil, err
	}
	out := Offsets{}
	var without, outside []string
	starts.each(func(topic string, p int32, first kgo.EpochOffset) {
		at, ok := committed[topic][p]
		last := ends[topic][p]
		switch {
		case !ok && pos.GroupElseEarliest:
			out.set(topic, p, first)
		case !ok:
			without = append(without, place(topic, p))
		case at.Offset < first.Offset || at.Offset > last.Offset:
			outside = append(outside, fmt.Sprintf("%s: committed %d, the partition holds %d to %d",
				place(topic, p), at.Offset, first.Offset, last.Offset))
		default:
			out.set(topic, p, at)
		}
	})
	switch where := "source.start: group " + pos.Group; {
	case len(outside) > 0:
		return nil, &Problem{
			Code: CodeStart, Place: where, Cause: "offsets outside of the log (" + strings.Join(outside, "; ") + ")",
			Remedy: "records between them are gone, or the topic was made again: choose a start position by hand, or move the group's offsets first",
		}
	case len(without) > 0:
		return nil, &Problem{
			Code: CodeStart, Place: where, Cause: "no committed offset for " + strings.Join(without, ", "),
			Remedy: "check the group's name; write start: group:" + pos.Group + ",earliest to read such partitions from their start",
		}
	}
	return out, nil
}
