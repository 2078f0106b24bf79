package record

import (
	"math/rand/v2"
	"testing"
)

// The salt that is found for a record makes records of all the others of its segment, and of nothing else.
func TestSaltOf(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		salt := Salt(rng.Uint64())
		first, second := rng.Int64N(1<<32), rng.Int64N(1<<32)
		a := salt.Append(nil, first, &Head{Op: Set, Kind: Value, Seq: rng.Uint64()}, []byte("key"), []byte("value"))
		b := salt.Append(nil, second, &Head{Op: Set, Kind: Value, Seq: rng.Uint64(), Schema: 3}, []byte("another"), []byte("other value"))
		found, ok := SaltOf(a, first)
		if !ok {
			t.Fatalf("no salt for %q at %d", a, first)
		}
		h, head, err := Parse(b)
		if err == nil {
			_, _, err = found.Verify(b, second, &h, head)
		}
		if err != nil {
			t.Fatalf("the salt of one record is not that of the other: %v", err)
		}
		if _, _, err := found.Verify(b, second+1, &h, head); err == nil {
			t.Fatal("it makes a record of bytes at another offset")
		}
	}
	if _, ok := SaltOf([]byte("xyzxyzxy Sv"), 0); ok {
		t.Error("a salt for bytes that are no record")
	}
}
