// Package decimal compares numbers by their digits, as JSON writes them, in
// whatever notation: 1e18 is 1000000000000000000, and 1.50 is 1.5.
package decimal
