package rivals_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/copaldb/copal/internal/bench/rivals"
	"github.com/copaldb/copal/internal/bench/rivalstest"
)

// engines returns the engines of this platform. Badger maps more than fits where an int has 32
// bits.
func engines() []rivals.Engine {
	all := []rivals.Engine{rivals.Copal, rivals.Bbolt, rivals.Bunt}
	if strconv.IntSize > 32 {
		all = append(all, rivals.Badger, rivals.BadgerConflicts)
	}
	return all
}

func each(t *testing.T, f func(t *testing.T, e rivals.Engine)) {
	for i, e := range engines() {
		t.Run(fmt.Sprint(e.Name, " ", i), func(t *testing.T) { f(t, e) })
	}
}

func TestModel(t *testing.T) { each(t, rivalstest.Run) }

// All pairs of Fill are there, in batches and beyond the last whole one.
func TestFill(t *testing.T) {
	each(t, func(t *testing.T, e rivals.Engine) {
		s := open(t, e)
		const n = 2*rivals.BatchSize + 1
		key := make([]byte, 4)
		if err := rivals.Fill(s, n, func(i int) ([]byte, []byte) {
			binary.BigEndian.PutUint32(key, uint32(i))
			return key, key
		}); err != nil {
			t.Fatal(err)
		}
		seen := 0
		if err := s.View(func(tx rivals.Tx) error {
			return tx.Scan([]byte{0}, []byte{1}, func(k, v []byte) error {
				if got := int(binary.BigEndian.Uint32(k)); got != seen || string(v) != string(k) {
					return fmt.Errorf("pair %d is %x, %x", seen, k, v)
				}
				seen++
				return nil
			})
		}); err != nil || seen != n {
			t.Errorf("%d pairs of %d, %v", seen, n, err)
		}
	})
}

// Concurrent updates are each done once.
func TestUpdatesAreSerial(t *testing.T) {
	each(t, func(t *testing.T, e rivals.Engine) {
		if e.Name == "badger" && !looksForConflicts(t, e) {
			t.Skip("it is for one writer")
		}
		s := open(t, e)
		add := func(tx rivals.Tx) error {
			got, err := tx.Get([]byte("n"))
			if err != nil && !errors.Is(err, rivals.ErrAbsent) {
				return err
			}
			n, _ := strconv.Atoi(string(got))
			return tx.Put([]byte("n"), strconv.AppendInt(nil, int64(n+1), 10))
		}
		const writers, each = 4, 50
		errs := make([]error, writers)
		var done sync.WaitGroup
		for w := range writers {
			done.Go(func() {
				for range each {
					errs[w] = errors.Join(errs[w], s.Update(add))
				}
			})
		}
		done.Wait()
		got, err := s.Get([]byte("n"))
		if want := strconv.Itoa(writers * each); string(got) != want || errors.Join(append(errs, err)...) != nil {
			t.Errorf("%s of %s, %v, %v", got, want, errs, err)
		}
	})
}

func open(t *testing.T, e rivals.Engine) rivals.Store {
	s, err := e.OpenIn(t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// looksForConflicts reports whether a transaction runs again when another has changed an entry that
// it has read.
func looksForConflicts(t *testing.T, e rivals.Engine) bool {
	s, runs := open(t, e), 0
	if err := s.Update(func(tx rivals.Tx) error {
		runs++
		if _, err := tx.Get([]byte("a")); !errors.Is(err, rivals.ErrAbsent) && runs == 1 {
			return fmt.Errorf("it is there: %w", err)
		}
		if runs == 1 {
			if err := s.Put([]byte("a"), []byte("1")); err != nil {
				return err
			}
		}
		return tx.Put([]byte("b"), []byte("1"))
	}); err != nil {
		t.Fatal(err)
	}
	return runs > 1
}

// Buckets are within the outermost one, in order, and its walks skip them.
func TestBuckets(t *testing.T) {
	s := open(t, rivals.Bbolt)
	if err := s.View(func(tx rivals.Tx) error {
		_, err := tx.(rivals.Nester).Bucket([]byte("a"))
		return err
	}); !errors.Is(err, rivals.ErrAbsent) {
		t.Errorf("a bucket that is not there: %v", err)
	}
	if err := s.Update(func(tx rivals.Tx) error {
		for _, name := range []string{"c", "a", "b"} {
			b, err := tx.(rivals.Nester).Bucket([]byte(name))
			if err != nil {
				return err
			}
			if err := b.Put([]byte("k"), []byte("in "+name)); err != nil {
				return err
			}
		}
		return tx.Put([]byte("bb"), []byte("a pair"))
	}); err != nil {
		t.Fatal(err)
	}
	var seen []string
	err := s.View(func(tx rivals.Tx) error {
		one, err := tx.(rivals.Nester).Bucket([]byte("c"))
		if err != nil {
			return err
		}
		v, err := one.Get([]byte("k"))
		if err != nil {
			return err
		}
		seen = append(seen, string(v))
		if err := tx.(rivals.Nester).Buckets([]byte("a"), []byte("c"), func(name []byte, b rivals.Tx) error {
			v, err := b.Get([]byte("k"))
			seen = append(seen, string(name)+" "+string(v))
			return err
		}); err != nil {
			return err
		}
		return tx.Scan([]byte("a"), []byte("d"), func(key, _ []byte) error {
			seen = append(seen, string(key))
			return nil
		})
	})
	if got := strings.Join(seen, ", "); err != nil || got != "in c, a in a, b in b, bb" {
		t.Errorf("%s; %v", got, err)
	}
}
