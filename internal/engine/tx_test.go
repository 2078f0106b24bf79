package engine

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// open opens a store with its goroutines.
func openWhole(t *testing.T, fsys vfs.FS, change ...func(*Options)) *Store {
	t.Helper()
	s := mustOpen(t, fsys, append(change, func(o *Options) { o.Inline = false })...)
	t.Cleanup(func() { s.Close() })
	return s
}

func numberAt(t *testing.T, e Entry, err error) int {
	t.Helper()
	if err != nil && !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	n, _ := strconv.Atoi(string(e.Value))
	return n
}

// TestGroupShowsAtOnce: a reader that has seen one change of a group sees all of them, also without a lock.
func TestGroupShowsAtOnce(t *testing.T) {
	const keys = 40
	s := openWhole(t, vfs.NewMem())
	key := func(i int) []byte { return fmt.Append(nil, "key ", i) }
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for !done.Load() {
				last := 0
				for i := range keys { // a group changes them in this order, or in any other
					for _, k := range []int{i, keys - 1 - i} {
						e, err := s.Get(nil, key(k))
						n := numberAt(t, e, err)
						if n < last {
							t.Errorf("key %d has %d, after another had %d", k, n, last)
							done.Store(true)
							return
						}
						last = n
					}
				}
			}
		})
	}
	for n := 1; n <= 3000 && !done.Load(); n++ {
		var changes []*Change
		for i := range keys {
			changes = append(changes, &Change{Write: Write{Key: key(i), Value: strconv.AppendInt(nil, int64(n), 10)}})
		}
		if err := s.WriteAll(changes, Process); err != nil {
			t.Fatal(err)
		}
	}
	done.Store(true)
	wg.Wait()
}

// TestViewHasWhatWasBefore: where a view has a write, it has those that were acknowledged before that,
// asynchronous ones, too.
func TestViewHasWhatWasBefore(t *testing.T) {
	const keys = 64
	s := openWhole(t, vfs.NewMem())
	table, err := s.Map("m")
	if err != nil {
		t.Fatal(err)
	}
	cells := attached(t, s, "m")
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		defer done.Store(true)
		for n := 1; n <= 20_000 && !t.Failed(); n++ { // the keys one after the other, every other time at once in the log
			d := Async
			if n%2 == 0 {
				d = Process
			}
			value := strconv.AppendInt(nil, int64(n), 10)
			if _, err := s.Write(table, &Write{Key: fmt.Append(nil, "m:", n%keys), Value: value, Cells: cells, Cell: &cache.Cell{}, Durability: d}); err != nil {
				t.Error(err)
			}
		}
	})
	for !done.Load() && !t.Failed() {
		v, err := s.OpenView()
		if err != nil {
			t.Fatal(err)
		}
		var has [keys]int
		newest := 0
		for i := range keys {
			e, err := v.Get(table, fmt.Append(nil, "m:", i))
			has[i] = numberAt(t, e, err)
			newest = max(newest, has[i])
		}
		for i, n := range has {
			if want := newest - (newest-i+keys)%keys; want > 0 && n != want {
				t.Errorf("the view has %d, and for key %d it has %d, not %d", newest, i, n, want)
			}
		}
		v.Close()
	}
	wg.Wait()
}

// add adds to the number under a key.
func add(tx *Tx, key string, n int) error {
	e, err := tx.Get(nil, []byte(key))
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	old, _ := strconv.Atoi(string(e.Value))
	return tx.Write(nil, &Write{Key: []byte(key), Value: strconv.AppendInt(nil, int64(old+n), 10)})
}

// TestTransactionsGetThrough: if all writers change the same keys, by transactions and by other means, each
// gets through, and amounts moved between the keys are neither lost nor made.
func TestTransactionsGetThrough(t *testing.T) {
	s := openWhole(t, vfs.NewMem(), func(o *Options) { o.SegmentBytes = 100 << 10 })
	const writers, each = 8, 100
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				err := s.Transact(Process, func(tx *Tx) error {
					return errors.Join(add(tx, "total", 1), add(tx, fmt.Sprint("from ", w), -1), add(tx, fmt.Sprint("to ", (w+i)%3), 1))
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	var done atomic.Bool
	var rest sync.WaitGroup
	rest.Go(func() { // plain writes that are conflicts, for as long as they may
		for n := 0; !done.Load(); n++ {
			if err := s.Set(nil, fmt.Append(nil, "from ", n%writers), []byte("0"), 0, Process); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	done.Store(true)
	rest.Wait()
	e, err := s.Get(nil, []byte("total"))
	if n := numberAt(t, e, err); n != writers*each {
		t.Errorf("%d of %d", n, writers*each)
	}
	sum := 0
	for i := range 3 {
		e, err := s.Get(nil, fmt.Append(nil, "to ", i))
		sum += numberAt(t, e, err)
	}
	if sum != writers*each {
		t.Errorf("%d of %d arrived", sum, writers*each)
	}
}

// TestTransactionUnderConflict: a function that always meets a conflict runs again until it gets the turn, and
// then until it is alone.
func TestTransactionUnderConflict(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	runs, errs := 0, make(chan error, 1)
	err := s.Transact(Process, func(tx *Tx) error {
		if err := add(tx, "a", 1); err != nil {
			return err
		}
		runs++
		if alone := s.transactions.alone.Load(); alone != (runs > aloneAfter) {
			t.Errorf("run %d: alone %v", runs, alone)
		}
		if s.transactions.turn.TryRLock() {
			s.transactions.turn.RUnlock()
			if runs > turnAfter {
				t.Errorf("run %d: others could commit", runs)
			}
		}
		if runs > aloneAfter { // the other one waits, and has its turn later
			go func() { errs <- s.Set(nil, []byte("a"), []byte("100"), 0, Process) }()
			return nil
		}
		go func() { errs <- s.Set(nil, []byte("a"), []byte("10"), 0, Process) }()
		return <-errs
	})
	if err == nil {
		err = <-errs
	}
	if err != nil || runs != aloneAfter+1 {
		t.Errorf("%d runs, %v", runs, err)
	}
	wantValue(t, s, "a", "100")
	mustClose(t, s)
}

// TestTransactionRefusesOtherWrites: within its function every write that is not the transaction's is refused,
// and no write waits for itself.
func TestTransactionRefusesOtherWrites(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	mustSet(t, s, "b", "1")
	for conflicts := range aloneAfter + 2 {
		err := s.Transact(Process, func(tx *Tx) error {
			yield := func() {}
			if conflicts >= turnAfter { // as if there had been so many
				yield = s.transactions.urge(conflicts)
			}
			defer yield()
			key := []byte("b")
			_, deleted := s.Delete(nil, key, Process)
			_, updated := s.Update(nil, nil, key, false, Process, nil, func(Found, *Write) (bool, error) { return false, nil })
			for what, err := range map[string]error{
				"Set": s.Set(nil, key, key, 0, Process), "async": s.Set(nil, key, key, 0, Async), "Delete": deleted,
				"Expire":   s.Expire(nil, nil, key, 1<<50, Process),
				"WriteAll": s.WriteAll([]*Change{{Write: Write{Key: key}}}, Process),
				"Update":   updated,
				"Transact": s.Transact(Process, func(*Tx) error { return nil }),
			} {
				if !errors.Is(err, ErrNested) {
					t.Errorf("%s within a transaction: %v", what, err)
				}
			}
			if _, err := s.Map("declared"); err != nil {
				t.Error(err)
			}
			return s.Look(func(look *Tx) error { _, err := look.Get(nil, key); return err })
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	wantValue(t, s, "b", "1")
	if n := s.transactions.n.Load(); n != 0 || len(s.transactions.running) != 0 {
		t.Errorf("%d transactions are left", n)
	}
	mustClose(t, s)
}

// TestTransactionOfAnyLength: one that is too long for an append, with large values, over segments, and again
// when nothing but the log is left.
func TestTransactionOfAnyLength(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes, o.GroupBytes = 100<<10, 20<<10 })
	content := map[string]string{}
	err := s.Transact(Power, func(tx *Tx) error {
		for n := range 5000 {
			key, value := fmt.Sprint("key ", n), fmt.Sprint("value ", n)
			if n%2000 == 7 {
				value = string(make([]byte, 2*seglog.PartBytes))
			}
			content[key] = value
			if err := tx.Write(nil, &Write{Key: []byte(key), Value: []byte(value)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.log.Spread) != 1 {
		t.Errorf("%d groups in several segments", len(s.log.Spread))
	}
	for range 2 {
		s.wantSame(t, content)
		mustClose(t, s)
		logtest.RemoveIndex(mem, "db")
		s = mustOpen(t, mem)
	}
	mustClose(t, s)
}

// readsOfAKey are the ways in which a transaction reads a key. They return something else for an entry than for
// none.
var readsOfAKey = map[string]func(tx *Tx, key []byte) (any, error){
	"Has":    func(tx *Tx, key []byte) (any, error) { return tx.Has(nil, key) },
	"Get":    func(tx *Tx, key []byte) (any, error) { _, err := tx.Get(nil, key); return err, nil },
	"a hash": func(tx *Tx, key []byte) (any, error) { _, err := tx.Collections().Find(key, HashType); return err, nil },
	"a list": func(tx *Tx, key []byte) (any, error) { _, err := tx.Collections().Find(key, ListType); return err, nil },
	"a field": func(tx *Tx, key []byte) (any, error) {
		_, err := tx.Collections().Get(key, HashType, key)
		return err, nil
	},
	"Len":       func(tx *Tx, _ []byte) (any, error) { return tx.Len(tx.store.Tables()[0]) },
	"iteration": func(tx *Tx, _ []byte) (any, error) { return keysOf(tx.Items(tx.store.Tables()[0], false)) },
	"walk": func(tx *Tx, _ []byte) (any, error) {
		return keysOf(tx.InOrder(tx.store.Tables()[0], keycodec.BytesOrder, Span{}, false))
	},
	"Clear": func(tx *Tx, key []byte) (any, error) {
		existed, err := tx.Clear(key, HashType)
		return fmt.Sprint(existed, err), nil
	},
}

func keysOf(items func(func(Item) bool)) (any, error) {
	keys := 0
	for item := range items {
		if item.Err != nil {
			return keys, item.Err
		}
		keys++
	}
	return keys, nil
}

// mortals are the entries that TestTransactionExpiry reads.
var mortals = map[string]func(t *testing.T, s *Store){
	"value":      func(t *testing.T, s *Store) { mustSet(t, s, "mortal", "1") },
	"collection": func(t *testing.T, s *Store) { mustChange(t, s, "mortal", hset("mortal", "1")) },
}

// TestTransactionExpiry: an entry that expires between a read and the commit is a change; one that had expired
// before does not exist, even if it was not removed.
func TestTransactionExpiry(t *testing.T) {
	for what, make := range mortals {
		for name, read := range readsOfAKey {
			clock := logtest.NewClock()
			s := mustOpen(t, vfs.NewMem(), func(o *Options) { o.Clock = clock })
			make(t, s)
			deadline, err := s.Deadline(time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Expire(nil, nil, []byte("mortal"), deadline, Process); err != nil {
				t.Fatal(err)
			}
			var said []any
			err = s.Transact(Process, func(tx *Tx) error {
				say, err := read(tx, []byte("mortal"))
				if said = append(said, say); len(said) > 2 {
					return errors.New("it does not get through")
				}
				clock.Advance(2 * time.Second)
				return errors.Join(err, tx.Write(nil, &Write{Key: []byte("seen"), Value: []byte("1")}))
			})
			if err != nil || len(said) != 2 || fmt.Sprint(said[0]) == fmt.Sprint(said[1]) {
				t.Errorf("%s of a %s says %v: %v", name, what, said, err)
			}
			mustClose(t, s)
		}
	}
}

// TestViewListsWhatIsAppended: a key that is in the log, and about to enter the index, is in an iteration over
// the view that has it.
func TestViewListsWhatIsAppended(t *testing.T) {
	s := openWhole(t, vfs.NewMem())
	var wg sync.WaitGroup
	var done atomic.Bool
	for w := range 4 {
		wg.Go(func() {
			for n := 0; n < 2000 && !t.Failed(); n++ {
				if err := s.Set(nil, fmt.Append(nil, w, n), []byte("1"), 0, Process); err != nil {
					t.Error(err)
				}
			}
		})
	}
	go func() {
		wg.Wait()
		done.Store(true)
	}()
	raw := s.Tables()[0]
	for !done.Load() && !t.Failed() {
		v, err := s.OpenView()
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for item := range v.Items(raw, false) {
			if n++; item.Err != nil {
				t.Error(item.Err)
			}
		}
		if n != int(v.Seq()) { // each record is a key
			t.Errorf("%d of %d keys", n, v.Seq())
		}
		v.Close()
	}
	wg.Wait()
}
