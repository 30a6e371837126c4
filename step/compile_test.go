package step

import (
	"errors"
	"slices"
	"testing"
)

func TestCompileErrors(t *testing.T) {
	t.Parallel()
	fields := map[string]string{"amount_cents": "int", "merchant_id": "string"}
	set := func(field, expr string) []Spec { return []Spec{{Set: []Assign{{field, expr}}}} }
	tests := []struct {
		name  string
		steps []Spec
		opts  Options
		want  CompileError
	}{
		{"nothing", []Spec{{}}, Options{}, CompileError{Step: "steps[0]", Msg: "the step does nothing", Suggestion: "give it one of where, drop, set, unset and flat_map"}},
		{"two kinds", []Spec{{Where: "true", Drop: "true"}}, Options{}, CompileError{Step: "steps[0]", Field: "drop", Msg: "a step has one of where, drop, set, unset and flat_map, but this has [where drop]", Suggestion: "make it several steps"}},
		{"a name of its own", []Spec{{Name: "steps[7]", Where: "1"}}, Options{}, CompileError{Step: "steps[7]", Field: "where", Line: 1, Col: 1, Msg: "the expression must give bool, but gives int", Suggestion: "compare it with something, as in x > 0"}},
		{"second step, second line", append(set("a", "1"), Spec{Set: []Assign{{"x", "1 +\n  nope(2)"}}}), Options{}, CompileError{Step: "steps[1]", Field: "set.x", Line: 2, Col: 3, Msg: "there is no function nope"}},
		{"undeclared field", []Spec{{Where: "amout_cents > 0"}}, Options{Fields: fields}, CompileError{Step: "steps[0]", Field: "where", Line: 1, Col: 1, Msg: "there is no field amout_cents", Suggestion: "did you mean amount_cents?"}},
		{"undeclared by value", []Spec{{Where: "value.merchant == ''"}}, Options{Fields: fields}, CompileError{Step: "steps[0]", Field: "where", Line: 1, Col: 6, Msg: "there is no field merchant", Suggestion: "did you mean merchant_id?"}},
		{"undeclared by has", []Spec{{Where: "has(merchant)"}}, Options{Fields: fields}, CompileError{Step: "steps[0]", Field: "where", Line: 1, Col: 4, Msg: "there is no field merchant", Suggestion: "did you mean merchant_id?"}},
		{"types", []Spec{{Where: "merchant_id > 0"}}, Options{Fields: fields}, CompileError{Step: "steps[0]", Field: "where", Line: 1, Col: 13, Msg: "found no matching overload for > applied to '(string, int)'"}},
		{"types that never equal", []Spec{{Where: `amount_cents == "1"`}}, Options{Fields: fields}, CompileError{Step: "steps[0]", Field: "where", Line: 1, Col: 14, Msg: "a int never equals a string"}},
		{"unset is gone", []Spec{{Unset: []string{"merchant_id"}}, {Where: `merchant_id == ""`}}, Options{Fields: fields}, CompileError{Step: "steps[1]", Field: "where", Line: 1, Col: 1, Msg: "there is no field merchant_id"}},
		{"bad path", set("a..b", "1"), Options{}, CompileError{Step: "steps[0]", Field: "set.a..b", Msg: `field "a..b": a name is empty`}},
		{"bad path to unset", []Spec{{Unset: []string{""}}}, Options{}, CompileError{Step: "steps[0]", Field: "unset.", Msg: `field "": a name is empty`}},
		{"set of nothing", []Spec{{Set: []Assign{}}}, Options{}, CompileError{Step: "steps[0]", Field: "set", Msg: "the step sets nothing"}},
		{"unset of nothing", []Spec{{Unset: []string{}}}, Options{}, CompileError{Step: "steps[0]", Field: "unset", Msg: "the step removes nothing"}},
		{"set twice", []Spec{{Set: []Assign{{"a", "1"}, {"a", "2"}}}}, Options{}, CompileError{Step: "steps[0]", Field: "set.a", Msg: "the field is set twice in one step"}},
		{"empty expression", set("a", "  "), Options{}, CompileError{Step: "steps[0]", Field: "set.a", Line: 1, Col: 1, Msg: "the expression is empty"}},
		{"flat_map of a string", []Spec{{FlatMap: `"a"`}}, Options{}, CompileError{Step: "steps[0]", Field: "flat_map", Line: 1, Col: 1, Msg: "the expression must give list, but gives string"}},
		{"raw: set", set("a", "1"), Options{Format: Raw}, CompileError{Step: "steps[0]", Field: "set", Msg: "with source.format raw, values are passed through as they are", Suggestion: "use format json, or only where and drop"}},
		{"raw: a field", []Spec{{Where: "a > 0"}}, Options{Format: Raw}, CompileError{Step: "steps[0]", Field: "where", Line: 1, Col: 1, Msg: "there is no field a: with source.format raw, only key, headers and source can be used"}},
		{"raw: value", []Spec{{Where: "value.a > 0"}}, Options{Format: Raw}, CompileError{Step: "steps[0]", Field: "where", Line: 1, Col: 1, Msg: "there is no field value: with source.format raw, only key, headers and source can be used"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Compile(tt.steps, tt.opts)
			var got *CompileError
			if !errors.As(err, &got) || *got != tt.want {
				t.Errorf("got  %+v (%v)\nwant %+v", got, err, tt.want)
			}
		})
	}
}

func TestCompileOptions(t *testing.T) {
	t.Parallel()
	if _, err := Compile(nil, Options{Format: "xml"}); err == nil {
		t.Error("an unknown format gave no error")
	}
	_, err := Compile(nil, Options{Fields: map[string]string{"a": "itn"}})
	if want := `declare field a: unknown type "itn"; did you mean int?`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestFieldsFollowTheSteps: what steps set is known, with its type, to later
// steps and to sinks.
func TestFieldsFollowTheSteps(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, append(paymentSteps(),
		Spec{Where: `processed_at > timestamp("2020-01-01T00:00:00Z") && fee_cents > 0`},
		Spec{Set: []Assign{{"audit.at", "processed_at"}}}),
		Options{Fields: map[string]string{"amount_cents": "int"}})
	c := p.NewChain()
	got, err := c.Apply(nil, payment(), testEpoch)
	if err != nil || len(got) != 1 {
		t.Fatalf("got %d results, %v", len(got), err)
	}
	for src, ok := range map[string]bool{
		`status == "ok"`:       true,
		`fee_cents > 0`:        true,
		`fee_cents == "0"`:     false, // known to be an int
		`has(audit)`:           true,
		`merchant_id == ""`:    false, // not declared
		`epoch.number > 1`:     false, // sinks have no epoch
		`source.offset > 1`:    true,
		`status + fee_cents`:   false,
		`audit.at == status`:   true,
		`processed_at == null`: true,
	} {
		if _, err := NewFilter(p.Env(), "sinks.a.where", src); (err == nil) != ok {
			t.Errorf("%s: error %v, want it to compile: %v", src, err, ok)
		}
	}
}

func TestUnverifiable(t *testing.T) {
	t.Parallel()
	set := func(kv ...string) Spec {
		var s Spec
		for i := 0; i < len(kv); i += 2 {
			s.Set = append(s.Set, Assign{kv[i], kv[i+1]})
		}
		return s
	}
	tests := []struct {
		name   string
		steps  []Spec
		fields []string
		fates  []string
	}{
		{"none", []Spec{set("a", "b")}, nil, nil},
		{"the payments job", paymentSteps(), []string{"processed_at"}, nil},
		{"through another field", []Spec{set("a", "epoch.number"), set("b", "a + 1"), set("c", "b")}, []string{"a", "b", "c"}, nil},
		{"not within one set", []Spec{set("a", "epoch.number", "b", "a + 1")}, []string{"a"}, nil},
		{"overwritten", []Spec{set("a", "epoch.number"), set("a", "1")}, nil, nil},
		{"removed", []Spec{set("a.b", "epoch.number"), {Unset: []string{"a"}}}, nil, nil},
		{"nested", []Spec{set("a.b", "epoch.number"), set("c", "a.x")}, []string{"a.b", "c"}, nil},
		{"by value", []Spec{set("a", "epoch.number"), set("b", "value.a"), set("c", "value"), set("d", "value.x")}, []string{"a", "b", "c"}, nil},
		{"by has", []Spec{set("a", "epoch.number == 1 ? optional.of(1) : optional.none()"), set("b", "has(a)")}, []string{"a", "b"}, nil},
		{"inside a comprehension", []Spec{set("a", "l.map(x, epoch.number)")}, []string{"a"}, nil},
		{"a variable that hides it", []Spec{set("a", "epoch.number"), set("b", "l.map(a, a)")}, []string{"a"}, nil},
		{"fate", []Spec{{Where: "source.timestamp < epoch.time"}, set("a", "1")}, nil, []string{"steps[0].where"}},
		{"fate through a field", []Spec{set("a", "epoch.number"), {Unset: []string{"b"}}, {Drop: "a > 1"}}, []string{"a"}, []string{"steps[2].drop"}},
		{"flat_map of something else", []Spec{set("a", "epoch.number"), {FlatMap: "l"}}, nil, nil},
		{"flat_map", []Spec{{FlatMap: `[{"at": epoch.time}]`}, set("b", "x")}, []string{"*"}, []string{"steps[0].flat_map"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := mustCompile(t, tt.steps, Options{})
			if got := p.UnverifiableFields(); !slices.Equal(got, tt.fields) {
				t.Errorf("fields %q, want %q", got, tt.fields)
			}
			if got := p.UnverifiableFates(); !slices.Equal(got, tt.fates) {
				t.Errorf("fates %q, want %q", got, tt.fates)
			}
		})
	}
}
