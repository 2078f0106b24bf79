package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/compaction"
	"github.com/copaldb/copal/internal/opened"
	"github.com/copaldb/copal/internal/vfs"
)

// The model of histories: after each operation of a random script it keeps the content that the
// store must have, and its moment. Raw keys, maps, hashes, transactions, deletions of ranges, large
// values and deadlines come; compaction, clean ends and deaths of the process come between. At any
// time, as of any moment of the window, the store must show the content in the model.
//
// COPAL_SEED=n runs one seed alone.
type historyModel struct {
	t      *testing.T
	rng    *rand.Rand
	clock  *kit.ManualClock
	mem    *vfs.Mem
	opts   []copal.Option
	window time.Duration // 0 for none
	bytes  int64         // of the window, 0 for no such bound

	db *copal.DB
	m  *copal.Map[string, string]

	now     historyState
	moments []historyMoment
	last    int
	lost    int // moments that were not to be had, and need not have been
	seen    int
	watch   *pastWatch // that goes on while the script does; nil for none
}

// historyState has values by their whole keys, and collections.
type historyState struct {
	values      map[string]mortalText
	collections map[string]mortalElements
}

type mortalText struct {
	text     string
	deadline int64 // Unix milliseconds, 0 for none
}

// mortalElements are the elements of a collection, whose name begins with the letter of its type:
// of a hash by field, of a set without values, of a sorted set with scores; of a list they have no
// names.
type mortalElements struct {
	named    map[string]string
	list     []string
	deadline int64
}

type historyMoment struct {
	seq  uint64
	time int64
	historyState
}

func (s historyState) clone() historyState {
	collections := map[string]mortalElements{}
	for k, c := range s.collections {
		collections[k] = mortalElements{maps.Clone(c.named), slices.Clone(c.list), c.deadline}
	}
	return historyState{maps.Clone(s.values), collections}
}

// texts returns all entries at a time, each as a text that no other entry has.
func (s historyState) texts(ms int64) map[string]string {
	list := map[string]string{}
	for k, e := range s.values {
		if e.deadline == 0 || ms < e.deadline {
			list[k] = fmt.Sprintf("%q until %d", e.text, e.deadline)
		}
	}
	for k, c := range s.collections {
		if c.deadline == 0 || ms < c.deadline {
			list[k] = c.text()
		}
	}
	return list
}

func (c mortalElements) text() string {
	return fmt.Sprintf("%q %q until %d", c.named, c.list, c.deadline)
}

// deleteFunc removes the entries with one of these keys.
func (s historyState) deleteFunc(is func(key string) bool) {
	maps.DeleteFunc(s.values, func(k string, _ mortalText) bool { return is(k) })
	maps.DeleteFunc(s.collections, func(k string, _ mortalElements) bool { return is(k) })
}

// TestHistoryModel compares every moment with the model. internal/mutants has bugs that it must
// notice.
func TestHistoryModel(t *testing.T) {
	kit.EachSeed(t, 32, 10_000, func(t *testing.T, seed uint64) { newHistoryModel(t, seed).run() })
}

func newHistoryModel(t *testing.T, seed uint64) *historyModel {
	x := &historyModel{t: t, rng: rand.New(rand.NewPCG(seed, 30)), clock: kit.NewManualClock(), mem: vfs.NewMem(),
		now: historyState{map[string]mortalText{}, map[string]mortalElements{}}}
	x.window = []time.Duration{0, copal.Forever, 100 * time.Millisecond, 400 * time.Millisecond, 400 * time.Millisecond}[x.rng.IntN(5)]
	x.opts = []copal.Option{kit.WithInline(), kit.WithClock(x.clock), copal.WithMaxMemory([]int64{1, 1 << 20}[x.rng.IntN(2)]),
		kit.WithSegmentBytes(int64(500 + x.rng.IntN(3000))), copal.WithHistory(x.window),
		kit.WithLogPerIndex([]int64{0, -1}[x.rng.IntN(2)])} // few snapshots of the index stay, or all
	if x.rng.IntN(2) == 0 {
		x.opts = append(x.opts, kit.WithoutRing())
	}
	if x.window > 0 && x.rng.IntN(2) == 0 {
		x.bytes = 1 + x.rng.Int64N(20_000)
		x.opts = append(x.opts, copal.WithHistoryBytes(x.bytes))
	}
	return x
}

func (x *historyModel) run() {
	x.open()
	x.note()
	for range 120 {
		x.step()
		if x.t.Failed() {
			return
		}
	}
	for range 10 {
		x.compare()
	}
	x.watched()
	x.endWatch()
	kit.MustClose(x.t, x.db)
	if x.window > 0 && x.seen == 0 {
		x.t.Error("no moment was seen")
	}
}

func (x *historyModel) open() {
	x.db = kit.OpenOn(x.t, x.mem, x.opts...)
	x.m = nil
}

// mapped returns the map, which may not have been opened before.
func (x *historyModel) mapped() *copal.Map[string, string] {
	if x.m == nil {
		x.m = kit.MapOf[string, string](x.t, x.db, "m")
	}
	return x.m
}

func (x *historyModel) ms() int64 { return x.clock.Now().UnixMilli() }

// note keeps the present.
func (x *historyModel) note() {
	s, err := x.db.Snapshot()
	if err != nil {
		x.t.Fatal(err)
	}
	defer s.Close()
	x.moments = append(x.moments, historyMoment{s.Seq(), x.ms(), x.now.clone()})
}

func (x *historyModel) value() string {
	x.last++
	v := fmt.Sprint("value ", x.last)
	if x.rng.IntN(60) == 0 {
		v += strings.Repeat("x", 1<<20+x.rng.IntN(1<<20))
	}
	return v
}

func (x *historyModel) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

// delete takes a key out, unless it has expired: there is no record of that then.
func (x *historyModel) delete(key string) {
	if x.alive(key) {
		delete(x.now.values, key)
	}
}

// alive reports whether a key has a value. Expired entries stay in the model, for expiry has no
// record.
func (x *historyModel) alive(key string) bool {
	e, ok := x.now.values[key]
	return ok && (e.deadline == 0 || x.ms() < e.deadline)
}

func (x *historyModel) step() {
	rng, raw := x.rng, x.db.Raw()
	key := string(rune('a' + rng.IntN(6)))
	if rng.IntN(3) > 0 {
		x.clock.Advance(time.Duration(rng.IntN(20)) * time.Millisecond)
	}
	switch rng.IntN(17) {
	case 0, 1:
		v := x.value()
		x.must(raw.Set([]byte(key), []byte(v)))
		x.now.values[key] = mortalText{v, 0}
	case 2:
		v, ttl := x.value(), time.Duration(1+rng.IntN(100))*time.Millisecond
		x.must(raw.SetTTL([]byte(key), []byte(v), ttl))
		x.now.values[key] = mortalText{v, x.ms() + ttl.Milliseconds()}
	case 3:
		_, err := raw.Delete([]byte(key))
		x.must(err)
		x.delete(key)
	case 4, 5:
		v := x.value()
		x.must(x.mapped().Set(key, v))
		x.now.values["m:"+key] = mortalText{v, 0}
	case 6:
		if x.alive("m:" + key) {
			ttl := x.ttl()
			x.must(x.mapped().Expire(key, ttl))
			x.now.values["m:"+key] = mortalText{x.now.values["m:"+key].text, x.ms() + ttl.Milliseconds()}
		}
	case 7:
		_, err := x.mapped().Delete(key)
		x.must(err)
		x.delete("m:" + key)
	case 8, 16:
		x.collection()
		return
	case 9, 10:
		x.together()
	case 11:
		x.deleteMany(key)
	case 12:
		x.compact()
	case 13:
		x.again()
	default:
		if rng.IntN(3) == 0 {
			x.watched()
		} else {
			x.compare()
		}
		return
	}
	x.note()
}

// deleteMany deletes a range of keys, clears a map or drops it.
func (x *historyModel) deleteMany(key string) {
	prefix := []string{"", "m:", "m:", key, key, key, "h", "l"}[x.rng.IntN(8)]
	switch how := x.rng.IntN(3); {
	case prefix == "m:" && how == 0:
		x.must(x.mapped().Clear())
	case prefix == "m:" && how == 1:
		kit.MustClose(x.t, x.mapped())
		x.m = nil
		x.must(x.db.Drop("m"))
	default:
		x.must(x.db.Raw().DeletePrefix([]byte(prefix)))
	}
	x.now.deleteFunc(func(k string) bool { return strings.HasPrefix(k, prefix) })
}

// ttl is short, or longer than most scripts.
func (x *historyModel) ttl() time.Duration {
	return []time.Duration{30 * time.Millisecond, time.Second}[x.rng.IntN(2)]
}

// collection changes one, or the deadline of one.
func (x *historyModel) collection() {
	defer x.note()
	name := []string{"h1", "h2", "l1", "l2", "s1", "z1"}[x.rng.IntN(6)]
	c, alive := x.now.collections[name]
	if alive = alive && (c.deadline == 0 || x.ms() < c.deadline); !alive {
		c = mortalElements{named: map[string]string{}}
	}
	switch x.rng.IntN(10) {
	case 0:
		_, err := x.db.Raw().Delete([]byte(name))
		if x.must(err); alive {
			delete(x.now.collections, name)
		}
		return
	case 1, 2:
		if alive {
			ttl := x.ttl()
			x.must(x.db.Raw().Expire([]byte(name), ttl))
			c.deadline = x.ms() + ttl.Milliseconds()
		}
	default:
		x.elements(name, &c)
	}
	switch {
	case len(c.named)+len(c.list) > 0:
		x.now.collections[name] = c
	case alive:
		delete(x.now.collections, name)
	}
}

// elements changes an element.
func (x *historyModel) elements(name string, c *mortalElements) {
	field, goes := string(rune('p'+x.rng.IntN(4))), x.rng.IntN(3) == 0
	var err error
	switch name[0] {
	case 'h':
		h := x.db.Raw().Hash([]byte(name))
		if goes {
			_, err = h.Delete(field)
		} else {
			c.named[field] = x.value()
			err = h.Set(field, []byte(c.named[field]))
		}
	case 'l':
		x.must(x.listed(name, c, goes))
		return
	case 's':
		s := setOf(x.t, x.db, name)
		if goes {
			_, err = s.Delete(field)
		} else {
			c.named[field] = ""
			_, err = s.Add(field)
		}
	case 'z':
		z := sortedSetOf(x.t, x.db, name)
		if goes {
			_, err = z.Delete(field)
		} else {
			score := float64(x.rng.IntN(5))
			c.named[field] = fmt.Sprint(score)
			err = z.Set(field, score)
		}
	}
	if x.must(err); goes {
		delete(c.named, field)
	}
}

func setOf(t *testing.T, db *copal.DB, name string) *copal.SetOf[string] {
	s, err := copal.OpenSet[string](db, name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sortedSetOf(t *testing.T, db *copal.DB, name string) *copal.SortedSetOf[string] {
	z, err := copal.OpenSortedSet[string](db, name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// listed changes a list.
func (x *historyModel) listed(name string, c *mortalElements, goes bool) (err error) {
	l, at := x.db.Raw().List([]byte(name)), x.rng.IntN(len(c.list)+1)
	switch v := x.value(); {
	case goes && at < len(c.list):
		c.list = slices.Delete(c.list, at, at+1)
		return l.DeleteRange(at, at+1)
	case at == len(c.list):
		c.list = append(c.list, v)
		return l.PushBack([]byte(v))
	case x.rng.IntN(2) == 0:
		c.list[at] = v
		return l.Set(at, []byte(v))
	default:
		c.list = slices.Insert(c.list, at, v)
		return l.Insert(at, []byte(v))
	}
}

// elementsAt returns the elements of a collection in a snapshot, nil for none.
func (x *historyModel) elementsAt(s *copal.Snapshot, name string) (c mortalElements) {
	c.named = map[string]string{}
	n := 0
	switch name[0] {
	case 'h':
		h := x.db.Raw().Hash([]byte(name)).At(s)
		for f, v := range h.All() {
			c.named[f] = string(v)
		}
		n = h.Len()
	case 'l':
		l := x.db.Raw().List([]byte(name)).At(s)
		for v := range l.All() {
			c.list = append(c.list, string(v))
		}
		n = l.Len()
	case 's':
		set := setOf(x.t, x.db, name).At(s)
		for m := range set.All() {
			c.named[m] = ""
		}
		n = set.Len()
	case 'z':
		z := sortedSetOf(x.t, x.db, name).At(s)
		for m, score := range z.All() {
			c.named[m] = fmt.Sprint(score)
		}
		n = z.Len()
	}
	if all := len(c.named) + len(c.list); n != all {
		x.t.Errorf("%s has %d elements, and counts %d", name, all, n)
	}
	if deadline, err := x.db.Raw().At(s).Deadline([]byte(name)); err == nil && !deadline.IsZero() {
		c.deadline = deadline.UnixMilli()
	}
	return c
}

// together is a transaction, which may be written ahead in several pieces.
func (x *historyModel) together() {
	before := x.now.clone()
	x.must(x.db.Update(func(tx *copal.Tx) error {
		for range 1 + x.rng.IntN(5) {
			key := string(rune('a' + x.rng.IntN(6)))
			if x.rng.IntN(3) == 0 {
				if _, err := tx.Raw().Delete([]byte(key)); err != nil {
					return err
				}
				x.delete(key)
				continue
			}
			v := x.value()
			if err := tx.Raw().Set([]byte(key), []byte(v)); err != nil {
				return err
			}
			x.now.values[key] = mortalText{v, 0}
		}
		return nil
	}))
	for key, e := range before.values {
		if _, is := x.now.values[key]; !is && e.deadline != 0 && x.ms() >= e.deadline { // set and deleted: there is no record of that
			x.now.values[key] = e
		}
	}
}

func (x *historyModel) compact() {
	if x.rng.IntN(2) == 0 {
		x.must(x.db.Compact(context.Background(), nil))
		return
	}
	compaction.Of(opened.Engine(x.db)).Step()
}

// again ends the process, in one way or the other, and opens the store without the option, which it
// keeps to.
func (x *historyModel) again() {
	x.endWatch()
	if x.rng.IntN(2) == 0 {
		kit.MustClose(x.t, x.db)
	} else {
		x.mem = x.mem.ProcessCrash()
	}
	x.open()
}

// compare looks at some moment.
func (x *historyModel) compare() {
	s, want, how := x.past()
	if s == nil {
		return
	}
	defer s.Close()
	x.wantAt(how, s, want)
}

// past opens some moment, and returns the state that it must have. The snapshot is nil if it is
// lost.
func (x *historyModel) past() (s *copal.Snapshot, want historyState, how string) {
	at := x.rng.IntN(len(x.moments))
	first := x.moments[at]
	var err error
	if x.rng.IntN(2) == 0 {
		seq := first.seq // or of any record that came before the next moment, in the midst of a change
		if at+1 < len(x.moments) && x.moments[at+1].seq > seq {
			seq += x.rng.Uint64N(x.moments[at+1].seq - seq)
		}
		how = fmt.Sprint("record ", seq)
		s, err = x.db.AsOfSeq(seq)
		for at+1 < len(x.moments) && x.moments[at+1].seq <= seq {
			at++
		}
	} else {
		ms := first.time + x.rng.Int64N(x.ms()-first.time+1)
		how = fmt.Sprint("time ", ms-x.moments[0].time)
		s, err = x.db.AsOf(time.UnixMilli(ms))
		for at+1 < len(x.moments) && x.moments[at+1].time <= ms {
			at++
		}
		if s != nil && s.Time().UnixMilli() != ms {
			x.t.Errorf("the snapshot as of %d is of %d", ms, s.Time().UnixMilli())
		}
	}
	last := x.moments[at]
	if errors.Is(err, copal.ErrHistoryLost) {
		x.lost++
		if next := x.moments[min(at+1, len(x.moments)-1)]; last.seq == 0 { // the store may not have been made by then
			return nil, last.historyState, how
		} else if (x.window == copal.Forever || x.window > 0 && next.time > x.ms()-x.window.Milliseconds()) && !(x.bytes > 0 && windowBytes(x.db) >= x.bytes) {
			x.t.Errorf("%s, %d ms ago: %v", how, x.ms()-next.time, err)
		}
		return nil, last.historyState, how
	}
	x.must(err)
	x.seen++
	return s, last.historyState, how
}

func (x *historyModel) wantAt(how string, s *copal.Snapshot, want historyState) {
	t, ms := x.t, s.Time().UnixMilli()
	raw := x.db.Raw().At(s)
	is := historyState{map[string]mortalText{}, map[string]mortalElements{}}
	for k := range raw.Keys() {
		key := string(k)
		if strings.ContainsRune("hlsz", rune(k[0])) {
			is.collections[key] = x.elementsAt(s, key)
			continue
		}
		v, err := raw.Load(k)
		deadline, _ := raw.Deadline(k)
		if of, is := strings.CutPrefix(key, "m:"); is {
			v, err = loaded(x.mapped().At(s), of)
		}
		e := mortalText{text: string(v)}
		if !deadline.IsZero() {
			e.deadline = deadline.UnixMilli()
		}
		if is.values[key] = e; err != nil {
			t.Errorf("as of %s: %s: %v", how, k, err)
		}
	}
	has, wanted := is.texts(ms), want.texts(ms)
	if !maps.Equal(has, wanted) {
		t.Fatalf("as of %s, at %d, it has %s\nwant %s", how, ms, short(has), short(wanted))
	}
	inMap := 0
	for k := range wanted {
		if strings.HasPrefix(k, "m:") {
			inMap++
		}
	}
	if n := x.mapped().At(s).Len(); n != inMap {
		t.Fatalf("as of %s the map has %d entries, want %d", how, n, inMap)
	}
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		v, ok := raw.Get([]byte(key))
		if _, exists := wanted[key]; ok != exists || string(v) != is.values[key].text {
			t.Fatalf("as of %s key %s is %.20q, %v, want %.20q", how, key, v, ok, wanted[key])
		}
	}
	for _, name := range []string{"h1", "h2", "l1", "l2", "s1", "z1"} {
		if c := x.elementsAt(s, name); len(c.named)+len(c.list) > 0 && is.collections[name].text() != c.text() {
			t.Fatalf("as of %s %s has elements, and no key", how, name)
		}
	}
}

func loaded(m *copal.Map[string, string], key string) ([]byte, error) {
	v, err := m.Load(key)
	return []byte(v), err
}

func short(m map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, "%s=%.60s ", k, m[k])
	}
	return b.String()
}
