// Package encode is what the object sink needs of a file format: package jsonl
// and package parquet implement it.
//
// An encoder writes into memory only (the caller moves the bytes on), so its
// writer never fails and an encoder is never left half way. What it holds back
// before writing is bounded by its caller, by Buffered and Flush.
package encode
