package copying

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/opened"
	"github.com/copaldb/copal/internal/redisstream"
)

func open(t *testing.T, dir string, opts ...copal.Option) *copal.DB {
	t.Helper()
	db, err := copal.Open(dir, append(opts, copal.WithErrorHandler(func(err error) { t.Error(err) }))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// equal compares two stores by admin.Diff, which knows nothing of checksums.
func equal(t *testing.T, a, b *copal.DB) {
	t.Helper()
	x, err := a.Snapshot()
	must(t, err)
	defer x.Close()
	y, err := b.Snapshot()
	must(t, err)
	defer y.Close()
	for d, err := range admin.Diff(x, y, nil, nil) {
		if err != nil || string(d.Key) != string(positionKey) {
			t.Errorf("key %q differs: %v, %v, %v", d.Key, d.A, d.B, err)
		}
	}
}

// sameMaps wants the maps of a store to be known to another one.
func sameMaps(t *testing.T, a, b *copal.DB) {
	t.Helper()
	known := map[string]bool{}
	for name := range b.Maps() {
		known[name] = true
	}
	for name := range a.Maps() {
		if !known[name] {
			t.Errorf("map %q is not known", name)
		}
	}
}

type user struct {
	Name string
	Age  int
}

// writer changes a store at random, with every kind of change in the feed.
type writer struct {
	db    *copal.DB
	users *copal.Map[int, user]
	stock *copal.Map[string, float64]
	hash  *copal.HashOf[string, user]
	list  *copal.ListOf[user]
	r     *rand.Rand
}

func newWriter(t *testing.T, db *copal.DB, seed uint64) *writer {
	t.Helper()
	w := &writer{db: db, r: rand.New(rand.NewPCG(seed, 1))}
	var errs [4]error
	w.users, errs[0] = copal.OpenMap[int, user](db, "users")
	w.stock, errs[1] = copal.OpenMap[string, float64](db, "stock", copal.WithCodec(codec.Binary))
	w.hash, errs[2] = copal.OpenHash[string, user](db, "hash")
	w.list, errs[3] = copal.OpenList[user](db, "list")
	must(t, errs[:]...)
	return w
}

func (w *writer) step() error {
	n := w.r.IntN(200)
	key := fmt.Appendf(nil, "raw-%d", n)
	raw := w.db.Raw()
	zset, tags := raw.SortedSet([]byte("zset")), raw.StringSet([]byte("tags"))
	switch w.r.IntN(22) {
	case 0, 1, 2:
		return w.users.Set(n, user{"A", w.r.IntN(1000)})
	case 3, 4:
		return w.stock.Set(fmt.Sprint(n), w.r.Float64())
	case 5:
		_, err := w.users.Delete(n)
		return err
	case 6:
		return raw.SetUntil(key, []byte("far"), time.Now().Add(time.Duration(1+w.r.IntN(100))*time.Hour))
	case 7:
		return raw.SetTTL(key, []byte("near"), time.Duration(1+w.r.IntN(3))*time.Millisecond)
	case 8:
		return w.hash.Set(fmt.Sprint(n), user{"H", n})
	case 9:
		_, err := w.hash.Delete(fmt.Sprint(n))
		return err
	case 10:
		return w.list.PushBack(user{"back", n}, user{"more", n})
	case 11:
		_, _, err := w.list.PopFront()
		return err
	case 12:
		return zset.Set(fmt.Sprint(n), w.r.NormFloat64())
	case 13:
		_, err := tags.Add(fmt.Sprint(n), fmt.Sprint(n+1))
		return err
	case 14:
		if w.list.Len() == 0 {
			return nil
		}
		return w.list.Expire(time.Hour)
	case 15:
		return w.db.Update(func(tx *copal.Tx) error {
			return errors.Join(w.users.In(tx).Set(n, user{"T", n}), w.stock.In(tx).Set("tx", float64(n)))
		})
	case 16:
		if w.r.IntN(10) > 0 {
			return nil
		}
		return w.users.DeleteRange(9, 30) // which is no range of bytes
	case 17:
		if w.r.IntN(10) > 0 {
			return nil
		}
		return raw.DeletePrefix([]byte("raw-1"))
	case 18:
		return admin.Put(w.db, &admin.Entry{Key: key, Value: []byte("<p>"), Content: []string{"text/html", "text/css"}[n%2]})
	case 19, 20:
		if n < 10 {
			_, err := raw.Delete([]byte("stream"))
			return err
		}
		var head redisstream.Head
		id := redisstream.EntryName(redisstream.ID{MS: uint64(n)})
		return raw.Stream([]byte("stream")).SetAll(map[string][]byte{redisstream.HeadName: head.Value(), id: redisstream.AppendFields(nil, [][]byte{[]byte("field"), key})})
	}
	if tags.Len() > 0 && w.r.IntN(5) == 0 {
		return tags.Rename(fmt.Sprintf("moved-%d", n%3))
	}
	return nil
}

func (w *writer) steps(t *testing.T, n int) {
	t.Helper()
	for range n {
		must(t, w.step())
	}
}

// interrupted runs one part of a copy that ends at random, as a killed process does, and returns whether it was
// through.
func interrupted(t *testing.T, from, to *copal.DB, ends int, written func()) bool {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	c := New(from, to)
	c.Name = "source"
	n := 0
	tick := func() {
		written()
		if n++; n == ends {
			end()
		}
	}
	c.Show, c.Tell = func(int64, int64) { tick() }, func(string) { tick() }
	err := c.CatchUp(ctx)
	if err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
	return err == nil
}

// TestCopyOfALiveStore copies a store that is written to all the time, and is interrupted again and again.
func TestCopyOfALiveStore(t *testing.T) {
	defer func(a, b int) { savedEvery, fewChanges = a, b }(savedEvery, fewChanges)
	savedEvery, fewChanges = 16, 50
	for seed := range uint64(3) {
		dir := t.TempDir()
		source := open(t, filepath.Join(dir, "from"))
		w := newWriter(t, source, seed)
		w.steps(t, 1000)
		reader := open(t, filepath.Join(dir, "from"), copal.ReadOnly()) // as another process sees it
		more, stopped := make(chan struct{}, 1), make(chan error, 1)
		go func() { // which writes while the copy goes on, and never gets far ahead of it
			for range more {
				for range 20 {
					if err := w.step(); err != nil {
						stopped <- err
						return
					}
				}
			}
			stopped <- nil
		}()
		r := rand.New(rand.NewPCG(seed, 2))
		for range 10 {
			to := open(t, filepath.Join(dir, "to"))
			interrupted(t, reader, to, 1+r.IntN(20), func() {
				select {
				case more <- struct{}{}:
				default:
				}
			})
			must(t, to.Close())
		}
		close(more)
		must(t, <-stopped, source.Sync())
		to := open(t, filepath.Join(dir, "to"))
		c := New(reader, to)
		c.Name = "source"
		must(t, c.CatchUp(t.Context()), c.Finish(t.Context()))
		if r := c.Report(); !r.Resumed || r.Entries != int64(source.Raw().Len()) {
			t.Errorf("seed %d: %+v of %d entries", seed, r, source.Raw().Len())
		}
		equal(t, source, to)
		sameMaps(t, source, to)
		if to.Raw().Has(positionKey) {
			t.Errorf("seed %d: the position is left", seed)
		}
		must(t, reader.Close(), source.Close(), to.Close())
	}
}

// TestCollectionsThatGoDuringARound: the feed has no elements of a collection that was renamed or
// deleted before it came to them. Keys that a round lacks are no difference, and the next one
// copies them.
func TestCollectionsThatGoDuringARound(t *testing.T) {
	for name, gone := range map[string]func(*copal.Raw) error{
		"renamed":             func(raw *copal.Raw) error { return raw.StringSet([]byte("tags")).Rename("moved") },
		"deleted":             func(raw *copal.Raw) error { _, err := raw.Delete([]byte("tags")); return err },
		"deleted with others": func(raw *copal.Raw) error { return raw.DeletePrefix([]byte("ta")) },
	} {
		t.Run(name, func(t *testing.T) {
			from, to := open(t, t.TempDir()), open(t, t.TempDir())
			raw := from.Raw()
			add := func(member string) {
				_, err := raw.StringSet([]byte("tags")).Add(member)
				must(t, err)
			}
			add("a")
			c := New(from, to)
			must(t, c.CatchUp(t.Context()))
			add("b")
			rounds := 0
			c.Tell = func(phase string) {
				if phase != "catching up" { // then a round has its view, and has not asked the feed yet
					return
				}
				switch rounds++; rounds {
				case 1:
					add("c")
				case 2: // which compares
					must(t, gone(raw))
					add("d")
				}
			}
			must(t, c.CatchUp(t.Context()))
			if rounds != 3 || !c.Report().Compared {
				t.Fatalf("there were %d rounds: %+v", rounds, c.Report())
			}
			must(t, c.Finish(t.Context()))
			equal(t, from, to)

			// A key that was not changed in the source still is a difference.
			_, err := to.Raw().StringSet([]byte("tags")).Add("theirs")
			must(t, err)
			var different *DifferentError
			if err := c.Finish(t.Context()); !errors.As(err, &different) || string(different.Key) != "tags" {
				t.Errorf("the comparison says %v", err)
			}
		})
	}
}

// TestManyThatGoHideNoDifference: collections that are deleted after the view fill the list of
// differences, and a foreign entry after them is found all the same.
func TestManyThatGoHideNoDifference(t *testing.T) {
	from, to := open(t, t.TempDir()), open(t, t.TempDir())
	add := func(member string) {
		for i := range mostKept + 200 {
			_, err := from.Raw().StringSet(fmt.Append(nil, "set ", i)).Add(member)
			must(t, err)
		}
	}
	add("a")
	must(t, from.Raw().Set([]byte("z"), []byte("ours")))
	c := New(from, to)
	must(t, c.CatchUp(t.Context()))
	add("b")
	rounds := 0
	c.Tell = func(phase string) {
		if phase != "catching up" {
			return
		}
		switch rounds++; rounds {
		case 1:
			add("c")
		case 2:
			must(t, from.Raw().DeletePrefix([]byte("set ")), to.Raw().Set([]byte("z"), []byte("theirs")))
		}
	}
	var different *DifferentError
	if err := c.CatchUp(t.Context()); !errors.As(err, &different) || string(different.Key) != "z" {
		t.Errorf("after %d rounds: %v, %+v", rounds, err, c.Report())
	}
}

// TestFollow copies later writes after the copy has caught up, until its context ends.
func TestFollow(t *testing.T) {
	from, to := open(t, t.TempDir()), open(t, t.TempDir())
	w := newWriter(t, from, 7)
	w.steps(t, 500)
	c := New(from, to)
	must(t, c.CatchUp(t.Context()))
	equal(t, from, to)
	until, end := context.WithCancel(t.Context())
	followed := make(chan error, 1)
	go func() { followed <- c.Follow(t.Context(), until) }()
	w.steps(t, 500)
	must(t, from.Raw().Set([]byte("last"), []byte("1")))
	for range to.Watch(t.Context(), copal.WithKey([]byte("last")), copal.WithAfter(0)) {
		break
	}
	end()
	must(t, <-followed, c.Finish(t.Context()))
	equal(t, from, to)
	if r := c.Report(); r.Walks != 1 || r.Rounds < 1 {
		t.Errorf("%+v", r)
	}
}

// TestLostHistory goes on with a copy whose source was compacted meanwhile, so that its changes are
// lost.
func TestLostHistory(t *testing.T) {
	from, to := open(t, t.TempDir()), open(t, t.TempDir())
	w := newWriter(t, from, 3)
	w.steps(t, 1000)
	must(t, New(from, to).CatchUp(t.Context()))
	w.steps(t, 1000)
	must(t, from.Compact(t.Context(), nil))
	c := New(from, to)
	must(t, c.CatchUp(t.Context()), c.Finish(t.Context()))
	equal(t, from, to)
	if r := c.Report(); r.Walks != 1 || !r.Resumed || r.Written > int64(from.Raw().Len()) {
		t.Errorf("%+v", r)
	}
}

func TestDestinationsThatAreNotEmpty(t *testing.T) {
	from, to := open(t, t.TempDir()), open(t, t.TempDir())
	must(t, from.Raw().Set([]byte("a"), []byte("1")), to.Raw().Set([]byte("b"), []byte("2")))
	c := New(from, to)
	if err := c.CatchUp(t.Context()); !errors.Is(err, ErrNotEmpty) {
		t.Fatalf("%v, and not ErrNotEmpty", err)
	}
	c.Replace = true
	must(t, c.CatchUp(t.Context()))
	equal(t, from, to)
	other := New(from, to)
	other.Name = "another"
	if err := other.CatchUp(t.Context()); err == nil {
		t.Error("the unfinished copy of another store is gone on with")
	}
	other.Replace = true
	must(t, other.CatchUp(t.Context()), other.Finish(t.Context()))
	equal(t, from, to)
}

// TestDifferencesAreFound changes the destination beside a copy: the comparison reports the keys.
func TestDifferencesAreFound(t *testing.T) {
	for name, spoil := range map[string]func(to *copal.DB) error{
		"value":    func(to *copal.DB) error { return to.Raw().Set([]byte("raw-7"), []byte("other")) },
		"deadline": func(to *copal.DB) error { return to.Raw().Expire([]byte("raw-7"), time.Hour) },
		"gone":     func(to *copal.DB) error { _, err := to.Raw().Delete([]byte("raw-7")); return err },
		"new":      func(to *copal.DB) error { return to.Raw().Set([]byte("raw-new"), nil) },
		"field":    func(to *copal.DB) error { return to.Raw().Hash([]byte("h")).Set("f", []byte("2")) },
		"order": func(to *copal.DB) error {
			l := to.Raw().List([]byte("l"))
			return errors.Join(l.Set(0, []byte("b")), l.Set(1, []byte("a")))
		},
		"score": func(to *copal.DB) error { return to.Raw().SortedSet([]byte("z")).Set("m", 2) },
	} {
		from, to := open(t, t.TempDir()), open(t, t.TempDir())
		raw := from.Raw()
		must(t, raw.Set([]byte("raw-7"), []byte("v")), raw.Hash([]byte("h")).Set("f", []byte("1")), raw.List([]byte("l")).PushBack([]byte("a"), []byte("b")),
			raw.SortedSet([]byte("z")).Set("m", 1))
		c := New(from, to)
		must(t, c.CatchUp(t.Context()), spoil(to))
		if err := c.Finish(t.Context()); !errors.As(err, new(*DifferentError)) {
			t.Errorf("%s: %v, and no difference", name, err)
		}
		again := New(from, to)
		again.Replace = name == "new"
		must(t, again.CatchUp(t.Context()), again.Finish(t.Context()))
		equal(t, from, to)
	}
}

// TestSourceStillWritten ends a copy whose source does not come to rest.
func TestSourceStillWritten(t *testing.T) {
	from, to := open(t, t.TempDir()), open(t, t.TempDir())
	c := New(from, to)
	c.Tell = func(phase string) {
		if phase == "comparing" {
			must(t, from.Raw().Set([]byte("k"), []byte("v")))
		}
	}
	must(t, from.Raw().Set([]byte("k"), []byte("v")), c.CatchUp(t.Context()))
	if err := c.Finish(t.Context()); err != ErrWritten {
		t.Errorf("%v, and not ErrWritten", err)
	}
	c.Tell = func(string) {}
	must(t, c.Finish(t.Context()))
	equal(t, from, to)
}

func TestSpanOf(t *testing.T) {
	for _, c := range []struct{ from, to, low, high string }{
		{"users:", "users;", "users:", "users;"},
		{"users:9", "users:30", "users:", "users;"}, // of numbers, whose order is not of bytes
		{"users:9", "", "users:", ""},
		{"a", "c", "a", "c"},
		{"a:x", "c", "a:x", "c"}, // of bytes, for no map has both
		{"", "", "", ""},
	} {
		to := []byte(c.to)
		if c.to == "" {
			to = nil
		}
		if got := spanOf([]byte(c.from), to); got != [2]string{c.low, c.high} {
			t.Errorf("[%q, %q): %q", c.from, c.to, got)
		}
	}
}

// looks is a directory whose views do not have all that it has: see changes the entries of the first ones.
type looks struct {
	directory
	left int // views that see changes
	see  func(admin.Entry) (admin.Entry, bool)
	more []admin.Entry // after all others
}

func (l *looks) view(ctx context.Context) (view, error) {
	v, err := l.directory.view(ctx)
	if l.left--; l.left < 0 {
		return v, err
	}
	return look{v, l}, err
}

type look struct {
	view
	l *looks
}

func (v look) entries(from, to []byte) iter.Seq2[admin.Entry, error] {
	return func(yield func(admin.Entry, error) bool) {
		for e, err := range v.view.entries(from, to) {
			if e, ok := v.l.see(e); ok && !yield(e, err) {
				return
			}
		}
		for _, e := range v.l.more {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (v look) one(key []byte) (admin.Entry, error) {
	for e, err := range v.entries(key, append(bytes.Clone(key), 0)) {
		if bytes.Equal(e.Key, key) {
			return e, err
		}
	}
	return admin.Entry{}, copal.ErrNotFound
}

// TestDeadlinesAreNoDifferences compares entries whose deadlines have come on one side.
func TestDeadlinesAreNoDifferences(t *testing.T) {
	past := time.Now().Add(-time.Second)
	without := func(e admin.Entry) (admin.Entry, bool) { return e, string(e.Key) != "k" }
	all := func(e admin.Entry) (admin.Entry, bool) { return e, true }
	old := []admin.Entry{{Key: []byte("old"), Value: []byte("v"), Expires: past}}
	other := []admin.Entry{{Key: []byte("own"), Value: []byte("v")}}
	for _, c := range []struct {
		name      string
		from, to  looks
		different bool
	}{
		{"gone from the source", looks{see: all}, looks{left: 2, see: all, more: old}, false},
		{"gone from the destination", looks{left: 1, see: all, more: old}, looks{see: all}, false},
		{"there when it is looked up again", looks{see: all}, looks{left: 1, see: without}, false},
		{"lost", looks{see: all}, looks{left: 2, see: without}, true},
		{"another", looks{see: all}, looks{left: 2, see: all, more: other}, true},
	} {
		from, to := open(t, t.TempDir()), open(t, t.TempDir())
		must(t, from.Raw().Set([]byte("k"), []byte("v")), to.Raw().Set([]byte("k"), []byte("v")))
		c.from.directory, c.to.directory = directory{from}, directory{to}
		copying := newCopy(&c.from, &c.to)
		now, err := c.from.view(t.Context())
		must(t, err)
		if err := copying.compare(t.Context(), now); errors.As(err, new(*DifferentError)) != c.different || err != nil && !c.different {
			t.Errorf("%s: %v", c.name, err)
		}
		now.close()
	}
}

// TestEntriesOfOthersStay goes on with a copy after somebody else has written to the destination.
func TestEntriesOfOthersStay(t *testing.T) {
	from, to := open(t, t.TempDir()), open(t, t.TempDir())
	must(t, from.Raw().Set([]byte("k"), []byte("v")), New(from, to).CatchUp(t.Context()), to.Raw().Set([]byte("own"), []byte("v")))
	if err := New(from, to).CatchUp(t.Context()); !errors.As(err, new(*DifferentError)) {
		t.Fatalf("%v, and no difference", err)
	}
	for range 2 {
		if err := New(from, to).CatchUp(t.Context()); !errors.Is(err, ErrOwn) || !to.Raw().Has([]byte("own")) {
			t.Fatalf("%v, and not ErrOwn", err)
		}
	}
	c := New(from, to)
	c.Replace = true
	must(t, c.CatchUp(t.Context()))
	equal(t, from, to)
	_, err := from.Raw().Delete([]byte("k"))
	must(t, err, New(from, to).CatchUp(t.Context()))
	equal(t, from, to)
}

// TestCollectionsWhoseTimeHasCome are none, whatever was read of them.
func TestCollectionsWhoseTimeHasCome(t *testing.T) {
	db := open(t, t.TempDir())
	d := directory{db}
	for _, of := range []string{"hash", "list", "set", "zset", "stream"} {
		for _, at := range []time.Time{time.Now().Add(-time.Hour), time.Now().Add(time.Hour)} {
			e := &admin.Entry{Key: []byte(of), Collection: of, Expires: at}
			must(t, d.putCollection(t.Context(), e, func(func(admin.Element, error) bool) {}))
			if db.Raw().Has(e.Key) {
				t.Errorf("there is a %s without elements", of)
			}
		}
		e := &admin.Entry{Key: []byte(of), Collection: of, Expires: time.Now().Add(-time.Hour)}
		must(t, d.putCollection(t.Context(), e, func(yield func(admin.Element, error) bool) {
			yield(admin.Element{Name: []byte("m"), Value: []byte("1")}, nil)
		}))
		if db.Raw().Has(e.Key) {
			t.Errorf("a %s has outlived its deadline", of)
		}
	}
}

// TestSchemasWithoutValuesAreLeftOut: a copy is the way to be rid of schemas, which a log keeps.
func TestSchemasWithoutValuesAreLeftOut(t *testing.T) {
	from, to := open(t, t.TempDir()), open(t, t.TempDir())
	for key, schema := range map[string]string{"a": "int", "b": "string", "c": "bool"} {
		must(t, admin.Put(from, &admin.Entry{Key: []byte(key), Value: []byte("0"), Codec: "json", Schema: schema}))
	}
	_, errA := from.Raw().Delete([]byte("a"))
	must(t, errA, from.Raw().Set([]byte("c"), []byte("raw")))
	c := New(from, to)
	must(t, c.CatchUp(t.Context()), c.Finish(t.Context()))
	if n := len(opened.Engine(from).SchemasBeyond(0)); n != 3 {
		t.Errorf("the source has %d schemas", n)
	}
	for _, schema := range opened.Engine(to).SchemasBeyond(0) {
		if schema.Text != "string" {
			t.Errorf("the copy has %v", schema)
		}
	}
}
