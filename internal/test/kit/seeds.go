package kit

import (
	"fmt"
	"os"
	"strconv"
	"testing"
)

// EachSeed runs a test of random operations for so many seeds: the many of them if tests may be
// long, a quarter of the usual ones if they must be short; or for the one that COPAL_SEED names.
func EachSeed(t *testing.T, usual, many uint64, test func(t *testing.T, seed uint64)) {
	t.Helper()
	if s := os.Getenv("COPAL_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		test(t, seed)
		return
	}
	seeds := usual
	switch {
	case Long():
		seeds = many
	case testing.Short():
		seeds = (usual + 3) / 4
	}
	for seed := range seeds {
		if !t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { test(t, seed) }) {
			t.Fatalf("again with: COPAL_SEED=%d go test -run '^%s$' .", seed, t.Name())
		}
	}
}
