package engine

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/copaldb/copal/internal/keyrange"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

func txChange(tx *Tx, key string, edits []*Edit) error {
	return tx.Change([]byte(key), HashType, func(*Plan) ([]*Edit, error) { return edits, nil })
}

// TestCollectionTransactionsAgainstAModel runs random transactions over hashes and values, each of which sees
// what it has done itself, and compares what they leave.
func TestCollectionTransactionsAgainstAModel(t *testing.T) {
	rounds := 600
	if longTest() {
		rounds = 50_000
	}
	rng := rand.New(rand.NewPCG(16, 19))
	options := func(o *Options) { o.SegmentBytes, o.GroupBytes = 2000, 700 }
	mem := vfs.NewCrashMem()
	s := mustOpen(t, mem, options)
	model := map[string]string{} // values, and texts of hashes
	errRollback := errors.New("rolled back")
	for i := range rounds {
		next := maps.Clone(model)
		giveUp := rng.IntN(5) == 0
		err := s.Transact(Process, func(tx *Tx) error {
			next = maps.Clone(model)
			for range 1 + rng.IntN(8) {
				if err := randomTxStep(tx, rng, next); err != nil {
					return err
				}
				if err := wantTxState(tx, next); err != nil {
					return err
				}
			}
			if giveUp {
				return errRollback
			}
			return nil
		})
		switch {
		case err == nil:
			model = next
		case err != errRollback:
			t.Fatalf("round %d: %v", i, err)
		}
		err = nil
		switch rng.IntN(12) {
		case 0:
			err = compactRun(s, rng.IntN(100))
		case 1:
			err = s.Sweep()
		case 2:
			mem = mem.ProcessCrash()
			s = mustOpen(t, mem, options)
		}
		if err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		if err := s.Look(func(tx *Tx) error { return wantTxState(tx, model) }); err != nil {
			t.Fatalf("round %d: after the commit: %v", i, err)
		}
		if i%10 == 0 {
			wantNoLeft(t, s)
		}
		for _, key := range txKeys {
			text, err := readHash(s.Collections(), key)
			if is := len(hashOf(model[key])) > 0; is != (err == nil) || is && text != model[key] {
				t.Fatalf("round %d: %q is %s, %v, want %s", i, key, text, err, model[key])
			}
		}
	}
	wantNoLeft(t, s)
	mustClose(t, s)
}

var txKeys = []string{"a", "b", "c"}

// randomTxStep does something, in the transaction and in the model.
func randomTxStep(tx *Tx, rng *rand.Rand, model map[string]string) error {
	key, to := txKeys[rng.IntN(3)], txKeys[rng.IntN(3)]
	text, there := model[key]
	elements := hashOf(text)
	isHash := len(elements) > 0
	put := func(key string, elements map[string]string) {
		if delete(model, key); len(elements) > 0 {
			model[key] = hashText(elements)
		}
	}
	switch rng.IntN(9) {
	case 0:
		model[key] = fmt.Sprint("value ", rng.IntN(100))
		return tx.Write(nil, &Write{Key: []byte(key), Value: []byte(model[key])})
	case 1:
		delete(model, key)
		existed, err := tx.Delete(nil, nil, []byte(key))
		if err == nil && existed != there {
			err = fmt.Errorf("deleting %q: %v, want %v", key, existed, there)
		}
		return err
	case 2:
		if there && !isHash {
			return nil
		}
		put(key, nil)
		existed, err := tx.Clear([]byte(key), HashType)
		if err == nil && existed != there {
			err = fmt.Errorf("clearing %q: %v, want %v", key, existed, there)
		}
		return err
	case 3, 4:
		if !isHash {
			return nil
		}
		if key != to {
			put(key, nil)
			put(to, elements)
		}
		return tx.Rename([]byte(key), []byte(to), HashType)
	}
	if there && !isHash {
		if err := txChange(tx, key, hset("x", "")); !errors.Is(err, ErrType) {
			return fmt.Errorf("a change of the value %q: %w", key, err)
		}
		return nil
	}
	var edits []*Edit
	for range 1 + rng.IntN(5) {
		sub, value := fmt.Sprint(rng.IntN(6)), fmt.Sprint(rng.IntN(1000))
		if rng.IntN(3) == 0 {
			edits = append(edits, hdel(sub)...)
			delete(elements, sub)
		} else {
			edits = append(edits, hset(sub, value)...)
			elements[sub] = value
		}
	}
	put(key, elements)
	return txChange(tx, key, edits)
}

// wantTxState compares what a transaction sees with the model.
func wantTxState(tx *Tx, model map[string]string) error {
	for _, key := range txKeys {
		e, err := tx.Get(nil, []byte(key))
		got := string(e.Value)
		if errors.Is(err, ErrType) {
			got, err = readHash(tx.Collections(), key)
		}
		want, there := model[key]
		if there && (err != nil || got != want) || !there && err != ErrNotFound {
			return fmt.Errorf("%q is %q, %w, want %q", key, got, err, want)
		}
	}
	return nil
}

// TestDeadlinesInATransaction: a transaction tells the deadline of a value and of a collection, as it was and
// as it has written it.
func TestDeadlinesInATransaction(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	at := s.now() + 1e9
	mustSet(t, s, "v", "1")
	mustChange(t, s, "h", hset("a", "1"))
	for _, key := range []string{"v", "h"} {
		if err := s.Expire(nil, nil, []byte(key), at, Process); err != nil {
			t.Fatal(err)
		}
	}
	err := s.Transact(Process, func(tx *Tx) error {
		want := func(key string, deadline uint64, failed error) {
			t.Helper()
			if d, err := tx.DeadlineOf(nil, []byte(key)); d != deadline || err != failed {
				t.Errorf("%q has the deadline %d, %v, want %d, %v", key, d, err, deadline, failed)
			}
		}
		want("v", at, nil)
		want("h", at, nil)
		want("nothing", 0, ErrNotFound)
		err := tx.Write(nil, &Write{Key: []byte("v"), Value: []byte("2"), Expiry: at + 5})
		err = errors.Join(err, tx.Redate([]byte("h"), HashType, at+6), txChange(tx, "new", hset("a", "1")))
		want("v", at+5, nil)
		want("h", at+6, nil)
		want("new", 0, nil)
		_, gone := tx.Clear([]byte("h"), HashType)
		want("h", 0, ErrNotFound)
		return errors.Join(err, gone)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func walkAll(r Collections, values bool) error {
	for item := range r.All([]byte("h"), HashType, Span{}, values) {
		if item.Err != nil {
			return item.Err
		}
	}
	return nil
}

// TestCollectionConflicts says for what a transaction runs again: when what it has read of a
// collection, which it may have changed before, is not what there is.
func TestCollectionConflicts(t *testing.T) {
	read := map[string]func(r Collections) error{
		"element": func(r Collections) error { _, err := r.Get([]byte("h"), HashType, []byte("a")); return err },
		"missing": func(r Collections) error { _, err := r.Get([]byte("h"), HashType, []byte("new")); return err },
		"count":   func(r Collections) error { _, err := r.CountIn([]byte("h"), HashType, Span{}); return err },
		"first":   func(r Collections) error { _, _, err := r.At([]byte("h"), HashType, Span{}, 0); return err },
		"part":    func(r Collections) error { _, _, err := r.Part([]byte("h"), HashType, 0, 1); return err },
		"keys":    func(r Collections) error { return walkAll(r, false) },
		"values":  func(r Collections) error { return walkAll(r, true) },
		"nothing": func(Collections) error { return nil },
	}
	meanwhile := map[string]func(s *Store) error{
		"overwrite a": func(s *Store) error { return tryChange(s, "h", hset("a", "changed")) },
		"overwrite b": func(s *Store) error { return tryChange(s, "h", hset("b", "changed")) },
		"insert":      func(s *Store) error { return tryChange(s, "h", hset("new", "1")) },
		"exchange":    func(s *Store) error { return tryChange(s, "h", append(hset("new", "1"), hdel("b")...)) },
		"remove b":    func(s *Store) error { return tryChange(s, "h", hdel("b")) },
		"clear":       func(s *Store) error { _, err := s.Clear([]byte("h"), HashType, Process); return err },
		"another":     func(s *Store) error { return tryChange(s, "g", hset("a", "1")) },
		"nothing":     func(*Store) error { return nil },
	}
	conflicts := map[string]string{ // what of these is one
		"element": "overwrite a, clear", "missing": "insert, exchange, clear", "count": "insert, exchange, remove b, clear",
		"first": "insert, exchange, remove b, clear", "part": "insert, exchange, remove b, clear",
		"keys": "insert, exchange, remove b, clear", "values": "overwrite a, overwrite b, insert, exchange, remove b, clear",
		"nothing": "",
	}
	own := map[string]func(tx *Tx) error{ // what the transaction has done to the collection before
		"nothing":      func(*Tx) error { return nil },
		"overwrite b":  func(tx *Tx) error { return txChange(tx, "h", hset("b", "mine")) },
		"insert c":     func(tx *Tx) error { return txChange(tx, "h", hset("c", "mine")) },
		"delete a":     func(tx *Tx) error { return txChange(tx, "h", hdel("a")) },
		"delete both":  func(tx *Tx) error { return txChange(tx, "h", hdel("a", "b")) },
		"set deadline": func(tx *Tx) error { return tx.Redate([]byte("h"), HashType, 1<<50) },
	}
	conflicts["own overwrite b"] = "overwrite b, exchange, remove b, clear" // which has looked whether b is there
	conflicts["own insert c"] = "clear"
	conflicts["own delete a"] = "overwrite a, overwrite b, exchange, remove b, clear" // which leaves b
	conflicts["own delete both"] = "overwrite a, overwrite b, insert, exchange, remove b, clear"
	conflicts["own set deadline"] = "clear"
	for what, look := range read {
		for other, f := range meanwhile {
			for before, change := range own {
				s := mustOpen(t, vfs.NewMem())
				mustChange(t, s, "h", hset("a", "1", "b", "2"))
				calls := 0
				err := s.Transact(Process, func(tx *Tx) error {
					if calls++; calls > 1 {
						return nil
					}
					if err := change(tx); err != nil {
						return err
					}
					if err := look(tx.Collections()); err != nil && err != ErrNotFound {
						return err
					}
					done := make(chan error)
					go func() { done <- f(s) }()
					if err := <-done; err != nil {
						return err
					}
					return tx.Write(nil, &Write{Key: []byte("written"), Value: []byte("1")})
				})
				want := 1
				if list := conflicts[what] + ", " + conflicts["own "+before]; slices.Contains(strings.Split(list, ", "), other) && other != "nothing" {
					want = 2
				}
				if err != nil || calls != want {
					t.Errorf("after %s of its own %s is read, and then %s: %d calls, %v, want %d", before, what, other, calls, err, want)
				}
				mustClose(t, s)
			}
		}
	}
}

// TestCollectionTransactionsAreSerial: many move units between two hashes, in transactions and by single
// changes, of each of which there is a list, too; no unit is lost, and none made.
func TestCollectionTransactionsAreSerial(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	const writers, rounds = 6, 30
	mustChange(t, s, "a", hset("n", "1000"))
	mustChange(t, s, "b", hset("n", "1000"))
	number := func(tx *Tx, key string) (int, error) {
		e, err := tx.Collections().Get([]byte(key), HashType, []byte("n"))
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(string(e.Value))
	}
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			from, to := "a", "b"
			if w%2 == 1 {
				from, to = to, from
			}
			for i := range rounds {
				err := s.Transact(Process, func(tx *Tx) error {
					n, err := number(tx, from)
					m, err2 := number(tx, to)
					if err = errors.Join(err, err2); err != nil {
						return err
					}
					if n+m != 2000 {
						return fmt.Errorf("%d and %d are seen", n, m)
					}
					err = txChange(tx, from, hset("n", fmt.Sprint(n-i)))
					return errors.Join(err, txChange(tx, to, hset("n", fmt.Sprint(m+i), fmt.Sprint("by ", w), fmt.Sprint(i))))
				})
				if err == nil {
					err = tryChange(s, from, hset(fmt.Sprint("alone ", w), fmt.Sprint(i)))
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	err := s.Look(func(tx *Tx) error {
		n, err := number(tx, "a")
		m, err2 := number(tx, "b")
		if n+m != 2000 {
			t.Errorf("%d and %d are left", n, m)
		}
		return errors.Join(err, err2)
	})
	if err != nil {
		t.Error(err)
	}
	for _, key := range []string{"a", "b"} {
		if text, err := readHash(s.Collections(), key); err != nil || len(hashOf(text)) != 1+writers {
			t.Errorf("%q is %s, %v", key, text, err)
		}
	}
	wantNoLeft(t, s)
}

// TestMovedAndBackOverARange: a collection that a transaction moves away, and back over the range that it deletes
// meanwhile, is there when that has committed.
func TestMovedAndBackOverARange(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	mustChange(t, s, "a", hset("f", "v"))
	err := s.Transact(Process, func(tx *Tx) error {
		return errors.Join(
			tx.Rename([]byte("a"), []byte("b"), HashType),
			tx.DeleteRange(keyrange.Prefix([]byte("a"))),
			tx.Rename([]byte("b"), []byte("a"), HashType))
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if n, err := s.Collections().CountIn([]byte("a"), HashType, Span{}); n != 1 || err != nil {
			t.Errorf("there are %d elements, %v", n, err)
		}
		s = mustOpen(t, mem.ProcessCrash())
	}
}

// TestChangeOverWhatCannotBeWritten: a change of a collection whose key has a value that waits in memory, and for
// which the disk has no room, is refused as other writes are.
func TestChangeOverWhatCannotBeWritten(t *testing.T) {
	disk := logtest.NewSmallDisk(vfs.NewMem(), 200)
	s := mustOpen(t, disk, func(o *Options) { o.SegmentBytes = 50_000 })
	c := attached(t, s, "m")
	mustSet(t, s, "m:declared", "first")
	for n := 0; n < 5000; n++ {
		if err := s.Set(nil, fmt.Append(nil, "key ", n), make([]byte, 500), 0, Process); err != nil {
			break
		}
	}
	disk.SetFree(0)
	for i := range 20 {
		c.setAsync(t, s, fmt.Sprint("late ", i), strings.Repeat("late", 100))
	}
	s.Flush(c)
	looks := 0
	defer func(before func()) { keyLookedAt = before }(keyLookedAt)
	keyLookedAt = func() {
		if looks++; looks == 100 {
			disk.SetFree(100_000)
		}
	}
	if err := tryChange(s, "m:late 3", hset("f", "v")); !errors.Is(err, seglog.ErrNoSpace) || looks >= 100 {
		t.Errorf("after %d looks: %v", looks, err)
	}
	disk.SetFree(100_000)
}
