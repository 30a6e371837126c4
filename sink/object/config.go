package object

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"exactly/sink/object/encode"
	"exactly/sink/object/file"
	"exactly/sink/object/jsonl"
	"exactly/sink/object/parquet"
	"exactly/sink/object/store"
)

// Config is the setting of an object sink.
type Config struct {
	URL           string            `yaml:"url" required:"true" example:"file:///data/lake/payments" doc:"Where the files go: file:///absolute/path, or file://relative/path from the working directory."`
	Format        string            `yaml:"format" default:"jsonl" enum:"jsonl|parquet" doc:"The format of the files: JSON Lines or Parquet."`
	Compression   string            `yaml:"compression" enum:"none|gzip|zstd|snappy" doc:"How files are packed: jsonl takes none (its default), gzip or zstd; parquet takes zstd (its default), snappy or none."`
	Envelope      bool              `yaml:"envelope" default:"false" doc:"For jsonl: each line is an object with key, value, timestamp, headers and source, in place of the bare value."`
	Roll          Roll              `yaml:"roll" doc:"When a file is finished."`
	PartitionBy   string            `yaml:"partition_by" expr:"string" example:"\"date=\" + event_date" doc:"Expression for the sub-folder of a record's file."`
	MaxOpen       int               `yaml:"max_open" default:"8" min:"1" max:"64" doc:"With partition_by: how many files a task holds open; the least recently used is finished early."`
	Schema        map[string]string `yaml:"schema" example:"{ amount_cents: int64, fee: \"decimal(18,2)\" }" doc:"For parquet: columns and their types (int64, string, double, bool, bytes, timestamp_ms, json, decimal(p,s)), filled from the fields of the same names. Without it the columns are key, value, timestamp, source_topic, source_partition, source_offset."`
	SourceColumns bool              `yaml:"source_columns" default:"false" doc:"For parquet with a schema: add the columns source_topic, source_partition and source_offset."`
}

// Roll says when a file is finished.
type Roll struct {
	Size  int64         `yaml:"size" default:"128MB" unit:"bytes" min:"1" doc:"Finish a file that has come to this size."`
	Age   time.Duration `yaml:"age" default:"5m" min:"1ms" doc:"Finish a file this long after its first record; also how long the outbox is held at most."`
	Epoch bool          `yaml:"epoch" default:"false" doc:"One file for each epoch, however small; files are then visible soonest."`
}

const (
	defaultSize    = 128_000_000
	defaultAge     = 5 * time.Minute
	defaultMaxOpen = 8
)

// withDefaults fills in zero values, for callers that did not come through a
// pipeline file.
func (c Config) withDefaults() Config {
	if c.Format == "" {
		c.Format = "jsonl"
	}
	if c.Compression == "" {
		c.Compression = map[string]string{"jsonl": "none", "parquet": "zstd"}[c.Format]
	}
	if c.Roll.Size == 0 {
		c.Roll.Size = defaultSize
	}
	if c.Roll.Age == 0 {
		c.Roll.Age = defaultAge
	}
	if c.MaxOpen == 0 {
		c.MaxOpen = defaultMaxOpen
	}
	return c
}

func (c Config) check() error {
	switch {
	case c.Roll.Size < 0:
		return fmt.Errorf("roll.size: %d is below 1 byte", c.Roll.Size)
	case c.Roll.Age < 0:
		return fmt.Errorf("roll.age: %s is negative", c.Roll.Age)
	case c.MaxOpen < 1 || c.MaxOpen > 64:
		return fmt.Errorf("max_open: %d is not within 1 and 64", c.MaxOpen)
	}
	return nil
}

// openStore finds the store of a url by its scheme.
func openStore(rawURL string) (store.Store, error) {
	scheme, _, ok := strings.Cut(rawURL, "://")
	switch {
	case !ok:
		return nil, fmt.Errorf("url %q has no scheme; for a folder write file:///absolute/path or file://relative/path", rawURL)
	case scheme == "file":
		return file.Open(rawURL)
	case scheme == "s3", scheme == "gs", scheme == "az", scheme == "abfss":
		return nil, fmt.Errorf("url %q: scheme %s comes in a later release; this one writes file:// only", rawURL, scheme)
	}
	return nil, fmt.Errorf("url %q: unknown scheme %q; this release writes file:// only", rawURL, scheme)
}

func (c Config) format() (encode.Format, error) {
	switch c.Format {
	case "jsonl":
		return c.jsonlFormat()
	case "parquet":
		return c.parquetFormat()
	}
	return nil, fmt.Errorf("format %q: want jsonl or parquet", c.Format)
}

func (c Config) jsonlFormat() (encode.Format, error) {
	switch {
	case len(c.Schema) > 0:
		return nil, fmt.Errorf("schema: only parquet has one; set format: parquet, or remove it")
	case c.SourceColumns:
		return nil, fmt.Errorf("source_columns: only parquet has columns; for jsonl set envelope: true")
	}
	switch z := jsonl.Compression(c.Compression); z {
	case jsonl.None, jsonl.Gzip, jsonl.Zstd:
		return jsonl.Format{Compression: z, Envelope: c.Envelope}, nil
	}
	return nil, fmt.Errorf("compression %q: jsonl takes none, gzip or zstd", c.Compression)
}

func (c Config) parquetFormat() (encode.Format, error) {
	if c.Envelope {
		return nil, fmt.Errorf("envelope: only jsonl has one; parquet without a schema holds key, value, timestamp and source as columns")
	}
	z := parquet.Compression(c.Compression)
	switch z {
	case parquet.None, parquet.Snappy, parquet.Zstd:
	default:
		return nil, fmt.Errorf("compression %q: parquet takes zstd, snappy or none", c.Compression)
	}
	cols := parquet.Columns{}
	for _, name := range slices.Sorted(maps.Keys(c.Schema)) {
		t, err := parquet.ParseType(c.Schema[name])
		if err != nil {
			return nil, fmt.Errorf("schema.%s: %w", name, err)
		}
		cols[name] = t
	}
	return parquet.NewFormat(cols, c.SourceColumns, z)
}
