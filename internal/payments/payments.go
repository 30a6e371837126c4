package payments

import (
	"strconv"
	"time"

	"github.com/google/uuid"
)

// Payment is one record of the source.
type Payment struct {
	Index       int64
	ID          string // UUID, text form
	AmountCents int64
	Merchant    string // merchant-000 … merchant-019
	EventTime   time.Time
}

// Merchants is how many different merchants there are.
const Merchants = 20

// New gives payment i, from 0. eventTime goes in as it is.
func New(i int64, eventTime time.Time) Payment {
	return Payment{
		Index:       i,
		ID:          ID(i),
		AmountCents: i%500*100 + 1000,
		Merchant:    Merchant(i),
		EventTime:   eventTime,
	}
}

// ID is the id of payment i.
func ID(i int64) string {
	name := strconv.AppendInt([]byte("payment-"), i, 10)
	return uuid.NewSHA1(uuid.NameSpaceDNS, name).String()
}

// Merchant is the merchant of payment i.
func Merchant(i int64) string {
	n := strconv.FormatInt(i%Merchants, 10)
	return "merchant-" + "000"[len(n):] + n
}

// Key is the key of the payment's record.
func (p Payment) Key() []byte { return []byte(p.ID) }

// AppendJSON appends the value of the payment's record to dst.
func (p Payment) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"payment_id":"`...)
	dst = append(dst, p.ID...)
	dst = append(dst, `","amount_cents":`...)
	dst = strconv.AppendInt(dst, p.AmountCents, 10)
	dst = append(dst, `,"merchant_id":"`...)
	dst = append(dst, p.Merchant...)
	dst = append(dst, `","event_time":"`...)
	dst = p.EventTime.UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z")
	return append(dst, `"}`...)
}

// Enriched is what the demo's pipeline adds to a payment, but for processed_at,
// which only the deciding epoch knows.
type Enriched struct {
	Payment
	Status   string // review from 400.00 on, else ok
	FeeCents int64  // 2.9 %, rounded down, and 30 cents
}

// Enrich gives what the pipeline must make of p.
func (p Payment) Enrich() Enriched {
	e := Enriched{Payment: p, Status: "ok", FeeCents: p.AmountCents*29/1000 + 30}
	if p.AmountCents >= 40000 {
		e.Status = "review"
	}
	return e
}
