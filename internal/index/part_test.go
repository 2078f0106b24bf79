package index

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

// deferred is a table whose entries are those of another, and have yet to be brought in.
func deferred(from *Table, load func(n int) (Part, error)) *Table {
	t := new(Table)
	var counts [Shards]Count
	for n := range counts {
		p := from.Part(nil, n)
		counts[n] = Count{int64(len(p.Entries) / SlotBytes), p.Schemas}
	}
	t.Defer(&counts, load)
	return t
}

// checkDeferred compares a table with one that brings its parts in from there.
func checkDeferred(tb testing.TB, table *Table, pool []uint64) {
	tb.Helper()
	loads := map[int]int{}
	again := deferred(table, func(n int) (Part, error) { loads[n]++; return table.Part(nil, n), nil })
	grown := again.Bytes() // which were not reported yet
	again.Grown = func(bytes int64) { grown += bytes }
	if again.Len() != table.Len() || !slices.Equal(again.Schemas(), table.Schemas()) || again.Bytes() > Shards/groupShards*groupBytes || len(loads) != 0 {
		tb.Fatalf("before anything is brought in: %d entries of %v in %d bytes, %d loads", again.Len(), again.Schemas(), again.Bytes(), len(loads))
	}
	for _, h := range pool {
		want, got := find(tb, table, h), find(tb, again, h)
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(want, got) {
			tb.Fatalf("Find(%x) = %x, want %x", h, got, want)
		}
	}
	for n, times := range loads {
		if times != 1 {
			tb.Fatalf("part %d was brought in %d times", n, times)
		}
	}
	again.check(tb)
	if again.Len() != table.Len() || !slices.Equal(again.Schemas(), table.Schemas()) || grown != again.Bytes() {
		tb.Fatalf("afterwards: %d entries of %v; %d bytes, %d reported", again.Len(), again.Schemas(), again.Bytes(), grown)
	}
}

// TestDeferredError: the look-up gets the error, the next one tries again, and other parts are not concerned.
func TestDeferredError(t *testing.T) {
	var table Table
	rng := rand.New(rand.NewPCG(1, 1))
	pool := hashes(rng, 1000, "random")
	for i, h := range pool {
		table.Insert(h, Address(i+1), 3)
	}
	bad, fails := int(pool[0]>>(64-shardBits)), 1
	failure := errors.New("it cannot be read")
	again := deferred(&table, func(n int) (Part, error) {
		if n == bad && fails > 0 {
			fails--
			return Part{}, failure
		}
		return table.Part(nil, n), nil
	})
	if _, err := again.Find(nil, pool[0]); err != failure {
		t.Fatalf("Find: %v", err)
	}
	for _, h := range pool {
		if got := find(t, again, h); len(got) != 1 {
			t.Fatalf("Find(%x) = %x", h, got)
		}
	}
	again.Insert(pool[0], 7, 4)
	if !again.Remove(pool[0], 1, 3) || again.Len() != 1000 {
		t.Errorf("%d entries", again.Len())
	}
	again.check(t)
}

// TestChangeOfDeferred: an entry is looked up before it is changed.
func TestChangeOfDeferred(t *testing.T) {
	var table Table
	table.Insert(5, 1, 0)
	again := deferred(&table, nil)
	for name, f := range map[string]func(){
		"Insert":  func() { again.Insert(5, 2, 0) },
		"Replace": func() { again.Replace(5, 1, 2, 0, 0) },
		"Remove":  func() { again.Remove(5, 1, 0) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s of entries that were not brought in", name)
				}
			}()
			f()
		}()
	}
}

// TestFillReplacesTheCount: the actual content of a part counts, not the announced one.
func TestFillReplacesTheCount(t *testing.T) {
	var table Table
	for i := range uint64(10) {
		table.Insert(i<<40, Address(i+1), i%2)
	}
	again := deferred(&table, nil)
	var other Table
	other.Insert(3<<40, 9, 5)
	if err := again.Fill(0, other.Part(nil, 0)); err != nil {
		t.Fatal(err)
	}
	if again.Len() != 1 || !slices.Equal(again.Schemas(), []SchemaCount{{5, 1}}) || !slices.Equal(find(t, again, 3<<40), []Address{9}) {
		t.Errorf("%d entries, %v", again.Len(), again.Schemas())
	}
	again.check(t)
}

// TestPartsThatAreNone: bytes that no table made are refused.
func TestPartsThatAreNone(t *testing.T) {
	var table Table
	table.Insert(1<<30, 1, 0)
	table.Insert(2<<30, 2, 0)
	good := table.Part(nil, 0).Entries
	swapped := append(slices.Clone(good[SlotBytes:]), good[:SlotBytes]...)
	free := slices.Clone(good)
	clear(free[4:8])
	for name, b := range map[string][]byte{"short": good[:SlotBytes+1], "out of order": swapped, "without an address": free} {
		if err := new(Table).Fill(0, Part{Entries: b}); err != ErrPart {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTranslate(t *testing.T) {
	var table, want Table
	rng := rand.New(rand.NewPCG(1, 1))
	for _, h := range hashes(rng, 500, "random") {
		a := Address(rng.Uint64N(1000)<<32 | 1 + rng.Uint64N(1<<32-1))
		table.Insert(h, a, 0)
		want.Insert(h, a+5<<32, 0)
	}
	for n := range Shards {
		p := table.Part(nil, n)
		if !p.Translate(func(a Address) (Address, bool) { return a + 5<<32, true }) {
			t.Fatal("Translate gave up")
		}
		if !slices.Equal(p.Entries, want.Part(nil, n).Entries) {
			t.Fatalf("part %d is translated wrongly", n)
		}
		if len(p.Entries) > 0 && p.Translate(func(a Address) (Address, bool) { return a, false }) {
			t.Fatal("Translate went on")
		}
	}
}
