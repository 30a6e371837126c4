// Package bench holds the smoke test of `exactly bench` on a real broker.
package bench
