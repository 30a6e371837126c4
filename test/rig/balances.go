//go:build services

package rig

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"exactly/internal/payments"
)

// balances are what a statement adds to: rows for each merchant, which are there
// before. Two lanes, by the partition's number: of four tasks each meets one other at
// its rows, and their deadlocks, a second each, leave time for the rest of a test. A
// trigger logs in the same transaction which payment it was, so that an effect that is
// not decided, or comes twice, is seen by its payment.
const balances = `CREATE TABLE balances (merchant_id text, lane int, cents bigint NOT NULL DEFAULT 0, payments bigint NOT NULL DEFAULT 0, last_payment uuid,
		PRIMARY KEY (merchant_id, lane));
	CREATE TABLE balances_log (payment_id uuid NOT NULL, place bigint GENERATED ALWAYS AS IDENTITY);
	CREATE FUNCTION log_payment() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO balances_log VALUES (NEW.last_payment); RETURN NULL; END $$;
	CREATE TRIGGER log_payment AFTER UPDATE ON balances FOR EACH ROW EXECUTE FUNCTION log_payment()`

func (p *Pipeline) makeBalances() {
	p.T.Helper()
	c, err := pgx.Connect(p.T.Context(), p.DSN)
	Check(p.T, err)
	defer func() { _ = c.Close(p.T.Context()) }()
	_, err = c.Exec(p.T.Context(), balances)
	Check(p.T, err)
	for i := range int64(payments.Merchants) {
		_, err = c.Exec(p.T.Context(), "INSERT INTO balances VALUES ($1, 0), ($1, 1)", payments.Merchant(i))
		Check(p.T, err)
	}
}

// balance is what a merchant has.
type balance struct{ Cents, Payments int64 }

// WantBalances wants every merchant's balance to be that of the payments in the
// source, and nothing of the merchants whose payments were refused.
func (p *Pipeline) WantBalances(refused ...string) {
	p.T.Helper()
	want := map[string]balance{}
	for i := range int64(payments.Merchants) {
		want[payments.Merchant(i)] = balance{}
	}
	for _, r := range p.Read(p.Raw) {
		var in struct {
			Merchant string `json:"merchant_id"`
			Cents    int64  `json:"amount_cents"`
		}
		Check(p.T, json.Unmarshal(r.Value, &in))
		b := want[in.Merchant]
		if !slices.Contains(refused, in.Merchant) {
			b.Cents, b.Payments = b.Cents+in.Cents, b.Payments+1
		}
		want[in.Merchant] = b
	}
	if got := p.balances(); fmt.Sprint(got) != fmt.Sprint(want) { // maps are printed in the order of their keys
		p.T.Errorf("balances:\n got %v\nwant %v", got, want)
	}
}

func (p *Pipeline) balances() map[string]balance {
	p.T.Helper()
	c, err := pgx.Connect(p.T.Context(), p.DSN)
	Check(p.T, err)
	defer func() { _ = c.Close(p.T.Context()) }()
	rows, err := c.Query(p.T.Context(), "SELECT merchant_id, sum(cents)::bigint, sum(payments)::bigint FROM balances GROUP BY merchant_id")
	Check(p.T, err)
	got := map[string]balance{}
	var merchant string
	var b balance
	_, err = pgx.ForEachRow(rows, []any{&merchant, &b.Cents, &b.Payments}, func() error {
		got[merchant] = b
		return nil
	})
	Check(p.T, err)
	return got
}
