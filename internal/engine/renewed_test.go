package engine

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/vfs"
)

// earlyClock calls a function once, before the next look at it.
type earlyClock struct {
	*logtest.Clock
	f func()
}

func (c *earlyClock) Now() time.Time {
	f := c.f
	if c.f = nil; f != nil {
		f()
	}
	return c.Clock.Now()
}

// An entry that gets another deadline before the first has come is there throughout, also for a reader that has
// read its record with the first, and looks at the clock when that has passed.
func TestRenewedWhileItIsRead(t *testing.T) {
	value := func(e Entry, err error) error {
		if err == nil && string(e.Value) != "value" {
			err = fmt.Errorf("it is %q", e.Value)
		}
		return err
	}
	for what, read := range map[string]func(s *Store, c *Cells, key []byte) error{
		"Get": func(s *Store, _ *Cells, key []byte) error { return value(s.Get(nil, key)) },
		"Read": func(s *Store, c *Cells, key []byte) error {
			var e Entry
			err := s.Read(&e, c, true, s.Hash("k"), key, make([]byte, 100))
			return value(e, err)
		},
		"Items":   func(s *Store, _ *Cells, _ []byte) error { return theOnly(s.Items(s.spaces[0].maps["m"])) },
		"Keys":    func(s *Store, _ *Cells, _ []byte) error { return theOnly(s.Keys(s.spaces[0].maps["m"])) },
		"Entries": func(s *Store, c *Cells, _ []byte) error { return theOnly(s.Entries(c, true)) },
		"AppendGet": func(s *Store, _ *Cells, key []byte) error {
			b, _, err := s.AppendGet(nil, key, nil)
			return value(Entry{Value: b}, err)
		},
		"ViewValue": func(s *Store, _ *Cells, key []byte) error {
			return s.ViewValue(key, nil, func(b []byte, _ uint64) error { return value(Entry{Value: b}, nil) })
		},
		"Has": func(s *Store, _ *Cells, key []byte) error {
			has, err := s.Has(nil, key)
			if err == nil && !has {
				err = ErrNotFound
			}
			return err
		},
	} {
		for _, open := range []bool{false, true} {
			if !open && (what == "Read" || what == "Entries") {
				continue
			}
			clock := &earlyClock{Clock: logtest.NewClock()}
			s := mustOpen(t, vfs.NewMem(), func(o *Options) { o.Clock = clock })
			table, err := s.Map("m")
			if err != nil {
				t.Fatal(err)
			}
			var c *Cells
			if open {
				c = attached(t, s, "m")
			}
			key, looked := []byte("m:k"), false
			putTTL(t, s, "m:k", "value", time.Second)
			if err := s.Sync(); err != nil { // so that it can be read in place
				t.Fatal(err)
			}
			clock.f = func() {
				looked = true
				deadline, err := s.Deadline(time.Hour)
				if err = errors.Join(err, s.Expire(nil, nil, key, deadline, Process)); err != nil {
					t.Error(err)
				}
				clock.Advance(2 * time.Second)
			}
			if err := read(s, c, key); err != nil || !looked {
				t.Errorf("%s, map open %v: %v; it has looked at the clock: %v", what, open, err, looked)
			}
			clock.Advance(time.Hour)
			if err := read(s, c, key); err == nil {
				t.Errorf("%s, map open %v: it is there behind its deadline", what, open)
			}
			if n := table.Len(); n != 0 {
				t.Errorf("%s, map open %v: Len = %d", what, open, n)
			}
			mustClose(t, s)
		}
	}
}

// theOnly returns nil if an iteration yields one entry.
func theOnly(items func(func(Item) bool)) error {
	n := 0
	for item := range items {
		if item.Err != nil {
			return item.Err
		}
		n++
	}
	if n != 1 {
		return fmt.Errorf("%w: %d entries", ErrNotFound, n)
	}
	return nil
}
