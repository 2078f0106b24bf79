package keys

import (
	"bytes"
	"cmp"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/copaldb/copal/redisapi/internal/command"
	"github.com/copaldb/copal/redisapi/internal/elements"

	copaladmin "github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/glob"
)

// A walk over the whole is many requests of a client, maybe by many connections: SCAN, HSCAN, SSCAN
// and ZSCAN. Keys, fields and members have an order, so a walk is somewhere in that order: after the last one
// that was returned. An entry that is there all the time is returned once, whatever comes and goes meanwhile.
// A cursor is a number, so the server keeps for each number where it is.

// mostForeign is how many keys of other databases, or without the literal beginning of the pattern, a page of a walk in
// no order passes over.
const mostForeign = 10_000

// somePage is how many keys are read at a time, in no order: they may have 64 KiB each.
const somePage = 1 << 8

// anyPage is page for a walk over the client's database in no order, which begins without sorting keys.
func anyPage(c *command.Call, o *elements.Scanning, keep func(name []byte) bool) (kept [][]byte, err error) {
	place, more, prefix := o.Place, true, glob.Literal(o.Match)
	for n, foreign := 0, 0; n < o.Count && foreign < mostForeign && more; {
		var keys [][]byte
		if keys, place, more, err = copaladmin.SomeKeys(c.Shared.DB, place, min(o.Count-n, somePage)); err != nil {
			return nil, err
		}
		for _, raw := range keys {
			db, key := command.DatabaseOf(raw)
			switch {
			case db != int(c.Database.Load()), !bytes.HasPrefix(key, prefix):
				foreign++
				continue
			case keep(key):
				c.Uses(len(key) + command.EntryBytes)
				kept = append(kept, key)
			}
			n++
		}
		if !c.GoOn(len(keys)) {
			return nil, c.Err()
		}
	}
	cursor := uint64(0)
	if more {
		cursor = c.Cursors().Give(elements.Walked(c)+elements.AnyOrder, []byte(place))
	}
	c.Array(2)
	c.BulkString(strconv.FormatUint(cursor, 10))
	return kept, nil
}

func scan(c *command.Call) error {
	o, err := elements.ScanOptions(c, 1)
	if err == nil {
		err = c.MayReadFrom(glob.Literal(o.Match))
	}
	if err == nil {
		err = c.CheckOpen()
	}
	if err != nil {
		return err
	}
	keep := func(key []byte) bool {
		if o.Match != nil && !elements.Fits(c, o.Match, key) {
			return false
		}
		if o.Kind == nil {
			return true
		}
		kind, err := c.Store.Type(c.RawKey(key))
		return err == nil && command.TypeNames[kind] == string(o.Kind)
	}
	var list [][]byte
	if o.Any {
		list, err = anyPage(c, &o, keep)
	}
	switch {
	case !o.Any, errors.Is(err, errors.ErrUnsupported):
		list = elements.Page(c, &o, walkLike(c, glob.Literal(o.Match), o.From), keep)
	case err != nil:
		return err
	}
	c.Array(len(list))
	for _, key := range list {
		c.Bulk(key)
	}
	return nil
}

// walkLike yields the keys of the client's database with a prefix from one on, in order.
func walkLike(c *command.Call, prefix, from []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for key := range c.Walk(slices.MaxFunc([][]byte{prefix, from}, bytes.Compare)) {
			if !bytes.HasPrefix(key, prefix) || !yield(key) {
				return
			}
		}
	}
}

// keysLike is KEYS.
func keysLike(c *command.Call) error {
	pattern := c.Args[1]
	prefix := glob.Literal(pattern)
	if err := cmp.Or(c.MayReadFrom(prefix), c.CheckOpen()); err != nil {
		return err
	}
	from, n := len(c.Buf), 0
	take := func(key []byte) {
		if elements.Fits(c, pattern, key) {
			c.Bulk(key)
			n++
		}
	}
	few := c.Tx != nil || c.Store.Len() <= elements.FewKeys
	if !few {
		takeAll := func(all iter.Seq2[[]byte, error]) error {
			for key, err := range all {
				if err != nil {
					return err
				}
				take(key)
			}
			return nil
		}
		maps := func() (names []string) {
			for name := range c.Shared.DB.Maps() {
				names = append(names, name)
			}
			return names
		}
		sorted := len(prefix) > 0
		if !sorted {
			before := maps()
			err := takeAll(anywhere(c, ""))
			if few = errors.Is(err, errors.ErrUnsupported); err != nil && !few {
				return err
			}
			if sorted = !few && !slices.Equal(maps(), before); sorted { // keys of a map that was declared meanwhile may have come twice
				c.Cut(from)
				n = 0
			}
		}
		if sorted {
			if err := takeAll(sortedLike(c, prefix)); err != nil {
				return err
			}
		}
	}
	if few {
		for key := range walkLike(c, prefix, nil) {
			take(key)
		}
	}
	c.Before(from, func() { c.Array(n) })
	return nil
}

// sortedLike yields the keys of the client's database with a prefix, in order. It keeps no order. An error is
// the last.
func sortedLike(c *command.Call, prefix []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for raw, err := range copaladmin.Keys(c.Shared.DB, copaladmin.Selection{Prefix: c.RawKey(prefix)}) {
			if err == nil && !c.GoOn(1) {
				err = c.Err()
			}
			switch db, key := command.DatabaseOf(raw); {
			case err != nil:
				yield(nil, err)
				return
			case db == int(c.Database.Load()) && !yield(key, nil):
				return
			}
		}
	}
}

// anywhere yields the keys of the client's database from a place on, in no order. An error is the last.
func anywhere(c *command.Call, place copaladmin.Place) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for n, more := 8, true; more; n = min(2*n, somePage) {
			var keys [][]byte
			var err error
			keys, place, more, err = copaladmin.SomeKeys(c.Shared.DB, place, n)
			if err == nil && !c.GoOn(len(keys)) {
				err = c.Err()
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for _, raw := range keys {
				if db, key := command.DatabaseOf(raw); db == int(c.Database.Load()) && !yield(key, nil) {
					return
				}
			}
		}
	}
}

// randomkey returns the first key after a random place or, in a transaction, after a place between the first and the
// last.
func randomkey(c *command.Call) error {
	if err := c.CheckOpen(); err != nil {
		return err
	}
	if c.Tx == nil {
		key, ok, err := someKey(c, copaladmin.AnyPlace)
		if err == nil && !ok {
			key, ok, err = someKey(c, "")
		}
		switch {
		case ok:
			c.Bulk(key)
			return nil
		case err == nil:
			c.Null()
			return nil
		case !errors.Is(err, errors.ErrUnsupported):
			return err
		}
	}
	first, ok := command.FirstOf(c.Walk(nil))
	if !ok {
		c.Null()
		return nil
	}
	last, _ := c.LastKey()
	key, ok := command.FirstOf(c.Walk(between(first, last)))
	if !ok {
		key = first
	}
	c.Bulk(key)
	return nil
}

// someKey returns the first key of the client's database after a place.
func someKey(c *command.Call, place copaladmin.Place) (key []byte, ok bool, err error) {
	for key, err := range anywhere(c, place) {
		return key, err == nil, err
	}
	return nil, false, nil
}

// between returns random bytes that do not come before first, nor after last: the beginning that both have, then a
// byte from the one's to the other's, and others.
func between(first, last []byte) []byte {
	n := 0
	for n < len(first) && n < len(last) && first[n] == last[n] {
		n++
	}
	if n == len(last) {
		return last
	}
	var low byte
	if n < len(first) {
		low = first[n]
	}
	at := append(slices.Clone(last[:n]), low+byte(rand.IntN(int(last[n]-low)+1)))
	for range 6 {
		at = append(at, byte(rand.IntN(256)))
	}
	if bytes.Compare(at, last) > 0 {
		return last
	}
	return at
}
