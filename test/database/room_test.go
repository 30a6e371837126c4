//go:build services

package database

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"exactly/test/rig"
)

// TestRoomUsedUp: others take every prepared transaction that the server allows. The
// tasks are paused, and say by which sink, instead of failing over and over, until
// there is room (failure mode 21).
func TestRoomUsedUp(t *testing.T) {
	p, w, l := underLoad(t, "staged")
	c, err := pgx.Connect(t.Context(), p.DSN)
	rig.Check(t, err)
	defer func() { _ = c.Close(context.Background()) }()
	var most int
	rig.Check(t, c.QueryRow(t.Context(), "SELECT current_setting('max_prepared_transactions')::int").Scan(&most))
	_, err = c.Exec(t.Context(), "CREATE TABLE strangers (n int)")
	rig.Check(t, err)
	taken := 0
	rig.Await(t, "all of the room to be taken", func(ctx context.Context) (string, bool) {
		for taken < most && prepareAnother(t, c, taken) {
			taken++
		}
		return fmt.Sprint(taken), taken == most
	})
	rig.Await(t, "the tasks to be paused", func(context.Context) (string, bool) {
		n := pausedBy(t, w, "staged")
		return fmt.Sprint(n), n == p.Tasks
	})
	begun := takeovers(w)
	rig.Pause(t, 5*time.Second)
	if now := takeovers(w); now != begun {
		t.Errorf("%d takeovers while there was no room", now-begun)
	}
	for i := range taken {
		_, err := c.Exec(t.Context(), fmt.Sprintf("ROLLBACK PREPARED 'stranger %d'", i))
		rig.Check(t, err)
	}
	n := l.Stop()
	l.Complete(w)
	p.Stop(w)
	l.WantDecided()
	p.WantRight(n)
	p.WantNothingOpen()
}

// prepareAnother is false where there is no room.
func prepareAnother(t *testing.T, c *pgx.Conn, i int) bool {
	t.Helper()
	_, err := c.Exec(t.Context(), fmt.Sprintf("BEGIN; INSERT INTO strangers VALUES (%d); PREPARE TRANSACTION 'stranger %d'", i, i))
	if e := (*pgconn.PgError)(nil); errors.As(err, &e) && e.Code == "53200" {
		_, err = c.Exec(t.Context(), "ROLLBACK")
		rig.Check(t, err)
		return false
	}
	rig.Check(t, err)
	return true
}

func takeovers(w *rig.Worker) (n int) {
	for _, e := range w.Entries() {
		if e.Msg == "task_taken_over" {
			n++
		}
	}
	return n
}
