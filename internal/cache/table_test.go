package cache

import (
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/copaldb/copal/internal/index"
)

// model is a table and its expected content.
type model struct {
	*testing.T
	budget  *Budget
	table   *Table
	rng     *rand.Rand
	hash    func(key string) uint64
	cells   map[string]*Cell
	encoded map[*Cell]*Encoded
	stale   map[*Cell]bool // which must be reported to the index when they are removed
	closed  [Shards]bool
	address index.Address
}

func newModel(t *testing.T, rng *rand.Rand, hash func(string) uint64) *model {
	b := &Budget{}
	b.SetLimit(1 << 40)
	m := &model{T: t, budget: b, rng: rng, hash: hash, cells: map[string]*Cell{}, stale: map[*Cell]bool{}, encoded: map[*Cell]*Encoded{}}
	m.table = New(b, hash, func(c *Cell) {
		if !m.stale[c] || c.Stale == 0 {
			t.Errorf("settle is called with %+v", c)
		}
		delete(m.stale, c)
	})
	return m
}

// spread hashes well.
func spread(key string) uint64 {
	h := fnv.New64a()
	io.WriteString(h, key)
	return rand.NewPCG(0, h.Sum64()).Uint64()
}

// keyNamed is one of the keys of a model. Half of them are short; the others are as long as many others, up to
// a few KiB, and differ from each of those in a few bytes at one place: at the end, at the front, or in
// between.
func keyNamed(n int) string {
	name := strconv.Itoa(n)
	if n%2 == 0 {
		return name
	}
	length := [...]int{16, 33, 64, 257, 3000}[n/2%5]
	at := [...]int{length, 0, length / 2, length - 1}[n/10%4]
	return strings.Repeat("long", length)[:at] + fmt.Sprintf("%04d", n) + strings.Repeat("long", length)[at:length]
}

// hashes are the ways in which the keys of a model meet each other.
var hashes = map[string]func(string) uint64{
	"spread":         spread,
	"one shard":      func(key string) uint64 { return spread(key) &^ (Shards - 1) },
	"few shards":     func(key string) uint64 { return spread(key) &^ (Shards - 4) },
	"one bucket":     func(key string) uint64 { return spread(key) &^ (1<<40 - 1) },
	"one tag":        func(key string) uint64 { return spread(key) >> 8 &^ (Shards - 1) },
	"one hash":       func(key string) uint64 { return 7 },
	"last bucket":    func(key string) uint64 { return spread(key) | 1<<40 - 1 },
	"two and a tag":  func(key string) uint64 { return spread(key) & (1 << 63) },
	"tags only":      func(key string) uint64 { return spread(key) &^ (1<<57 - 1) },
	"neighbour tags": func(key string) uint64 { return spread(key) & (1 << 57) },
}

// cell makes a cell that is not published yet, of a random kind, and its encoded value.
func (m *model) cell(key string, before *Cell) (c *Cell, encoded *Encoded) {
	c = &Cell{}
	if before != nil {
		c.Address = before.Address
	}
	switch m.rng.IntN(6) {
	case 0: // as after SetAsync
		c.Dirty, c.Holds = true, true
	case 1:
		c.Dirty, encoded = true, &Encoded{Value: make([]byte, m.rng.IntN(50))}
	case 2: // as after DeleteAsync, for which there must be something
		if c.Dirty, c.Absent = true, true; c.Address == 0 {
			c.Absent, c.Holds = false, true
		}
	case 3: // as after SetInMemory, for which there must be something in the log
		if c.Memory, c.Holds = c.Address != 0 && !before.Dirty, true; !c.Memory {
			c.Dirty = true
		}
	default: // as after Set, or a read
		m.address++
		c.Address, c.Holds = m.address, true
		if before != nil && m.rng.IntN(2) == 0 { // the index does not know yet
			c.Stale = m.address + 1<<20
			m.stale[c] = true
		}
	}
	delete(m.stale, before) // the new cell knows it, or the caller has changed the index
	c.SetKey(key, m.rng.IntN(200))
	return c, encoded
}

// put is Swap of a cell that is announced if it has to be.
func put(t *Table, hash uint64, before, c *Cell) {
	if c.Dirty && (before == nil || !before.Dirty) {
		t.Announce()
	}
	t.Swap(hash, before, c)
}

func (m *model) step(keys int) {
	key := keyNamed(m.rng.IntN(keys))
	hash, before := m.hash(key), m.cells[key]
	if m.closed[hash%Shards] {
		return
	}
	switch n := m.rng.IntN(100); {
	case n < 60:
		c, encoded := m.cell(key, before)
		put(m.table, hash, before, c)
		if encoded != nil {
			m.table.Encode(hash, c, encoded)
		}
		m.cells[key], m.encoded[c] = c, encoded
	case n < 75 && before != nil:
		if m.rng.IntN(2) == 0 {
			delete(m.stale, before)
			m.table.Swap(hash, before, nil)
		} else if m.table.Drop(hash, before); m.stale[before] {
			m.Errorf("the index does not know %+v, which was dropped", before)
		}
		delete(m.cells, key)
	case n < 90 && before != nil && before.Dirty:
		m.address++
		delete(m.encoded, before)
		m.table.Written(hash, before, func(c *Cell) { c.Address, c.Weight, c.Schema = m.address, 1, 2 })
		if before.Absent {
			delete(m.cells, key)
		} else if before.Dirty || m.table.Encoded(hash, before) != nil || before.Address != m.address || before.Weight != 1 || before.Schema != 2 {
			m.Errorf("Written leaves %+v", before)
		}
	case n < 95:
		m.evict(int(hash % Shards))
	case before != nil:
		before.Touch()
	}
}

// evict lets a shard evict cells, and notes them.
func (m *model) evict(shard int) {
	m.budget.SetLimit(m.rng.Int64N(m.budget.Used() + 1))
	m.table.Evict(shard)
	m.budget.SetLimit(1 << 40)
	left := map[*Cell]bool{}
	m.table.Each(shard, func(c *Cell) { left[c] = true })
	for key, c := range m.cells {
		if m.hash(c.key)%Shards == uint64(shard) && !left[c] {
			if c.Dirty || c.Memory {
				m.Errorf("evicted %+v", c)
			}
			if m.stale[c] {
				m.Errorf("the index does not know %+v, which was evicted", c)
			}
			delete(m.cells, key)
		}
	}
}

func (m *model) close(shard int) {
	m.table.Close(shard)
	m.closed[shard] = true
	for key, c := range m.cells {
		if m.hash(c.key)%Shards == uint64(shard) {
			delete(m.cells, key)
		}
	}
}

// check compares everything that the table says with the model.
func (m *model) check() {
	m.Helper()
	var used, evictable int64
	var extra, dirty int
	inShard := map[uint64]int{}
	for key, c := range m.cells {
		if found := m.table.Find(m.hash(c.key), key); found != c {
			m.Errorf("Find(%q) = %+v, want %+v", key, found, c)
		}
		inShard[m.hash(c.key)%Shards]++
		used += int64(c.cost) + m.encoded[c].bytes()
		if !c.Dirty && !c.Memory {
			evictable += int64(c.cost)
		}
		if got := m.table.Encoded(m.hash(key), c); got != m.encoded[c] {
			m.Errorf("Encoded(%q) = %v, want %v", key, got, m.encoded[c])
		}
		switch {
		case c.Absent:
			extra--
		case c.Address == 0:
			extra++
		}
		if c.Dirty {
			dirty++
		}
		if c.Memory && (c.Dirty || c.Absent || c.Address == 0) || !c.Dirty && (c.Absent || c.Address == 0) {
			m.Errorf("there is a cell of %q that cannot be: dirty %v, absent %v, memory %v, address %d", c.key, c.Dirty, c.Absent, c.Memory, c.Address)
		}
	}
	if got := m.budget.Evictable(); got != evictable {
		m.Errorf("Evictable() = %d, want %d", got, evictable)
	}
	if m.budget.Used() != used || m.table.Extra() != extra || m.table.Dirty() != dirty {
		m.Errorf("used %d, extra %d, dirty %d, want %d, %d, %d",
			m.budget.Used(), m.table.Extra(), m.table.Dirty(), used, extra, dirty)
	}
	for n := range Shards {
		m.checkShard(n, inShard[uint64(n)])
	}
}

func (m *model) checkShard(n, cells int) {
	m.Helper()
	seen := map[*Cell]int{}
	m.table.Each(n, func(c *Cell) {
		seen[c]++
		if m.cells[c.key] != c {
			m.Errorf("Each yields %+v, which is not there", c)
		}
	})
	if len(seen) != cells {
		m.Errorf("Each yields %d cells, want %d", len(seen), cells)
	}
	dirty := map[*Cell]bool{}
	for _, d := range m.table.DirtyIn(n) {
		c := d.Cell
		if !c.Dirty || seen[c] != 1 || dirty[c] {
			m.Errorf("DirtyIn lists %+v", c)
		}
		dirty[c] = true
	}
	for c := range seen {
		if c.Dirty && !dirty[c] {
			m.Errorf("DirtyIn does not list %+v", c)
		}
	}
	if m.table.Empty(n) != (cells == 0) || m.table.Closed(uint64(n)) != m.closed[n] {
		m.Errorf("Empty = %v, Closed = %v, with %d cells", m.table.Empty(n), m.table.Closed(uint64(n)), cells)
	}
}

// A table behaves as a map does, whatever the hashes, and its counts are true.
func TestTableAgainstMap(t *testing.T) {
	runs := 1 // of each kind of hashes
	if os.Getenv("COPAL_LONG") == "1" {
		runs = 3
	}
	for name, hash := range hashes {
		t.Run(name, func(t *testing.T) {
			for range runs {
				seed := rand.Uint64()
				m := newModel(t, rand.New(rand.NewPCG(seed, 0)), hash)
				for i := range 4000 {
					m.step(300)
					if i%100 == 0 {
						m.check()
					}
					if t.Failed() {
						t.Fatalf("seed %d, step %d", seed, i)
					}
				}
				for n := range Shards {
					m.close(n)
					if n%16 == 0 {
						m.step(300)
						m.check()
					}
				}
				m.check()
				if t.Failed() {
					t.Fatalf("seed %d, while closing", seed)
				}
			}
		})
	}
}

// A search for a key that is not there ends, in an empty table, in one where every bucket has overflowed,
// and in one from which everything was taken out again.
func TestFindNothing(t *testing.T) {
	m := newModel(t, rand.New(rand.NewPCG(1, 1)), hashes["one shard"])
	if m.table.Find(1, "k") != nil {
		t.Error("an empty table has a cell")
	}
	insert := func(key string, hash uint64) {
		c := &Cell{Address: 1}
		c.SetKey(key, 1)
		put(m.table, m.hash(c.key), nil, c)
		m.cells[key] = c
	}
	s := m.table.made(0)
	insert("first", 0)
	a := s.array.Load()
	for i := range a.buckets { // no insertion does so, as the array grows before
		a.buckets[i].tags.Store(a.buckets[i].tags.Load() | helped)
	}
	for h := range uint64(8) {
		if c := m.table.Find(h<<57, "missing"); c != nil {
			t.Errorf("found %q", c.key)
		}
	}
	for i := range 500 {
		insert(strconv.Itoa(i), spread(strconv.Itoa(i))&^(Shards-1))
	}
	for i := range s.array.Load().buckets {
		b := &s.array.Load().buckets[i]
		b.tags.Store(b.tags.Load() | helped)
	}
	m.check()
	for i := 500; i < 1000; i++ {
		if c := m.table.Find(spread(strconv.Itoa(i))&^(Shards-1), strconv.Itoa(i)); c != nil {
			t.Errorf("found %q", c.key)
		}
	}
	for _, c := range m.cells {
		m.table.Swap(m.hash(c.key), c, nil)
	}
	clear(m.cells)
	m.check()
}

// When many come and go, the buckets that once overflowed do not stay so for ever, and the array
// does not grow by removed cells.
func TestComingAndGoing(t *testing.T) {
	m := newModel(t, rand.New(rand.NewPCG(2, 2)), hashes["one shard"])
	for i := range 20_000 {
		key := strconv.Itoa(i)
		c := &Cell{Address: 1}
		c.SetKey(key, 1)
		put(m.table, m.hash(c.key), nil, c)
		m.cells[key] = c
		if old := m.cells[strconv.Itoa(i-200)]; old != nil {
			m.table.Swap(m.hash(old.key), old, nil)
			delete(m.cells, old.key)
		}
	}
	m.check()
	a := m.table.made(0).array.Load()
	overflowed := 0
	for i := range a.buckets {
		if a.buckets[i].tags.Load()&helped != 0 {
			overflowed++
		}
	}
	if overflowed != a.full {
		t.Errorf("%d buckets have overflowed, %d are known", overflowed, a.full)
	}
	if slots := len(a.buckets) * bucketCells; slots > 200*4 || a.full*2 > len(a.buckets)+2 {
		t.Errorf("%d slots, %d of %d buckets overflowed, for 200 cells", slots, a.full, len(a.buckets))
	}
}

// However many keys have the same hash, each insertion costs at most one pass, not an array
// of twice the size.
func TestOneHashDoesNotGrowTheArray(t *testing.T) {
	m := newModel(t, rand.New(rand.NewPCG(3, 3)), hashes["one hash"])
	grown := 0
	var last *array
	for i := range 1000 {
		key := strconv.Itoa(i)
		c := &Cell{Address: 1}
		c.SetKey(key, 1)
		put(m.table, m.hash(c.key), nil, c)
		m.cells[key] = c
		if a := m.table.made(7).array.Load(); a != last {
			last = a
			grown++
		}
	}
	m.check()
	if slots := len(last.buckets) * bucketCells; slots > 1000*4 || grown > 20 {
		t.Errorf("%d slots in the %dth array for 1000 cells", slots, grown)
	}
}

// Readers that take no lock find, while the shard grows and evicts, each cell that stays, and never the
// cell of another key.
func TestFindWhileWriting(t *testing.T) {
	for name, hash := range hashes {
		t.Run(name, func(t *testing.T) {
			const stay, come, rounds = 20, 120, 8
			m := newModel(t, nil, hash)
			var locks [Shards]sync.Mutex
			swap := func(key string, dirty bool) {
				h := hash(key)
				c := &Cell{Address: 1, Dirty: dirty, Holds: true}
				c.SetKey(key, 10)
				locks[h%Shards].Lock()
				defer locks[h%Shards].Unlock()
				put(m.table, h, m.table.Find(h, key), c)
			}
			for i := range stay {
				swap(fmt.Sprint("stay ", i), true) // so that it is not evicted
			}
			var writers, readers sync.WaitGroup
			var done atomic.Bool
			for g := range 2 {
				writers.Go(func() {
					for r := range rounds {
						for i := range come {
							swap(fmt.Sprint("come ", (i+r*7)%come), false)
							if i%5 == g {
								swap(fmt.Sprint("stay ", i%stay), true)
							}
						}
						m.budget.SetLimit(1)
						for n := range Shards {
							locks[n].Lock()
							m.table.Evict(n)
							locks[n].Unlock()
						}
						m.budget.SetLimit(1 << 40)
						runtime.Gosched()
					}
				})
			}
			for range 2 {
				readers.Go(func() {
					for i := 0; !done.Load(); i++ {
						key := fmt.Sprint("stay ", i%stay)
						if c := m.table.Find(hash(key), key); c == nil || c.key != key || !c.Holds {
							t.Errorf("Find(%q) = %+v", key, c)
							return
						}
						key = fmt.Sprint("come ", i%come)
						if c := m.table.Find(hash(key), key); c != nil {
							c.Touch()
							if c.key != key {
								t.Errorf("Find(%q) = %+v", key, c)
								return
							}
						}
					}
				})
			}
			writers.Wait()
			done.Store(true)
			readers.Wait()
			m.table.Each(int(hash("come 0")%Shards), func(c *Cell) { m.table.Find(m.hash(c.key), c.key) })
			if m.table.Dirty() != stay {
				t.Errorf("%d dirty cells, want %d", m.table.Dirty(), stay)
			}
		})
	}
}

// Whatever the tags are, no search misses one.
func TestMatch(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for range 100_000 {
		tags, want := rng.Uint64(), 0x80|rng.Uint64N(0x80)
		for n := range bucketCells { // 0, the tag, one beside it, or any
			switch b := uint64(0xff) << (8 * n); rng.IntN(4) {
			case 0:
				tags &^= b
			case 1:
				tags = tags&^b | want<<(8*n)
			case 2:
				tags = tags&^b | (want^1)<<(8*n)
			}
		}
		found := match(tags, want)
		if found&^uint64(lowBits) != 0 {
			t.Fatalf("match(%x, %x) = %x has bits beside those of seven bytes", tags, want, found)
		}
		for n := range bucketCells {
			stands := tags>>(8*n)&0xff == want
			if marked := found>>(8*n)&1 == 1; stands && !marked {
				t.Fatalf("match(%x, %x) = %x misses byte %d", tags, want, found, n)
			} else if marked && !stands && found&(1<<(8*n)-1) == 0 {
				t.Fatalf("match(%x, %x) = %x begins with byte %d, which is another", tags, want, found, n)
			}
		}
	}
}

// Writing in a shard that was closed changes no count.
func TestSwapAfterClose(t *testing.T) {
	m := newModel(t, rand.New(rand.NewPCG(5, 5)), spread)
	for range 2000 {
		m.step(200)
	}
	for n := range Shards {
		m.close(n)
	}
	for _, c := range []*Cell{{Dirty: true, Holds: true}, {Memory: true, Holds: true}} {
		c.SetKey("k", 10)
		put(m.table, m.hash(c.key), nil, c)
	}
	if m.table.Find(1, "k") != nil {
		t.Error("a closed shard has taken a cell")
	}
	m.check()
}
