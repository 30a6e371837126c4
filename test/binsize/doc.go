// Package binsize holds the test that keeps the size of the binary: a stripped
// build for linux/amd64 may differ by 5 % from docs/binary-size.txt. A change
// that is meant is announced by
//
//	make size-update
//
// which writes the new size, and by the reason in the commit.
package binsize
