package index

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// check verifies the invariants of every shard.
func (t *Table) check(tb testing.TB) {
	tb.Helper()
	total := 0
	for n := range Shards {
		s := t.shard(n)
		used, last := 0, slot{}
		for i, e := range s.slots {
			if e.offset == 0 {
				continue
			}
			used++
			home := s.home(e.order)
			if home > i || e.order < last.order {
				tb.Fatalf("shard %d: slot %d holds order %x, whose home is %d, after %x", n, i, e.order, home, last.order)
			}
			for j := home; j < i; j++ {
				if s.slots[j].offset == 0 {
					tb.Fatalf("shard %d: slot %d is free, between slot %d and its home %d", n, j, i, home)
				}
			}
			last = e
		}
		if used != s.used {
			tb.Fatalf("shard %d holds %d entries and counts %d", n, used, s.used)
		}
		total += used
	}
	if total != t.Len() {
		tb.Fatalf("%d entries, %d counted", total, t.Len())
	}
}

func find(tb testing.TB, table *Table, hash uint64) []Address {
	tb.Helper()
	list, err := table.Find(nil, hash)
	if err != nil {
		tb.Fatal(err)
	}
	return list
}

// hashes returns n hashes of the given kind.
func hashes(rng *rand.Rand, n int, kind string) []uint64 {
	list := make([]uint64, n)
	for i := range list {
		switch h := rng.Uint64(); kind {
		case "random":
			list[i] = h
		case "few orders": // long runs of equal ones
			list[i] = h&0xffff | h>>62<<26
		case "at the end": // homes at the very end of the array
			list[i] = h | 0xffffffff<<26
		}
	}
	return list
}

// TestTableAgainstMap compares a table with a map of sets under random changes.
func TestTableAgainstMap(t *testing.T) {
	for _, kind := range []string{"random", "few orders", "at the end"} {
		for seed := range uint64(20) {
			compareWithMap(t, kind, seed)
		}
	}
}

func compareWithMap(t *testing.T, kind string, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	var table Table
	want := map[uint64][]Address{}
	schemas := map[Address]uint64{}
	pool := hashes(rng, 400, kind)
	next := func() Address { return Address(rng.Uint64N(MaxSegments)<<32 | 1 + rng.Uint64N(1<<32-1)) }
	total := 0
	for step := range 3000 {
		h := pool[rng.IntN(len(pool))]
		switch have := want[h]; {
		case len(have) == 0 || rng.IntN(3) == 0 && len(have) < 3:
			a := next()
			schema := rng.Uint64N(5)
			table.Insert(h, a, schema)
			schemas[a] = schema
			want[h] = append(have, a)
			total++
		case rng.IntN(2) == 0:
			i, a := rng.IntN(len(have)), next()
			schema := rng.Uint64N(5)
			if !table.Replace(h, have[i], a, schemas[have[i]], schema) {
				t.Fatalf("%s, seed %d step %d: Replace(%x, %x) found nothing", kind, seed, step, h, have[i])
			}
			delete(schemas, have[i])
			schemas[a] = schema
			have[i] = a
		default:
			i := rng.IntN(len(have))
			if !table.Remove(h, have[i], schemas[have[i]]) {
				t.Fatalf("%s, seed %d step %d: Remove(%x, %x) found nothing", kind, seed, step, h, have[i])
			}
			delete(schemas, have[i])
			want[h] = slices.Delete(have, i, i+1)
			total--
		}
		if table.Len() != total {
			t.Fatalf("%s, seed %d step %d: Len = %d, want %d", kind, seed, step, table.Len(), total)
		}
		if step%500 == 0 {
			table.check(t)
		}
	}
	table.check(t)
	var all, wantAll []Address
	for _, h := range pool {
		got := find(t, &table, h)
		for _, a := range want[h] {
			if !slices.Contains(got, a) {
				t.Fatalf("%s, seed %d: Find(%x) = %x, without %x", kind, seed, h, got, a)
			}
		}
		if kind == "random" && len(got) != len(want[h]) {
			t.Fatalf("seed %d: Find(%x) = %x, want %x", seed, h, got, want[h])
		}
	}
	for n := range Shards {
		var err error
		if all, err = table.Shard(all, n); err != nil {
			t.Fatal(err)
		}
	}
	for _, have := range want {
		wantAll = append(wantAll, have...)
	}
	slices.Sort(all)
	slices.Sort(wantAll)
	if !slices.Equal(all, wantAll) {
		t.Fatalf("%s, seed %d: the shards list %d addresses, want %d", kind, seed, len(all), len(wantAll))
	}
	counts := map[uint64]int64{}
	for _, schema := range schemas {
		counts[schema]++
	}
	for _, c := range table.Schemas() {
		if counts[c.Schema] != c.Entries {
			t.Fatalf("%s, seed %d: %d entries of schema %d are counted, want %d", kind, seed, c.Entries, c.Schema, counts[c.Schema])
		}
		delete(counts, c.Schema)
	}
	if len(counts) > 0 {
		t.Fatalf("%s, seed %d: schemas %v are not counted", kind, seed, counts)
	}
	checkDeferred(t, &table, pool)
	if a := next(); table.Remove(pool[0], a, 0) || table.Replace(pool[0], a, a, 0, 1) {
		t.Fatalf("%s, seed %d: an address that was never entered was found", kind, seed)
	}
	table.Close()
	if table.Len() != 0 || table.Bytes() != 0 || find(t, &table, pool[0]) != nil {
		t.Fatal("a closed table is not empty")
	}
}

func TestEmptyTable(t *testing.T) {
	var table Table
	if got := find(t, &table, 1); got != nil {
		t.Errorf("Find in an empty table = %v", got)
	}
	if table.Len() != 0 || table.Bytes() != 0 || table.Remove(1, 1, 0) {
		t.Error("an empty table is not empty")
	}
}

func TestImpossibleAddress(t *testing.T) {
	for _, a := range []Address{0, 1 << 32, MaxSegments<<32 | 5} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("address %x was entered", uint64(a))
				}
			}()
			new(Table).Insert(1, a, 0)
		}()
	}
}

// TestBytesPerKey: the memory of an entry at every size, growth included.
func TestBytesPerKey(t *testing.T) {
	var table Table
	rng := rand.New(rand.NewPCG(1, 1))
	n, worst := 0, 0.0
	for n < 1_000_000 {
		table.Insert(rng.Uint64(), Address(n+1), 0)
		n++
		if n >= 100_000 && n%1000 == 0 {
			worst = max(worst, float64(table.Bytes())/float64(n))
		}
	}
	t.Logf("at most %.1f bytes a key from 100,000 to 1,000,000 keys", worst)
	if worst > 16.5 {
		t.Errorf("%.1f bytes a key", worst)
	}
	table.check(t)
	table.Close()
}

func BenchmarkFind(b *testing.B) {
	var table Table
	rng := rand.New(rand.NewPCG(1, 1))
	keys := hashes(rng, 1_000_000, "random")
	for i, h := range keys {
		table.Insert(h, Address(i+1), 0)
	}
	var buf [4]Address
	i := 0
	for b.Loop() {
		table.Find(buf[:0], keys[i*7919%len(keys)])
		i++
	}
	b.ReportMetric(float64(table.Bytes())/float64(len(keys)), "B/key")
}

func BenchmarkInsert(b *testing.B) {
	var table Table
	rng := rand.New(rand.NewPCG(1, 1))
	i := 0
	for b.Loop() {
		i++
		table.Insert(rng.Uint64(), Address(i), 0)
	}
	b.ReportMetric(float64(table.Bytes())/float64(i), "B/key")
}
