package journal

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"exactly/sink"
)

func sample() *Record {
	return &Record{
		Format: 1, Incarnation: "00112233445566aa", Pipeline: "payments", Generation: 2, Task: 1, Attempt: 3, Epoch: 9, Time: 1,
		Sources: []Source{{Topic: "payments.raw", ID: "ab", Partitions: []Partition{{Partition: 1, Offset: 1 << 60, LeaderEpoch: -1}}}},
		Tail:    Tail{Pos: sink.Pos{Epoch: 9, Index: 4}, Offset: 77, Bytes: 1000},
		Cursors: map[string]*Cursor{"records": {Pos: sink.Pos{Epoch: 8, Index: 2}, Offset: 70, Bytes: 900}},
		Pending: []Pending{{Committable: sink.Committable{Sink: "lake", Attempt: 3, Epoch: 9, Data: []byte{0, 1, 255}}, Offset: 60}},
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	want := sample()
	b, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	good, _ := sample().Encode()
	for _, tc := range []struct {
		name, in string
		want     error
	}{
		{"newer", strings.Replace(string(good), `"format":1`, `"format":2`, 1), ErrNewer},
		{"newer with unknown shape", `{"format":9,"epoch":"many"}`, ErrNewer},
		{"not json", "epoch 9", ErrCorrupt},
		{"empty", "", ErrCorrupt},
		{"another document", `{"format":1}`, ErrCorrupt},
		{"duplicate key", strings.Replace(string(good), `"task":1`, `"task":1,"task":2`, 1), ErrCorrupt},
		{"null cursor", strings.Replace(string(good), `"cursors":{`, `"cursors":{"x":null,`, 1), ErrCorrupt},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if _, err := Decode([]byte(tc.in)); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

func TestCloneIsDeep(t *testing.T) {
	t.Parallel()
	a := sample()
	b := a.Clone()
	b.Sources[0].Partitions[0].Offset = 1
	b.Cursors["records"].Offset = 1
	b.Pending[0].Offset = 1
	if !reflect.DeepEqual(a, sample()) {
		t.Errorf("changing the clone changed the original: %+v", a)
	}
}

func TestSame(t *testing.T) {
	t.Parallel()
	a, claim, later := sample(), sample(), sample()
	claim.Claim = true
	later.Epoch++
	switch {
	case !a.Same(sample()):
		t.Error("equal records are not the same")
	case a.Same(claim), a.Same(later), a.Same(nil):
		t.Error("different records are the same")
	case !(*Record)(nil).Same(nil):
		t.Error("no record twice is not the same")
	}
}

func FuzzDecode(f *testing.F) {
	good, _ := sample().Encode()
	f.Add(good)
	f.Add([]byte(`{"format":1,"cursors":{"a":null}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Decode(b)
		if err != nil {
			return
		}
		again, err := r.Clone().Encode()
		if err != nil {
			t.Fatal(err)
		}
		r2, err := Decode(again)
		if err != nil || !r2.Same(r) {
			t.Fatalf("decode(encode(r)): %v, %+v", err, r2)
		}
	})
}
