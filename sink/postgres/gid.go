package postgres

import (
	"fmt"
	"hash/fnv"
	"io"
	"net/url"
	"strconv"
	"strings"

	"exactly/sink"
)

// A prepared transaction is named by whose it is: incarnation, database, pipeline,
// sink, generation, task, attempt and epoch. (The names are those of the whole
// server.) PostgreSQL takes 200 bytes, less the zero (GIDSIZE in xact.h).
const maxGID = 199

// stagedBy is what the name of a prepared transaction says beside the owner's.
type stagedBy struct {
	generation, task int32
	attempt, epoch   int64
}

// gidPrefix is common to all generations and tasks of a sink.
func gidPrefix(o sink.Owner, database string) string {
	db := fnv.New32a()
	_, _ = io.WriteString(db, database)
	name := func(s string) string { return url.QueryEscape(s) }
	p := fmt.Sprintf("exactly:%s:%08x:%s:%s:", o.Incarnation, db.Sum32(), name(o.Pipeline), name(o.Sink))
	if numbers := 2*10 + 2*19 + 3; len(p)+numbers <= maxGID {
		return p
	}
	h := fnv.New128a()
	_, _ = fmt.Fprintf(h, "%q %q", o.Pipeline, o.Sink)
	short := func(s string) string { return s[:min(len(s), 30)] }
	return fmt.Sprintf("exactly:%s:%08x:%s:%s~%x:", o.Incarnation, db.Sum32(), short(name(o.Pipeline)), short(name(o.Sink)), h.Sum(nil))
}

// gid names the transaction of an epoch.
func gid(o sink.Owner, database string, epoch int64) string {
	return fmt.Sprintf("%s%d:%d:%d:%d", gidPrefix(o, database), o.Generation, o.Task, o.Attempt, epoch)
}

// parseGID reads the name of a transaction of the owner's sink; false: it is none.
func parseGID(o sink.Owner, database, name string) (by stagedBy, ok bool) {
	rest, ok := strings.CutPrefix(name, gidPrefix(o, database))
	if !ok {
		return by, false
	}
	if by, ok = numbers(strings.Split(rest, ":")); !ok {
		return by, false
	}
	o.Generation, o.Task, o.Attempt = by.generation, by.task, by.attempt
	return by, gid(o, database, by.epoch) == name
}

// committedBy reads the numbers of a name that was ours, whatever the database was
// called then.
func committedBy(name string) (stagedBy, bool) {
	parts := strings.Split(name, ":")
	if !strings.HasPrefix(name, anyGID) || len(parts) < 4 {
		return stagedBy{}, false
	}
	return numbers(parts[len(parts)-4:])
}

// numbers reads the four at the end of a name.
func numbers(s []string) (by stagedBy, ok bool) {
	if len(s) != 4 {
		return by, false
	}
	var n [4]int64
	for i, p := range s {
		var err error
		if n[i], err = strconv.ParseInt(p, 10, 64); err != nil {
			return by, false
		}
	}
	return stagedBy{int32(n[0]), int32(n[1]), n[2], n[3]}, true //nolint:gosec // compared by the caller
}
