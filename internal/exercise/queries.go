package exercise

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"exactly/internal/payments"
)

// questions are the three that people ask.
func questions() []Query {
	return []Query{
		{
			Title: "Total and unique",
			SQL:   "SELECT count(*) AS total, count(DISTINCT payment_id) AS unique_payments FROM " + table,
		},
		{
			Title: "Count per merchant",
			SQL:   "SELECT merchant_id, count(*) AS payments FROM " + table + " GROUP BY merchant_id ORDER BY merchant_id",
		},
		{
			Title: "Duplicate rate per hour",
			SQL: "SELECT date_trunc('hour', processed_at) AS hour, count(*) AS payments, sum(insert_count - 1) AS duplicates,\n" +
				"       round(100.0 * sum(insert_count - 1) / count(*), 3) AS duplicate_percent\n" +
				"FROM " + table + " GROUP BY 1 ORDER BY 1",
		},
	}
}

// ask puts the questions.
func (x *exercise) ask(ctx context.Context) ([]Query, error) {
	qs := questions()
	for i := range qs {
		// As text: the binary form of a numeric that is 0 loses its scale in pgx.
		rows, err := x.db.Query(ctx, qs[i].SQL, pgx.QueryResultFormats{pgx.TextFormatCode})
		if err != nil {
			return nil, fmt.Errorf("query %q: %w", qs[i].Title, err)
		}
		for _, d := range rows.FieldDescriptions() {
			qs[i].Columns = append(qs[i].Columns, d.Name)
		}
		for rows.Next() {
			vals, err := rows.Values()
			if err != nil {
				return nil, fmt.Errorf("query %q: %w", qs[i].Title, err)
			}
			row := make([]string, len(vals))
			for j, v := range vals {
				row[j] = cell(v, rows.RawValues()[j])
			}
			qs[i].Rows = append(qs[i].Rows, row)
		}
		if err := rows.Err(); err != nil {
			return nil, fmt.Errorf("query %q: %w", qs[i].Title, err)
		}
	}
	return qs, nil
}

// cell is a value for people: as PostgreSQL writes it, but for times, which are in UTC.
func cell(v any, text []byte) string {
	if t, ok := v.(time.Time); ok {
		return t.UTC().Format("2006-01-02 15:04")
	}
	return string(text)
}

// rightAnswers holds the answers against the payments that were written.
func (x *exercise) rightAnswers(qs []Query) bool {
	n := strconv.FormatInt(x.o.Payments, 10)
	if rows := qs[0].Rows; len(rows) != 1 || rows[0][0] != n || rows[0][1] != n {
		return false
	}
	want := map[string]int{}
	for i := range x.o.Payments {
		want[payments.Merchant(i)]++
	}
	if len(qs[1].Rows) != len(want) {
		return false
	}
	for _, r := range qs[1].Rows {
		if r[1] != strconv.Itoa(want[r[0]]) {
			return false
		}
	}
	for _, r := range qs[2].Rows {
		if r[2] != "0" {
			return false
		}
	}
	return true
}

// Print writes the result for people.
func (r *Result) Print(w io.Writer) error {
	var b bytes.Buffer
	for _, q := range r.Queries {
		fmt.Fprintf(&b, "\n%s\n\n%s;\n\n", q.Title, q.SQL)
		tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(tw, strings.Join(q.Columns, "\t")+"\t")
		for _, row := range q.Rows {
			fmt.Fprintln(tw, strings.Join(row, "\t")+"\t")
		}
		_ = tw.Flush() // into a buffer
	}
	fmt.Fprintln(&b, "\nAudit, against the source")
	if err := r.Audit.Print(&b); err != nil {
		return err
	}
	verdict := "RIGHT"
	if !r.Right {
		verdict = "WRONG"
	}
	fmt.Fprintf(&b, "\n%s: %d payments, the worker killed at %d rows, the next row %s later\n", verdict, r.Payments, r.KilledAt, r.Back.Round(time.Millisecond))
	_, err := b.WriteTo(w)
	return err
}
