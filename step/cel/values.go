package cel

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"exactly/record"
)

// rawJSON is an element or a field that is decoded when it is asked for.
type rawJSON []byte

// adapter lets cel-go's own containers hold rawJSON.
type adapter struct{}

func (adapter) NativeToValue(v any) ref.Val {
	if raw, ok := v.(rawJSON); ok {
		return decode(raw)
	}
	return types.DefaultTypeAdapter.NativeToValue(v)
}

// array is a JSON array; it remembers its bytes, so that passing it on changes
// nothing in it.
type array struct {
	traits.Lister
	raw []byte
}

func newArray(raw []byte) *array {
	var elems []rawJSON
	for e := range record.Elements(raw) {
		elems = append(elems, e)
	}
	return &array{Lister: types.NewDynamicList(adapter{}, elems), raw: raw}
}

// fields is where a mapping has its entries: a JSON object, a record, headers.
type fields interface {
	find(name string) (ref.Val, bool)
	names() []string // in order, each once
	appendJSON(dst []byte) ([]byte, error)
}

// mapping is a map with string keys over fields, walked in their order.
type mapping struct{ fields }

// object is the fields of a nested JSON object.
type object struct {
	raw   []byte
	order []string
	raws  map[string]rawJSON // nil: not looked into yet
}

func newObject(raw []byte) *mapping { return &mapping{&object{raw: raw}} }

func (o *object) open() {
	if o.raws != nil {
		return
	}
	o.raws = map[string]rawJSON{}
	for name, v := range record.Members(o.raw) {
		o.order = append(o.order, name)
		o.raws[name] = v
	}
}

func (o *object) find(name string) (ref.Val, bool) {
	o.open()
	raw, ok := o.raws[name]
	if !ok {
		return nil, false
	}
	return decode(raw), true
}

func (o *object) names() []string {
	o.open()
	return o.order
}

func (o *object) appendJSON(dst []byte) ([]byte, error) { return append(dst, o.raw...), nil }

// Find implements traits.Mapper.
func (m *mapping) Find(key ref.Val) (ref.Val, bool) {
	s, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	return m.find(string(s))
}

// FindStringKey spares cel-go the wrapping of keys that are constants.
func (m *mapping) FindStringKey(key string) (any, bool) {
	v, ok := m.find(key)
	return v, ok
}

// Get implements traits.Indexer.
func (m *mapping) Get(key ref.Val) ref.Val {
	if v, ok := m.Find(key); ok {
		return v
	}
	return failure(CodeExpression, "there is no field %v", key.Value())
}

// Contains implements traits.Container.
func (m *mapping) Contains(key ref.Val) ref.Val {
	_, ok := m.Find(key)
	return types.Bool(ok)
}

// Size implements traits.Sizer.
func (m *mapping) Size() ref.Val { return types.Int(len(m.names())) }

// IsZeroValue reports whether it is empty.
func (m *mapping) IsZeroValue() bool { return len(m.names()) == 0 }

// Iterator implements traits.Iterable.
func (m *mapping) Iterator() traits.Iterator {
	return types.NewStringList(types.DefaultTypeAdapter, m.names()).Iterator()
}

// Equal implements ref.Val.
func (m *mapping) Equal(other ref.Val) ref.Val {
	o, ok := other.(traits.Mapper)
	if !ok || o.Size() != m.Size() {
		return types.False
	}
	for _, name := range m.names() {
		v, _ := m.find(name)
		w, ok := o.Find(types.String(name))
		if !ok || equal(v, w) != types.True {
			return types.False
		}
	}
	return types.True
}

// Type implements ref.Val.
func (m *mapping) Type() ref.Type { return types.MapType }

// Value implements ref.Val.
func (m *mapping) Value() any {
	native := make(map[string]any)
	for _, name := range m.names() {
		v, _ := m.find(name)
		native[name] = v.Value()
	}
	return native
}

// ConvertToNative is not needed here: nothing leaves as a native value.
func (m *mapping) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("a map cannot become a %v", t)
}

// ConvertToType implements ref.Val.
func (m *mapping) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case types.MapType:
		return m
	case types.TypeType:
		return types.MapType
	}
	return failure(CodeWrongType, "a map cannot become a %s", t.TypeName())
}

// sorted is a map that an expression built. Go walks maps at random; results
// must not depend on that.
type sorted struct{ traits.Mapper }

func (s sorted) Iterator() traits.Iterator {
	return types.NewRefValList(types.DefaultTypeAdapter, sortedKeys(s.Mapper)).Iterator()
}

// sortedKeys are the keys of m by their JSON text.
func sortedKeys(m traits.Mapper) []ref.Val {
	var keys []ref.Val
	for it := m.Iterator(); it.HasNext() == types.True; {
		keys = append(keys, it.Next())
	}
	slices.SortFunc(keys, func(a, b ref.Val) int {
		return strings.Compare(keyText(a), keyText(b))
	})
	return keys
}

// keyText is a map key as a JSON field name. CEL has strings, ints, uints and
// bools for keys.
func keyText(k ref.Val) string {
	if s, ok := k.(types.String); ok {
		return string(s)
	}
	return fmt.Sprint(k.Value())
}

// ordered gives a value whose walk is the same every time.
func ordered(v ref.Val) ref.Val {
	m, ok := v.(traits.Mapper)
	if !ok {
		return v
	}
	if _, ok := v.(*mapping); ok {
		return v
	}
	return sorted{m}
}
