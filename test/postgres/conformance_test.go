//go:build services

package postgres

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"exactly/internal/services"
	"exactly/record"
	"exactly/sink"
	"exactly/sink/postgres"
	"exactly/sinktest"
)

func TestMain(m *testing.M) { os.Exit(services.Main(m)) }

// sized chooses by the one variable that says how large the tests are.
func sized[T any](t *testing.T, small, full T) T {
	t.Helper()
	f, err := services.Full()
	if err != nil {
		t.Fatal(err)
	}
	if f {
		return full
	}
	return small
}

// config gives the settings of a variant of the conformance suite.
func config(dsn, variant string) postgres.Config {
	c := postgres.Config{
		DSN: dsn, Table: "t", Key: []string{"id"}, Create: true,
		Schema: map[string]string{
			"id": "text NOT NULL", "value": "bigint NOT NULL CHECK (value < 1000000000)", "extra": "text",
			"n": "bigint GENERATED ALWAYS AS IDENTITY",
		},
	}
	switch variant {
	case "append":
		c.Mode, c.Key = "append", nil
	case "counted":
		c.Audit.InsertCount = "insert_count"
	case "statement":
		return postgres.Config{
			DSN: dsn, Mode: "statement", Statement: "INSERT INTO t (id, value, extra) VALUES ($1, $2, $3)",
			Args: []string{"id", "value.value", "extra"},
		}
	case "two_phase":
		c.Mode = "two_phase"
	case "two_phase append":
		c.Mode, c.Key = "two_phase", nil
	}
	return c
}

// target runs the suite on a database of its own.
func target(dsn, variant string) sinktest.Target {
	cfg := config(dsn, variant)
	return sinktest.Target{
		New: func(t sinktest.TB) sink.Sink {
			s, err := postgres.New("out", cfg)
			if err != nil {
				t.Fatalf("new sink: %v", err)
			}
			return s
		},
		Read: func(t sinktest.TB) []sinktest.Row { return read(t, dsn, variant == "counted") },
		Poison: func(s sinktest.Spec) record.Record {
			r := sinktest.Make(s)
			r.Value = []byte(`{"id":"` + s.ID + `","value":2000000000,"extra":""}`)
			return r
		},
	}
}

func session(t sinktest.TB, dsn string) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c
}

func read(t sinktest.TB, dsn string, counted bool) []sinktest.Row {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer func() { _ = c.Close(ctx) }()
	var there bool
	if err := c.QueryRow(ctx, "SELECT to_regclass('t') IS NOT NULL").Scan(&there); err != nil {
		t.Fatalf("look for the table: %v", err)
	}
	if !there {
		return nil
	}
	count := "0"
	if counted {
		count = "insert_count"
	}
	rows, err := c.Query(ctx, "SELECT id, value, coalesce(extra, ''), "+count+" FROM t ORDER BY n")
	if err != nil {
		t.Fatalf("read the table: %v", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r sinktest.Row, err error) {
		return r, row.Scan(&r.ID, &r.Value, &r.Extra, &r.Writes)
	})
	if err != nil {
		t.Fatalf("read the table: %v", err)
	}
	return out
}

// prepareTable makes the table where the sink does not.
func prepareTable(t sinktest.TB, dsn, variant string) {
	t.Helper()
	if variant != "statement" {
		return
	}
	const ddl = "CREATE TABLE t (id text NOT NULL, value bigint NOT NULL CHECK (value < 1000000000), extra text, n bigint GENERATED ALWAYS AS IDENTITY)"
	if _, err := session(t, dsn).Exec(t.Context(), ddl); err != nil {
		t.Fatalf("create the table: %v", err)
	}
}

func TestConformance(t *testing.T) {
	server := services.Postgres(t, false)
	sinktest.Run(t, sinktest.Subject{
		Variants: []string{"upsert", "counted", "append", "statement", "two_phase", "two_phase append"},
		Open: func(t sinktest.TB, variant string) sinktest.Target {
			dsn := server.DSN(server.Database(t.(testing.TB)))
			prepareTable(t, dsn, variant)
			return target(dsn, variant)
		},
	})
}

// TestPooler: nothing is kept in a session beyond a transaction, so that a pooler in
// transaction mode may stand between.
func TestPooler(t *testing.T) {
	server := services.Postgres(t, false)
	address := services.Pooler(t, server)
	sinktest.Run(t, sinktest.Subject{
		Variants: sized(t, []string{"counted", "two_phase"}, []string{"counted", "append", "statement", "two_phase"}), Rounds: 20, Large: 5000,
		Only: []string{
			"HappyPath", "BatchesAcrossEpochs", "RecordsOfOneKey", "TasksAtOnce", "LargeBatch", "SameBatchTwice", "ReplayAfterReopen",
			"Poison", "FailPoints", "AnswerLost", "Zombie", "RaceOfOwners", "ForeignMark", "CommitTwice", "CommitOfLostWork", "Sweep",
			"LateZombieStages", "RaceOfCommits",
		},
		Open: func(t sinktest.TB, variant string) sinktest.Target {
			dsn := server.DSN(server.Database(t.(testing.TB)))
			prepareTable(t, dsn, variant)
			direct, pooled := target(dsn, variant), target(strings.Replace(dsn, server.Address(), address, 1), variant)
			pooled.Read = direct.Read
			return pooled
		},
	})
}

// TestServerAway: the server crashes and is started again, also in the middle of
// what the sink does.
func TestServerAway(t *testing.T) {
	server := services.Postgres(t, true)
	start := func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := server.Start(ctx); err != nil {
			t.Error(err)
		}
	}
	crash := func() {
		if err := server.Crash(); err != nil {
			t.Error(err)
		}
	}
	sinktest.Run(t, sinktest.Subject{
		Variants: []string{"counted", "append", "two_phase"}, Serial: true, Only: []string{"ServiceDown", "MemoryWhileDown", "ServiceKilled"},
		Open: func(t sinktest.TB, variant string) sinktest.Target {
			target := target(server.DSN(server.Database(t.(testing.TB))), variant)
			target.Down = func(sinktest.TB) { crash() }
			target.Up = func(sinktest.TB) { start() }
			target.Kill = func(sinktest.TB) { crash(); start() }
			return target
		},
	})
}

// envDSN tells a child process its database.
const envDSN = "EXACTLY_TEST_POSTGRES"

// TestKilled kills real processes that write to one database.
func TestKilled(t *testing.T) {
	for _, variant := range sized(t, []string{"counted", "two_phase append"}, []string{"counted", "append", "two_phase", "two_phase append"}) {
		t.Run(variant, func(t *testing.T) {
			if os.Getenv(envDSN) == "" {
				server := services.Postgres(t, false)
				t.Setenv(envDSN, server.DSN(server.Database(t)))
			}
			sinktest.RunKilled(t, sinktest.Killed{
				Seed: 7,
				Open: func(sinktest.TB, string) sinktest.Target { return target(os.Getenv(envDSN), variant) },
			})
		})
	}
}
