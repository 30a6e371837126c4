//go:build services

package acceptance

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"exactly/internal/deadletter"
	"exactly/record"
	"exactly/test/rig"
)

// verifyLetters wants each letter once, with its bytes.
func (f *fates) verifyLetters(oversize string) {
	t := f.p.T
	t.Helper()
	got := map[string][]deadletter.Parsed{}
	for _, l := range f.letters() {
		got[letterKey(l)] = append(got[letterKey(l)], l)
	}
	for k, want := range f.want {
		ls := got[k]
		delete(got, k)
		at, _, _ := strings.Cut(k, " ")
		src := f.at[at]
		if len(ls) == 0 || ls[0].Code != want.code || ls[0].Reason == "" || ls[0].Stage == "" {
			t.Fatalf("%s: got %d letters, %+v, want code %s", k, len(ls), ls, want.code)
		}
		if msg := sameBytes(ls, src, want.code == "too_large", oversize); msg != "" {
			t.Fatalf("%s (%s): %s", k, want.code, msg)
		}
	}
	for k, ls := range got {
		t.Fatalf("%s: %d letters that nobody expected: code %s, %s", k, len(ls), ls[0].Code, ls[0].Reason)
	}
}

// sameBytes compares the letters of one record with it.
func sameBytes(ls []deadletter.Parsed, src *record.Record, large bool, oversize string) string {
	slices.SortFunc(ls, func(a, b deadletter.Parsed) int { return a.Piece - b.Piece })
	if large && oversize == "pointer" {
		if len(ls) != 1 || !ls[0].Pointer || len(ls[0].Record.Value) != 0 {
			return fmt.Sprintf("%d letters, want one that points to the source", len(ls))
		}
		return ""
	}
	var value []byte
	for i, l := range ls {
		if l.Piece != i+1 || l.Pieces != len(ls) || !bytes.Equal(l.Record.Key, src.Key) {
			return fmt.Sprintf("letter %d of %d says %d/%d, key %s", i+1, len(ls), l.Piece, l.Pieces, l.Record.Key)
		}
		value = append(value, l.Record.Value...)
	}
	if large != (len(ls) > 1) || !large && (len(ls[0].Record.Headers) != 1 || string(ls[0].Record.Headers[0].Value) != string(src.Key)) {
		return fmt.Sprintf("%d letters, headers %v", len(ls), ls[0].Record.Headers)
	}
	// A sink is given what the steps have made of the record, and so is a topic.
	decided, added, _ := bytes.Cut(value, []byte(`,"status":`))
	if decided = append(decided, '}'); large || ls[0].Sink != "" {
		if !bytes.Equal(decided, src.Value) || !bytes.Contains(added, []byte(`"fee_cents":`)) {
			return fmt.Sprintf("%.200s, which is not what the steps make of %.200s", value, src.Value)
		}
		return ""
	}
	if !bytes.Equal(value, src.Value) {
		return fmt.Sprintf("%d bytes, not the %d of the source", len(value), len(src.Value))
	}
	return ""
}

// verifyTombstones: deletes reach the topic and the table.
func (f *fates) verifyTombstones() {
	t := f.p.T
	t.Helper()
	tombs := map[string]int{}
	for _, r := range f.p.Read(f.p.Out) {
		if r.Value == nil {
			tombs[string(r.Key)]++
		}
	}
	db, err := rig.OpenDB(f.p.DB, "ro")
	rig.Check(t, err)
	defer db.Close()
	for _, id := range f.gone {
		var rows int
		rig.Check(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM payment_records WHERE payment_id = ?", id).Scan(&rows))
		if tombs[id] != 1 || rows != 0 {
			t.Errorf("payment %s: %d tombstones in the topic, %d rows; want one and none", id, tombs[id], rows)
		}
	}
	if len(tombs) != len(f.gone) {
		t.Errorf("%d tombstones in the topic, want %d", len(tombs), len(f.gone))
	}
}

// verifyBytes: numbers beyond what a double holds came through as they were.
func (f *fates) verifyBytes() {
	f.p.T.Helper()
	for _, r := range f.p.Read(f.p.Out) {
		if string(r.Key) == f.exact {
			if !bytes.Contains(r.Value, []byte(`"big":12345678901234567890123,"small":0.10000000000000000001`)) {
				f.p.T.Errorf("numbers were changed: %s", r.Value)
			}
			return
		}
	}
	f.p.T.Errorf("payment %s is not in the output", f.exact)
}
