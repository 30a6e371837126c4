package services

import (
	"fmt"
	"os"
)

// SizeVariable is the one variable that says how large the tests are.
const SizeVariable = "EXACTLY_TEST_SIZE"

// Full reports whether tests run at full size ("full", by make full) or at
// the size of an ordinary run ("small", also when the variable is not set).
// Both run the same tests. Another value is an error, since a typing error
// would else make a small run look like a full one.
func Full() (bool, error) {
	switch v := os.Getenv(SizeVariable); v {
	case "", "small":
		return false, nil
	case "full":
		return true, nil
	default:
		return false, fmt.Errorf("%s is %q: want small or full", SizeVariable, v)
	}
}
