//go:build services

package database

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/services"
	"exactly/test/rig"
)

// TestOrdersExample runs the published pipeline file of orders as a user would, and
// audits it.
func TestOrdersExample(t *testing.T) {
	p := rig.New(t, services.Kafka(t, one), rig.Shape{Sinks: []string{"upserted"}, Postgres: services.Postgres(t, true)})
	root, err := services.Root()
	rig.Check(t, err)
	text, err := os.ReadFile(filepath.Join(root, "examples", "orders.yaml"))
	rig.Check(t, err)
	file := strings.NewReplacer("[orders]\n\nsteps", "["+p.Raw+"]\n\nsteps", "pipeline: orders", "pipeline: "+p.Name).Replace(string(text))
	rig.Check(t, os.WriteFile(p.File, []byte(file+"\nhttp: { listen: \"\" }\n"), 0o644))
	t.Setenv("KAFKA_BROKERS", strings.Join(p.Brokers, ","))
	t.Setenv("PG_DSN", p.DSN)

	cl := p.Cluster.Client(t)
	produce := func(key, value string) {
		r := &kgo.Record{Topic: p.Raw, Key: []byte(key), Value: []byte(value)}
		if value == "" {
			r.Value = nil
		}
		rig.Check(t, cl.ProduceSync(t.Context(), r).FirstErr())
	}
	order := func(id, shop, day string, quantities ...int) {
		var lines []string
		for i, q := range quantities {
			lines = append(lines, fmt.Sprintf(`{"sku":"s%d","quantity":%d,"cents":%d}`, i, q, 100*(i+1)))
		}
		produce(id, fmt.Sprintf(`{"order_id":%q,"shop":%q,"ordered_at":"%sT10:00:00Z","lines":[%s]}`, id, shop, day, strings.Join(lines, ",")))
	}
	for i := range 200 {
		order(fmt.Sprintf("o-%d", i), []string{"north", "south"}[i%2], fmt.Sprintf("2026-01-%02d", 1+i%5), 1, 1+i%3)
	}
	order("refused", "north", "2026-01-01", 1, 0) // the second line is
	w := p.Run(0)
	want := func(sql, want string) {
		t.Helper()
		rig.AwaitNil(t, sql, func(ctx context.Context) error {
			c, err := pgx.Connect(ctx, p.DSN)
			if err != nil {
				return err
			}
			defer func() { _ = c.Close(ctx) }()
			var got string
			if err := c.QueryRow(ctx, sql).Scan(&got); err != nil {
				return err
			}
			if got != want {
				return errors.New(got)
			}
			return nil
		})
	}
	const counts = `SELECT concat_ws(' ', (SELECT count(*) FROM orders), (SELECT count(*) FROM order_lines), (SELECT count(*) FROM daily_revenue), (SELECT sum(orders) FROM daily_revenue))`
	want(counts, "200 400 10 200")
	want("SELECT cents::text FROM daily_revenue WHERE day = '2026-01-01' AND shop = 'north'", "9800") // 20 orders: 100 each, and 200 for each of 39 of the second line
	order("o-0", "north", "2026-01-01", 5, 5)
	want("SELECT quantity::text FROM order_lines WHERE order_id = 'o-0' AND line = 2", "5")
	want("SELECT cents::text FROM daily_revenue WHERE day = '2026-01-01' AND shop = 'north'", "11000")
	p.Stop(w)
	if code, r := p.Audit(); code != 0 || r.Sink(t, "orders: order_lines").DeadLettered != 2 {
		t.Errorf("audit: exit code %d, %+v", code, r)
	}
}
