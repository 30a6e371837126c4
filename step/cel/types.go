package cel

import (
	"fmt"
	"maps"
	"slices"

	celgo "cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
)

// Type is the type of a declared field, or the one that an expression must
// have.
type Type string

const (
	TypeAny     Type = "any"     // not checked; a decimal, too, may be any
	TypeBool    Type = "bool"    // true, false
	TypeInt     Type = "int"     // signed 64 bit
	TypeUint    Type = "uint"    // unsigned 64 bit
	TypeDecimal Type = "decimal" // exact; a JSON integer will do
	TypeString  Type = "string"  // UTF-8
	TypeBytes   Type = "bytes"   // in JSON: a string in base64 (RFC 4648, section 4)
	TypeTime    Type = "time"    // in JSON: a string in RFC 3339
	TypeList    Type = "list"    // of any
	TypeMap     Type = "map"     // of any, with string keys
)

var decimalType = types.NewOpaqueType("decimal")

var celTypes = map[Type]*celgo.Type{
	TypeAny:     celgo.DynType,
	TypeBool:    celgo.BoolType,
	TypeInt:     celgo.IntType,
	TypeUint:    celgo.UintType,
	TypeDecimal: decimalType,
	TypeString:  celgo.StringType,
	TypeBytes:   celgo.BytesType,
	TypeTime:    celgo.TimestampType,
	TypeList:    celgo.ListType(celgo.DynType),
	TypeMap:     celgo.MapType(celgo.StringType, celgo.DynType),
}

// ParseType reads the name of a type, as in source.fields of a pipeline file.
func ParseType(s string) (Type, error) {
	if _, ok := celTypes[Type(s)]; ok {
		return Type(s), nil
	}
	names := make([]string, 0, len(celTypes))
	for _, t := range slices.Sorted(maps.Keys(celTypes)) {
		names = append(names, string(t))
	}
	if n := didYouMean(s, names); n != "" {
		return "", fmt.Errorf("unknown type %q; %s", s, n)
	}
	return "", fmt.Errorf("unknown type %q; there are %v", s, names)
}

// typeOf names a checked type; what has no name of its own is any.
func typeOf(t *celgo.Type) Type {
	switch t.Kind() {
	case types.BoolKind:
		return TypeBool
	case types.IntKind:
		return TypeInt
	case types.UintKind:
		return TypeUint
	case types.StringKind:
		return TypeString
	case types.BytesKind:
		return TypeBytes
	case types.TimestampKind:
		return TypeTime
	case types.ListKind:
		return TypeList
	case types.MapKind:
		return TypeMap
	case types.OpaqueKind:
		if t.TypeName() == decimalType.TypeName() {
			return TypeDecimal
		}
	}
	return TypeAny
}
