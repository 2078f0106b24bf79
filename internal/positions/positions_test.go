package positions

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func hexes(list [][]byte) string {
	var words []string
	for _, p := range list {
		words = append(words, hex.EncodeToString(p))
	}
	return strings.Join(words, " ")
}

func TestBetween(t *testing.T) {
	for _, c := range []struct {
		low, high string
		n, digits int
		want      string
	}{
		{"", "", 1, 1, "8000000000000000"},
		{"", "", 3, 1, "8000000000000000 8000000000000001 8000000000000002"},
		{"8000000000000000", "", 2, 1, "8000000000000001 8000000000000002"},
		{"", "8000000000000000", 2, 1, "7ffffffffffffffe 7fffffffffffffff"},
		{"8000000000000000", "8000000000000001", 1, 1, ""},
		{"8000000000000000", "8000000000000001", 1, 2, "80000000000000008000000000000000"},
		{"8000000000000000", "8000000000000001", 2, 2, "80000000000000008000000000000000 80000000000000008000000100000000"},
		{"80000000000000008000000000000000", "8000000000000001", 1, 8, "80000000000000008000000100000000"},
		{"8000000000000000", "80000000000000008000000000000000", 1, 8, "80000000000000007fffffff00000000"},
		{"80000000000000008000000000000000", "80000000000000008000000100000000", 1, 8, "80000000000000008000000080000000"},
		{"80000000000000008000000000000000", "80000000000000008000000000000001", 1, 8, "800000000000000080000000000000008000000000000000"},
		{"80000000000000008000000000000000", "", 1, 8, "8000000000000001"},
		{"", "80000000000000008000000000000000", 1, 8, "7fffffffffffffff"},
		{"8000000000000000", "8000000000000003", 2, 8, "8000000000000001 8000000000000002"},
		{"8000000000000000", "8000000000000009", 2, 8, "8000000000000003 8000000000000006"},
		{"ffffffffffffffff", "", 1, 8, "ffffffffffffffff8000000000000000"}, // the greatest digit
		{"fffffffffffffffe", "", 1, 8, "fffffffffffffffe8000000000000000"},
		{"", "0000000000000000", 1, 8, ""},
		{"", "0000000000000001", 1, 8, "00000000000000008000000000000000"},
		{"616263", "616264", 1, 8, "6162638000000000"}, // of another origin
		{"61", "6100", 1, 8, ""},
		{"61", "61", 1, 8, ""},
		{"62", "61", 1, 8, ""},
	} {
		var low, high []byte
		if c.low != "" {
			low, _ = hex.DecodeString(c.low)
		}
		if c.high != "" {
			high, _ = hex.DecodeString(c.high)
		}
		if got := hexes(Between(low, high, c.n, c.digits)); got != c.want {
			t.Errorf("Between(%s, %s, %d, %d) = %s, want %s", c.low, c.high, c.n, c.digits, got, c.want)
		}
	}
}

// Positions of a list with insertions are in order, and no longer than the pattern requires.
func TestBetweenNeighbours(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, c := range map[string]struct {
		index func(i, n int) int
		most  int // digits
	}{
		"at the end":               {func(_, n int) int { return n }, 1},
		"in front":                 {func(_, n int) int { return 0 }, 1},
		"one behind the other":     {func(i, _ int) int { return 5 + i }, 2},
		"one before the other":     {func(_, _ int) int { return 5 }, 2},
		"anywhere":                 {func(_, n int) int { return rng.IntN(n + 1) }, 4},
		"always in the middle":     {func(_, n int) int { return n / 2 }, 70},
		"between the two latest":   {func(i, _ int) int { return 5 + i/2 }, 70},
		"three at once, somewhere": {func(_, n int) int { return rng.IntN(n + 1) }, 4},
	} {
		list := Between(nil, nil, 10, 1)
		longest := 0
		for i := range 2000 {
			at := c.index(i, len(list))
			var low, high []byte
			if at > 0 {
				low = list[at-1]
			}
			if at < len(list) {
				high = list[at]
			}
			n := 1
			if strings.Contains(name, "three") {
				n = 3
			}
			added := Between(low, high, n, 1000)
			if len(added) != n {
				t.Fatalf("%s: %d positions between %x and %x", name, len(added), low, high)
			}
			list = slices.Insert(list, at, added...)
			for _, p := range added {
				longest = max(longest, len(p)/8)
			}
		}
		if !slices.IsSortedFunc(list, bytes.Compare) || len(slices.CompactFunc(slices.Clone(list), bytes.Equal)) != len(list) {
			t.Errorf("%s: they are not in order", name)
		}
		if longest > c.most {
			t.Errorf("%s: a position has %d digits, want %d at most", name, longest, c.most)
		}
	}
}

func FuzzBetween(f *testing.F) {
	f.Add([]byte("12345678"), []byte("12345679"), uint8(1))
	f.Add([]byte(nil), []byte("a"), uint8(3))
	f.Add([]byte("a"), []byte("a\x00"), uint8(2))
	f.Fuzz(func(t *testing.T, low, high []byte, n uint8) {
		if len(low) == 0 {
			low = nil
		}
		if len(high) == 0 {
			high = nil
		}
		list := Between(low, high, int(n)+1, 8)
		if list == nil {
			return
		}
		all := slices.Clone(list)
		if low != nil {
			all = append([][]byte{low}, all...)
		}
		if high != nil {
			all = append(all, high)
		}
		for i := 1; i < len(all); i++ {
			if bytes.Compare(all[i-1], all[i]) >= 0 {
				t.Fatalf("between %x and %x: %s", low, high, hexes(list))
			}
		}
		for _, p := range list {
			if len(p) > 64 {
				t.Fatalf("%x", p)
			}
		}
		if len(list) != int(n)+1 {
			t.Fatalf("%d positions", len(list))
		}
	})
}
