package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/index"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// TestKeysHoldNoValues: a key that an iteration yields does not keep the record it was read from
// in memory.
func TestKeysHoldNoValues(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	mustSet(t, s, "key", strings.Repeat("x", 1<<20))
	for item := range s.Keys(s.Tables()[0]) {
		if cap(item.Key) > 100 {
			t.Errorf("the key has a capacity of %d bytes", cap(item.Key))
		}
	}
}

// TestIterationEndsWhenTheStoreIsClosed: an iteration over a store that is being closed, or was
// closed, yields ErrClosed once and ends.
func TestIterationEndsWhenTheStoreIsClosed(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	for i := range 100 {
		mustSet(t, s, fmt.Sprint(i), "v")
	}
	table := s.Tables()[0]
	n, errs := 0, 0
	for item := range s.Items(table) {
		if item.Err != nil {
			errs++
			continue
		}
		if n++; n == 10 {
			mustClose(t, s)
		}
	}
	if n != 10 || errs != 1 {
		t.Errorf("%d entries and %d errors, want 10 and 1", n, errs)
	}
	for item := range s.Items(table) {
		if item.Err != seglog.ErrClosed {
			t.Errorf("after Close: %+v", item)
		}
		errs++
	}
	if errs != 2 {
		t.Errorf("a loop after Close gives %d errors, want 1", errs-1)
	}
}

// TestIterationFindsWhatMovesBeforeItIsPinned: an iteration finds the entries that move to a new
// segment after their part of the index was listed and before its segments are pinned.
func TestIterationFindsWhatMovesBeforeItIsPinned(t *testing.T) {
	ways := map[string]func(table *Table, f func(key []byte) error) error{
		"for an order": func(table *Table, f func(key []byte) error) error {
			return table.eachKey(index.Shards-1, func(key []byte, _ hit, err error) error {
				if err != nil {
					return err
				}
				return f(key)
			})
		},
		"to iterate": func(table *Table, f func(key []byte) error) error {
			for item := range table.store.Items(table) {
				if item.Err != nil {
					return item.Err
				}
				if err := f(item.Key); err != nil {
					return err
				}
			}
			return nil
		},
	}
	for what, all := range map[string]int{"for an order": 1, "to iterate": index.Shards} { // parts that are listed
		read := ways[what]
		t.Run(what, func(t *testing.T) {
			s := mustOpen(t, vfs.NewMem(), func(o *Options) { o.OnError = func(err error) { t.Error(err) } })
			table := s.RawTable()
			const last = index.Shards - 1
			var keys []string // in the last part of the index
			for n := 0; len(keys) < 2; n++ {
				if key := fmt.Sprint("key ", n); index.ShardOf(table.hash([]byte(key))) == last {
					keys = append(keys, key)
					mustSet(t, s, key, "old")
				}
			}
			parts := 0
			defer func(before func()) { partListed = before }(partListed)
			partListed = func() {
				if parts++; parts != all {
					return
				}
				if err := s.sealTail(); err != nil {
					t.Error(err)
				}
				for _, key := range keys {
					mustSet(t, s, key, "new")
				}
			}
			var got []string
			err := read(table, func(key []byte) error {
				got = append(got, string(key))
				mustSet(t, s, "garbage", "1")
				mustSet(t, s, "garbage", "2")
				return s.Compact(context.Background(), nil)
			})
			if err != nil {
				t.Error(err)
			}
			slices.Sort(got)
			got = slices.DeleteFunc(slices.Compact(got), func(key string) bool { return key == "garbage" })
			slices.Sort(keys)
			if fmt.Sprint(got) != fmt.Sprint(keys) {
				t.Errorf("read were %q, want %q", got, keys)
			}
			mustClose(t, s)
		})
	}
}
