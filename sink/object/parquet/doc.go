// Package parquet is Apache Parquet with a flat schema, by parquet-go.
//
// Without declared columns (Record) a row is the record as it is: key, value
// (as JSON text), timestamp and the place in the source. Nothing is ever
// inferred from data, since what is inferred today may not fit tomorrow's
// record. With declared columns (Columns) a row holds these top-level fields of
// the record's JSON object; a missing field or a JSON null is null, and a field
// of another type is poison: it is never rounded, cut or guessed at.
//
// Files carry exactly.incarnation, .pipeline, .sink, .generation, .task, .from,
// .through, .layout and .source_columns as key-value metadata.
//
// The encoder holds one row group in memory; its caller bounds it by Buffered
// and Flush.
package parquet
