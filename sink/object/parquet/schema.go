package parquet

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/compress/snappy"
	"github.com/parquet-go/parquet-go/compress/uncompressed"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// Compression is how pages are packed.
type Compression string

const (
	None   Compression = "none"
	Snappy Compression = "snappy"
	Zstd   Compression = "zstd"
)

// Kind is the type of a column.
type Kind int

const (
	Int64 Kind = iota
	String
	Double
	Bool
	Bytes       // from a JSON string in base64 (RFC 4648, padded)
	TimestampMS // from a JSON integer of Unix milliseconds or a string by RFC 3339
	Decimal     // from a JSON number or a string that holds one
	JSON        // any JSON value, as text
)

// Type is a column's type as settings write it.
type Type struct {
	Kind      Kind
	Precision int // of a Decimal: digits in all, 1 to 38
	Scale     int // of a Decimal: digits behind the point, 0 to Precision
}

var (
	kinds = map[string]Kind{
		"int64": Int64, "string": String, "double": Double, "bool": Bool,
		"bytes": Bytes, "timestamp_ms": TimestampMS, "json": JSON,
	}
	decimalType = regexp.MustCompile(`^decimal\( *([0-9]{1,2}) *, *([0-9]{1,2}) *\)$`)
)

// ParseType reads a column's type: int64, string, double, bool, bytes,
// timestamp_ms, json, decimal(p,s).
func ParseType(s string) (Type, error) {
	if k, ok := kinds[s]; ok {
		return Type{Kind: k}, nil
	}
	m := decimalType.FindStringSubmatch(s)
	if m == nil {
		return Type{}, fmt.Errorf("type %q: want int64, string, double, bool, bytes, timestamp_ms, json or decimal(precision,scale)", s)
	}
	p, _ := strconv.Atoi(m[1]) // two digits
	d, _ := strconv.Atoi(m[2])
	if p < 1 || p > 38 || d > p {
		return Type{}, fmt.Errorf("type %q: the precision must be 1 to 38, the scale 0 to the precision", s)
	}
	return Type{Kind: Decimal, Precision: p, Scale: d}, nil
}

// String gives the form that ParseType reads.
func (t Type) String() string {
	if t.Kind == Decimal {
		return fmt.Sprintf("decimal(%d,%d)", t.Precision, t.Scale)
	}
	for name, k := range kinds {
		if k == t.Kind {
			return name
		}
	}
	return fmt.Sprintf("kind(%d)", int(t.Kind))
}

func (t Type) node() parquet.Node {
	switch t.Kind {
	case Int64:
		return parquet.Leaf(parquet.Int64Type)
	case String:
		return parquet.String()
	case Double:
		return parquet.Leaf(parquet.DoubleType)
	case Bool:
		return parquet.Leaf(parquet.BooleanType)
	case Bytes:
		return parquet.Leaf(parquet.ByteArrayType)
	case TimestampMS:
		return parquet.Timestamp(parquet.Millisecond)
	case JSON:
		return parquet.JSON()
	}
	switch { // the Parquet format's LogicalTypes.md, DECIMAL
	case t.Precision <= 9:
		return parquet.Decimal(t.Scale, t.Precision, parquet.Int32Type)
	case t.Precision <= 18:
		return parquet.Decimal(t.Scale, t.Precision, parquet.Int64Type)
	}
	return parquet.Decimal(t.Scale, t.Precision, parquet.FixedLenByteArrayType(decimalBytes(t.Precision)))
}

// Names of the columns that are not fields of the value.
const (
	colKey       = "key"
	colValue     = "value"
	colTimestamp = "timestamp"
	colTopic     = "source_topic"
	colPartition = "source_partition"
	colOffset    = "source_offset"
)

// Columns are the declared columns and their types.
type Columns map[string]Type

// Format makes Parquet files. Make it with NewFormat.
type Format struct {
	columns []column // declared, by name; nil: the layout of whole records
	source  bool     // there are source columns
	schema  *parquet.Schema
	index   map[string]int // every column's name to its leaf
	options []parquet.WriterOption
}

type column struct {
	name string
	typ  Type
}

// NewFormat gives the format with these columns; none: whole records. source
// adds the columns source_topic, source_partition and source_offset, which
// whole records always have.
func NewFormat(cols Columns, source bool, c Compression) (*Format, error) {
	f := &Format{source: source || len(cols) == 0, index: map[string]int{}}
	group := parquet.Group{}
	for _, name := range slices.Sorted(maps.Keys(cols)) {
		if name == "" {
			return nil, fmt.Errorf("schema: a column has no name")
		}
		f.columns = append(f.columns, column{name, cols[name]})
		group[name] = parquet.Optional(cols[name].node())
	}
	if len(cols) == 0 {
		group[colKey] = parquet.Optional(Type{Kind: Bytes}.node())
		group[colValue] = Type{Kind: JSON}.node()
		group[colTimestamp] = Type{Kind: TimestampMS}.node()
	}
	if f.source {
		for _, name := range []string{colTopic, colPartition, colOffset} {
			if _, ok := group[name]; ok {
				return nil, fmt.Errorf("schema: column %s is taken by source_columns; rename the field, or set source_columns: false", name)
			}
		}
		group[colTopic] = Type{Kind: String}.node()
		group[colPartition] = parquet.Leaf(parquet.Int32Type)
		group[colOffset] = Type{Kind: Int64}.node()
	}
	f.schema = parquet.NewSchema("record", group)
	for i, path := range f.schema.Columns() {
		f.index[path[0]] = i
	}
	f.options = f.writerOptions(codec(c))
	return f, nil
}

// writerOptions leave out the bounds of columns of any length: parquet-go keeps
// them whole, two values for each row group in memory until the end, and four
// for each page in the file.
func (f *Format) writerOptions(z compress.Codec) []parquet.WriterOption {
	options := []parquet.WriterOption{
		f.schema, parquet.Compression(z), parquet.DataPageStatistics(false),
		parquet.PageBufferSize(pageSize), parquet.WriteBufferSize(writeBuffer),
	}
	long := []string{colKey, colValue}
	if f.columns != nil {
		long = nil
	}
	for _, c := range f.columns {
		switch c.typ.Kind {
		case String, Bytes, JSON:
			long = append(long, c.name)
		}
	}
	for _, name := range long {
		options = append(options, parquet.SkipPageBounds(name))
	}
	return options
}

func codec(c Compression) compress.Codec {
	switch c {
	case Snappy:
		return &snappy.Codec{}
	case None:
		return &uncompressed.Codec{}
	}
	return &zstd.Codec{}
}

// Ext is "parquet".
func (f *Format) Ext() string { return "parquet" }
