// Package jsonl is JSON Lines: one record's value a line, its bytes as they
// are where they have no line break, else with the space between tokens
// removed (numbers and strings keep their exact bytes). Optionally each line is
// an envelope with key, headers, timestamp and source beside the value.
//
// Files may be compressed with gzip (RFC 1952) or Zstandard (RFC 8878), as one
// stream. The compressors are set up small: about 1 MB for each open file.
package jsonl
