package cache

import (
	"math/rand/v2"
	"strconv"
	"testing"
)

// When there is no room, a key gets a cell when it is asked for a second time, and not before.
func TestAdmit(t *testing.T) {
	b := &Budget{}
	b.SetLimit(100)
	h := func(i int) uint64 { return spread(strconv.Itoa(i)) }
	if !b.Admit(h(1), 100) {
		t.Error("refused though there is room")
	}
	b.used.Store(60)
	if !b.Admit(h(1), 40) {
		t.Error("refused though there is just room")
	}
	if b.Admit(h(1), 41) {
		t.Error("admitted at once though there is no room")
	}
	if !b.Admit(h(1), 41) {
		t.Error("refused though it was asked for before")
	}
	for range 3 {
		if b.Admit(h(2), 101) {
			t.Error("admitted more than all memory")
		}
	}
	b.used.Store(100)
	admitted := 0
	for i := range 100_000 { // a pass over a large map
		if b.Admit(h(i+10), 50) {
			admitted++
		}
	}
	if admitted > 10 {
		t.Errorf("a pass over 100,000 keys brought %d into memory", admitted)
	}
	if b.SetLimit(0); b.Admit(h(1), 1) {
		t.Error("admitted without any memory")
	}
}

func TestOver(t *testing.T) {
	b := &Budget{}
	b.SetLimit(10)
	for used, over := range map[int64]bool{0: false, 10: false, 11: true} {
		if b.used.Store(used); b.Over() != over || b.Used() != used {
			t.Errorf("with %d of 10, Over = %v", used, b.Over())
		}
	}
}

// clock fills one shard with n clean cells of cost 100 each, more or less.
func clock(t *testing.T, n int) (*model, []*Cell) {
	m := newModel(t, rand.New(rand.NewPCG(1, 1)), hashes["one shard"])
	var cells []*Cell
	for i := range n {
		key := strconv.Itoa(i)
		c := &Cell{Address: 1, Holds: true}
		c.SetKey(key, 100)
		put(m.table, m.hash(c.key), nil, c)
		m.cells[key] = c
		cells = append(cells, c)
	}
	return m, cells
}

// Cells that were read since the hand passed stay for one round; others are evicted.
func TestClock(t *testing.T) {
	m, cells := clock(t, 30) // all in reach of one call
	for i, c := range cells {
		if i%3 == 0 {
			c.Touch()
		}
	}
	m.budget.SetLimit(m.budget.Used() * 2 / 3)
	m.table.Evict(0)
	if m.budget.Over() {
		t.Error("Evict leaves too much")
	}
	for i, c := range cells {
		if i%3 == 0 && m.table.Find(m.hash(c.key), c.key) == nil {
			t.Errorf("cell %d was read lately, and went", i)
		}
	}
	m.budget.SetLimit(0)
	m.table.Evict(0)
	if m.budget.Used() != 0 || !m.table.Empty(0) {
		t.Errorf("%d bytes left, without a read since", m.budget.Used())
	}
}

// The hand goes on where it stopped.
func TestHandMovesOn(t *testing.T) {
	m, cells := clock(t, 1000)
	m.budget.SetLimit(0)
	for range 1000*4/evictSteps + 1 {
		m.table.Evict(0)
	}
	if m.budget.Used() != 0 {
		t.Errorf("%d of %d cells stay", int(m.budget.Used())/100, len(cells))
	}
}

// Nothing that only memory has is given up.
func TestEvictKeepsWhatTheLogHasNot(t *testing.T) {
	m := newModel(t, rand.New(rand.NewPCG(1, 1)), spread)
	for i := range 300 {
		key := strconv.Itoa(i)
		c, _ := m.cell(key, nil)
		put(m.table, m.hash(c.key), nil, c)
		m.cells[key] = c
	}
	m.budget.SetLimit(0)
	for range 4 {
		for n := range Shards {
			m.table.Evict(n)
		}
	}
	for key, c := range m.cells {
		if stays := c.Dirty || c.Memory; stays != (m.table.Find(m.hash(key), key) != nil) {
			t.Errorf("after eviction, cell %+v stays: %v", c, !stays)
		} else if !stays {
			delete(m.cells, key)
		}
	}
	m.check()
}
