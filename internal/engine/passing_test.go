package engine

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/index"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/keyrange"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// countListings counts how often the keys of a whole table are listed, until the test ends.
func countListings(t *testing.T) func() int {
	parts, before := 0, partListed
	t.Cleanup(func() { partListed = before })
	partListed = func() { parts++; before() }
	return func() int {
		n := (parts + index.Shards - 1) / index.Shards
		parts = 0
		return n
	}
}

// scanned are the keys of a walk.
func scannedKeys(t testing.TB, walk func(yield func([]byte, error) bool)) (keys []string) {
	t.Helper()
	for key, err := range walk {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, string(key))
	}
	return keys
}

// itemKeys is items as scannedKeys wants them.
func itemKeys(items func(func(Item) bool)) func(func([]byte, error) bool) {
	return func(yield func([]byte, error) bool) { items(func(item Item) bool { return yield(item.Key, item.Err) }) }
}

// Many walks over a part of the keys read all keys once, or, of a view and a transaction that were there
// before, twice.
func TestManyWalksReadTheKeysOnce(t *testing.T) {
	const n, walks = 1000, 50
	for _, way := range []string{"store", "map", "view", "view of a map", "views", "transaction", "transaction over a map", "transactions"} {
		s := mustOpen(t, vfs.NewMem())
		c := attached(t, s, "m")
		prefix := ""
		if strings.Contains(way, "map") {
			prefix = "m:"
		}
		for i := range n {
			mustSet(t, s, fmt.Sprintf("%s%04d", prefix, i), "1")
		}
		v := mustView(t, s)
		listings := countListings(t)
		sp := func(i int) Span { return PrefixSpan(fmt.Appendf(nil, "0%02d", i)) }
		walk := func(i int, tx *Tx) (keys []string) {
			switch way {
			case "store":
				return scannedKeys(t, s.Scan(sp(i)))
			case "map":
				return scannedKeys(t, itemKeys(s.InOrder(c, keycodec.BytesOrder, sp(i), false)))
			case "view":
				return scannedKeys(t, itemKeys(v.Scan(sp(i), false)))
			case "view of a map":
				return scannedKeys(t, itemKeys(v.InOrder(c.owner, keycodec.BytesOrder, sp(i), false)))
			case "views":
				v := mustView(t, s)
				defer v.Close()
				for j := range 40 {
					mustSet(t, s, fmt.Sprint("new ", i, j), "1")
				}
				return scannedKeys(t, itemKeys(v.Scan(sp(i), false)))
			case "transaction over a map":
				return scannedKeys(t, itemKeys(tx.InOrder(c.owner, keycodec.BytesOrder, sp(i), false)))
			}
			return scannedKeys(t, itemKeys(tx.Scan(sp(i), false)))
		}
		walkAll := func(from, to int) func(tx *Tx) error {
			return func(tx *Tx) error {
				for i := from; i < to; i++ {
					if keys := walk(i, tx); len(keys) != 10 || keys[3] != fmt.Sprintf("%s0%02d3", prefix, i) {
						t.Fatalf("%s: %q", way, keys)
					}
				}
				return nil
			}
		}
		switch {
		case way == "transactions":
			for i := range walks {
				if err := s.Transact(Process, func(tx *Tx) error {
					walkAll(i, i+1)(tx)
					for j := range 40 {
						if err := tx.Write(nil, &Write{Key: fmt.Append(nil, "new ", i, " ", j), Value: []byte("1")}); err != nil {
							return err
						}
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
		case strings.HasPrefix(way, "transaction"):
			if err := s.Transact(Process, walkAll(0, walks)); err != nil {
				t.Fatal(err)
			}
		default:
			walkAll(0, walks)(nil)
		}
		if got := listings(); got > 2 || got > 1 && (way == "store" || way == "map") {
			t.Errorf("%s: %d walks have read all keys %d times", way, walks, got)
		}
		v.Close()
		mustClose(t, s)
	}
}

// Walks that are not expected to come again read all keys each time, and begin no order. One that other walks have
// begun serves them.
func TestWalksThatBeginNoOrder(t *testing.T) {
	const n, walks = 1000, 5
	s := mustOpen(t, vfs.NewMem())
	for i := range n {
		mustSet(t, s, fmt.Sprintf("%04d", i), "1")
	}
	listings := countListings(t)
	walk := func(once bool) {
		for i := range walks {
			sp := PrefixSpan(fmt.Appendf(nil, "0%02d", i))
			sp.Once, sp.Down = once, i%2 == 1
			if keys := scannedKeys(t, s.Scan(sp)); len(keys) != 10 {
				t.Fatalf("%q", keys)
			}
		}
	}
	walk(true)
	if got := listings(); got != walks {
		t.Errorf("%d walks have read all keys %d times", walks, got)
	}
	if s.RawTable().order.Load() != nil {
		t.Error("there is an order")
	}
	walk(false)
	walk(true)
	if got := listings(); got != 1 {
		t.Errorf("with an order that other walks have begun, the keys are read %d times", got)
	}
}

// The sorted keys that a view keeps are given back with it, and are no more those of the raw table when some of
// them have become a map's.
func TestSortedKeysOfAView(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	for i := range 20 {
		mustSet(t, s, fmt.Sprint(i), "1")
		mustSet(t, s, fmt.Sprint("m:", i), "1")
	}
	v := mustView(t, s)
	sp := Span{Low: []byte("1"), High: []byte("n")}
	before := scannedKeys(t, itemKeys(v.Scan(sp, false)))
	if len(before) != 39 || s.views.bytes.Load() == 0 {
		t.Errorf("%d keys; %d bytes are counted", len(before), s.views.bytes.Load())
	}
	table, err := s.Map("m")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if keys := scannedKeys(t, itemKeys(v.Scan(sp, false))); !slices.Equal(keys, before) {
			t.Errorf("when the map is declared, the view has %q", keys)
		}
		if keys := scannedKeys(t, itemKeys(v.InOrder(table, keycodec.BytesOrder, Span{Down: true}, true))); len(keys) != 20 || keys[0] != "m:9" {
			t.Errorf("of the map the view has %q", keys)
		}
	}
	v.Close()
	if n := s.views.bytes.Load(); n != 0 {
		t.Errorf("%d bytes are counted when it is closed", n)
	}
	wantViewFails(t, v, ErrViewClosed)
}

// A passing order is kept while walks come, whatever is overwritten, and goes when more keys have come and gone
// than there were.
func TestPassingOrderIsLetGo(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	raw := s.RawTable()
	const n = 100
	for i := range n {
		mustSet(t, s, fmt.Sprint(10+i), "1")
	}
	mustSet(t, s, "comes", "1")
	mustRemove(t, s, "comes")
	before := leftFor(s)
	walk := func(span Span) {
		for _, err := range s.Scan(span) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	if walk(Span{}); raw.order.Load() != nil {
		t.Error("an order begins with a walk over everything")
	}
	for round := range 3 {
		if walk(Span{Low: []byte("5")}); raw.order.Load() == nil || leftFor(s) >= before {
			t.Fatalf("round %d: no order is kept, or it is not counted: %d bytes are left, and %d were without", round, leftFor(s), before)
		}
		for range 3 * n {
			mustSet(t, s, "50", "overwritten")
		}
		for range 3 * n / 2 {
			mustSet(t, s, "comes", "1")
			mustRemove(t, s, "comes")
			walk(Span{Down: true})
		}
		for range n / 2 {
			mustSet(t, s, "comes", "1")
			mustRemove(t, s, "comes")
		}
		if raw.order.Load() == nil {
			t.Errorf("round %d: the order is let go too soon", round)
		}
		if mustSet(t, s, "comes", "1"); raw.order.Load() != nil {
			t.Errorf("round %d: the order is kept though nobody walks", round)
		}
		mustRemove(t, s, "comes")
	}
	if left := leftFor(s); left != before {
		t.Errorf("%d bytes are left, and %d were before", left, before)
	}
}

// A passing order is of this process alone: neither the log nor the index snapshot says anything of it, and no
// file is made for it.
func TestPassingOrderIsNotWritten(t *testing.T) {
	fewMarks(t, 5)
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.Inline = false })
	c := attached(t, s, "m")
	for i := range 50 {
		mustSet(t, s, fmt.Sprint("m:", i), "1")
		scannedKeys(t, itemKeys(s.InOrder(c, keycodec.BytesOrder, Span{Down: true}, false)))
	}
	o := c.owner.order.Load()
	logtest.Until(func() bool { // it has been folded
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.small != nil || o.base.Keys() > 1
	})
	if names := runsOf(t, mem); len(names) != 0 {
		t.Errorf("there are the runs %q", names)
	}
	if o == nil || o.asked.Load() || c.owner.options().ordered || s.KeepsOrder(c.owner, keycodec.BytesOrder) {
		t.Fatal("no passing order is kept")
	}
	mustClose(t, s)
	if names := runsOf(t, mem); len(names) != 0 {
		t.Errorf("there are the runs %q", names)
	}
	s = mustOpen(t, mem)
	defer mustClose(t, s)
	if table := s.spaces[0].maps["m"]; table.order.Load() != nil || s.snapshot == nil || s.snapshot.x.Tables[len(s.snapshot.x.Tables)-1].Order != nil {
		t.Error("the next process has the order")
	}
}

// An option that asks for an order which is kept in passing has it at once, and it stays.
func TestPassingOrderIsAskedFor(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	c := attached(t, s, "m")
	for i := range 50 {
		mustSet(t, s, fmt.Sprint("m:", i), "1")
	}
	scannedKeys(t, itemKeys(s.InOrder(c, keycodec.BytesOrder, Span{}, false)))
	o, listings := c.owner.order.Load(), countListings(t)
	if err := s.Order(c.owner, keycodec.BytesOrder); err != nil || c.owner.order.Load() != o || listings() != 0 {
		t.Errorf("%v; another order, or the keys were read again", err)
	}
	for i := range 500 {
		mustSet(t, s, fmt.Sprint("m:more ", i), "1")
	}
	mustClose(t, s)
	s = mustOpen(t, mem)
	defer mustClose(t, s)
	if !s.KeepsOrder(s.spaces[0].maps["m"], keycodec.BytesOrder) || len(runsOf(t, mem)) == 0 {
		t.Error("the order has not stayed")
	}
}

// Passing orders of many maps take no more memory together than they may, and the one that was walked last is there.
func TestPassingOrdersFitTheMemory(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), func(o *Options) { o.MaxMemory = 64 << 10 })
	defer mustClose(t, s)
	var all []*Cells
	for n := range 20 {
		all = append(all, attached(t, s, fmt.Sprint("map", n)))
		for i := range 100 {
			mustSet(t, s, fmt.Sprintf("map%d:%x", n, i*7919), "1")
		}
	}
	begun := 0
	for range 3 {
		for _, c := range all {
			if got := len(scannedKeys(t, itemKeys(s.InOrder(c, keycodec.BytesOrder, Span{}, false)))); got != 100 {
				t.Errorf("a walk over %d keys", got)
			}
			total := int64(0)
			for _, other := range all {
				if o := other.owner.order.Load(); o != nil {
					total += o.memory()
					begun++
				}
			}
			if total > s.mostPassing() || c.owner.order.Load() == nil {
				t.Fatalf("the orders take %d bytes, and may take %d; the last is kept: %v", total, s.mostPassing(), c.owner.order.Load() != nil)
			}
		}
	}
	if begun < 100 {
		t.Errorf("%d orders on the way: this tests too little", begun)
	}
}

// Keys that do not fit one sorting are not kept, and neither are keys of which some cannot be read: each walk
// reports these.
func TestKeysThatAreNotKeptInPassing(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.MaxMemory = 8 << 10 })
	for i := range 300 {
		mustSet(t, s, fmt.Sprintf("%04d", i), "1")
	}
	for range 3 {
		if keys := scannedKeys(t, s.Scan(PrefixSpan([]byte("01")))); len(keys) != 100 {
			t.Errorf("%d keys", len(keys))
		}
		if s.RawTable().order.Load() != nil {
			t.Error("more keys are kept than memory may have")
		}
	}
	listings := countListings(t)
	scannedKeys(t, s.Scan(PrefixSpan([]byte("01"))))
	if n := listings(); n != 1 {
		t.Errorf("a walk over keys that could not be kept before reads them %d times", n)
	}
	mustClose(t, s)

	logtest.Change(t, mem, "db/00000001.log", func(f vfs.File) error { return logtest.Flip(f, 500, 0) })
	s = mustOpen(t, mem)
	defer mustClose(t, s)
	for range 3 {
		errs := 0
		for _, err := range s.Scan(Span{Down: true}) {
			if errors.Is(err, seglog.ErrCorrupt) {
				errs++
			}
		}
		if errs != 1 {
			t.Errorf("%d errors of one damaged record", errs)
		}
	}
}

// A map that has a passing order of its bytes, by raw walks, gets the order of its keys when they are walked by
// their type.
func TestPassingOrderOfRawKeysGivesWay(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	for i := range 20 {
		mustSet(t, s, fmt.Sprint("m:", i), "1")
	}
	table, err := s.Map("m")
	if err != nil {
		t.Fatal(err)
	}
	scannedKeys(t, s.Scan(PrefixSpan([]byte("m:1"))))
	if o := table.order.Load(); o == nil || !o.by.IsBytes() {
		t.Fatal("a raw walk begins no order")
	}
	ints, _ := keycodec.OrderNamed("int")
	c := s.Attach(table, Values{Keys: "int"})
	if keys := scannedKeys(t, itemKeys(s.InOrder(c, ints, Span{}, false))); len(keys) != 20 || keys[2] != "m:2" {
		t.Errorf("%q", keys)
	}
	for range 2 {
		if keys := scannedKeys(t, s.Scan(PrefixSpan([]byte("m:1")))); len(keys) != 11 || keys[2] != "m:11" {
			t.Errorf("%q", keys)
		}
		if o := table.order.Load(); o == nil || o.by != ints {
			t.Error("a raw walk takes the place of the order of the keys")
		}
	}
}

// While keys come and go and walks of every kind begin orders, which are let go soon, each walk yields every key.
func TestPassingModel(t *testing.T) {
	fewMarks(t, 6)
	seeds := uint64(20)
	if longTest() {
		seeds = 1000
	}
	begun, ended := 0, 0
	for seed := uint64(1); seed <= seeds; seed++ {
		m := &passingModel{t: t, rng: rand.New(rand.NewPCG(seed, 17)), content: map[string]bool{}, mem: vfs.NewMem()}
		m.open()
		for n := range 600 {
			if m.step(); t.Failed() {
				t.Fatalf("seed %d, step %d", seed, n)
			}
		}
		m.close()
		begun, ended = begun+m.begun, ended+m.ended
	}
	if begun < 30*int(seeds) || ended < 20*int(seeds) {
		t.Errorf("%d orders begin, %d are let go: this tests too little", begun, ended)
	}
}

type passingModel struct {
	t            *testing.T
	rng          *rand.Rand
	mem          *vfs.Mem
	s            *Store
	c            *Cells
	content      map[string]bool
	views        []passingView
	had          map[*Table]*ordering
	begun, ended int
}

type passingView struct {
	*View
	content map[string]bool
}

func (m *passingModel) open() {
	m.s = mustOpen(m.t, m.mem, func(o *Options) { o.SegmentBytes = 2000; o.MaxMemory = 1 << (8 + m.rng.IntN(12)) })
	m.c = attached(m.t, m.s, "m")
	m.had = map[*Table]*ordering{}
}

func (m *passingModel) close() {
	for _, v := range m.views {
		v.Close()
	}
	m.views = nil
	mustClose(m.t, m.s)
}

func (m *passingModel) key() string {
	return []string{"", "m:"}[m.rng.IntN(2)] + fmt.Sprint(m.rng.IntN(1+m.rng.IntN(16)))
}

func (m *passingModel) step() {
	t := m.t
	switch m.rng.IntN(40) {
	case 0:
		m.close()
		m.open()
	case 1:
		for _, v := range m.views {
			v.Close()
		}
		m.views, m.mem = nil, m.mem.ProcessCrash()
		m.s.Close()
		m.open()
	case 2, 3:
		m.views = append(m.views, passingView{mustView(t, m.s), maps.Clone(m.content)})
	case 4, 5:
		if n := len(m.views); n > 0 {
			i := m.rng.IntN(n)
			m.views[i].Close()
			m.views = slices.Delete(m.views, i, i+1)
		}
	case 6:
		for _, table := range m.s.Tables() {
			if o := table.order.Load(); o != nil {
				if err := o.fold(false); err != nil {
					t.Fatal(err)
				}
			}
		}
	case 7, 8:
		m.walk()
	case 13:
		prefix := m.key()
		if err := m.s.DeleteRange(keyrange.Prefix([]byte(prefix)), Process); err != nil {
			t.Fatal(err)
		}
		maps.DeleteFunc(m.content, func(key string, _ bool) bool { return strings.HasPrefix(key, prefix) })
	case 9, 10, 11:
		if n := len(m.views); n > 0 {
			v := m.views[m.rng.IntN(n)]
			m.check("view", v.content, func(sp Span) func(func([]byte, error) bool) { return itemKeys(v.Scan(sp, false)) },
				func(sp Span) func(func([]byte, error) bool) {
					return itemKeys(v.InOrder(m.c.owner, keycodec.BytesOrder, sp, m.rng.IntN(2) == 0))
				})
		}
	case 12:
		if err := m.s.Transact(Process, func(tx *Tx) error {
			own := maps.Clone(m.content)
			for range m.rng.IntN(4) {
				key := m.key()
				if own[key] {
					if _, err := tx.Delete(nil, nil, []byte(key)); err != nil {
						return err
					}
					delete(own, key)
				} else {
					if err := tx.Write(nil, &Write{Key: []byte(key), Value: []byte("1")}); err != nil {
						return err
					}
					own[key] = true
				}
				m.check("transaction", own, func(sp Span) func(func([]byte, error) bool) { return itemKeys(tx.Scan(sp, false)) },
					func(sp Span) func(func([]byte, error) bool) {
						return itemKeys(tx.InOrder(m.c.owner, keycodec.BytesOrder, sp, false))
					})
			}
			m.content = own
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	default:
		for range 1 + m.rng.IntN(4) {
			if key := m.key(); m.content[key] {
				mustRemove(t, m.s, key)
				delete(m.content, key)
			} else {
				mustSet(t, m.s, key, "1")
				m.content[key] = true
			}
		}
	}
	for _, table := range m.s.Tables() {
		if o := table.order.Load(); o != m.had[table] {
			if m.had[table] != nil {
				m.ended++
			}
			if m.had[table] = o; o != nil {
				m.begun++
			}
		}
	}
}

func (m *passingModel) walk() {
	m.check("store", m.content, func(sp Span) func(func([]byte, error) bool) { return m.s.Scan(sp) },
		func(sp Span) func(func([]byte, error) bool) {
			return itemKeys(m.s.InOrder(m.c, keycodec.BytesOrder, sp, m.rng.IntN(2) == 0))
		})
}

// check compares a walk over the raw keys, or over those of the map, with the expected keys.
func (m *passingModel) check(what string, content map[string]bool, raw, typed func(Span) func(func([]byte, error) bool)) {
	m.t.Helper()
	sp, prefix, walk := Span{Down: m.rng.IntN(2) == 0}, "", raw
	if m.rng.IntN(3) > 0 {
		sp.Low = fmt.Append(nil, m.rng.IntN(16))
	}
	if m.rng.IntN(3) > 0 {
		sp.High, sp.HighOpen = fmt.Append(nil, m.rng.IntN(16)), true
	}
	if m.rng.IntN(2) == 0 {
		prefix, walk = "m:", typed
	}
	if got, want := scannedKeys(m.t, walk(sp)), spanned(content, prefix, sp); !slices.Equal(got, want) {
		m.t.Errorf("%s, %q in %+v: %q, want %q", what, prefix, sp, got, want)
	}
}
