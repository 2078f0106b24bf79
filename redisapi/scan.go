package redisapi

import (
	"bytes"
	"cmp"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"

	copaladmin "github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/glob"
	"github.com/copaldb/copal/internal/opened"
)

// A walk over the whole is many requests of a client, maybe by many connections: SCAN, HSCAN, SSCAN
// and ZSCAN. Keys, fields and members have an order, so a walk is somewhere in that order: behind the last one
// that was returned. What is there all the time is returned once, whatever comes and goes meanwhile.
// A cursor is a number, so the server keeps for each number where it is.

// mostForeign is how many keys of other databases, or without the literal beginning of the pattern, a page of a walk in
// no order passes over.
const mostForeign = 10_000

// somePage is how many keys are read at a time, in no order: they may have 64 KiB each.
const somePage = 1 << 8

// anyPage is page for a walk over the client's database in no order, which begins without sorting keys.
func (c *call) anyPage(o *scanning, keep func(name []byte) bool) (kept [][]byte, err error) {
	place, more, prefix := o.place, true, glob.Literal(o.match)
	for n, foreign := 0, 0; n < o.count && foreign < mostForeign && more; {
		var keys [][]byte
		if keys, place, more, err = copaladmin.SomeKeys(c.shared.db, place, min(o.count-n, somePage)); err != nil {
			return nil, err
		}
		for _, raw := range keys {
			db, key := databaseOf(raw)
			switch {
			case db != int(c.db.Load()), !bytes.HasPrefix(key, prefix):
				foreign++
				continue
			case keep(key):
				c.uses(len(key) + entryBytes)
				kept = append(kept, key)
			}
			n++
		}
		if !c.goOn(len(keys)) {
			return nil, c.Err()
		}
	}
	cursor := uint64(0)
	if more {
		cursor = c.cursors().give(c.walked()+anyOrder, []byte(place))
	}
	c.Array(2)
	c.BulkString(strconv.FormatUint(cursor, 10))
	return kept, nil
}

func (c *call) scan() error {
	o, err := c.scanOptions(1)
	if err == nil {
		err = c.mayReadFrom(glob.Literal(o.match))
	}
	if err == nil {
		err = c.open()
	}
	if err != nil {
		return err
	}
	keep := func(key []byte) bool {
		if o.match != nil && !c.fits(o.match, key) {
			return false
		}
		if o.kind == nil {
			return true
		}
		kind, err := c.raw.Type(c.rawKey(key))
		return err == nil && kinds[kind] == string(o.kind)
	}
	var list [][]byte
	if o.any {
		list, err = c.anyPage(&o, keep)
	}
	switch {
	case !o.any, errors.Is(err, errors.ErrUnsupported):
		list = c.page(&o, c.walkLike(glob.Literal(o.match), o.from), keep)
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
func (c *call) walkLike(prefix, from []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for key := range c.walk(slices.MaxFunc([][]byte{prefix, from}, bytes.Compare)) {
			if !bytes.HasPrefix(key, prefix) || !yield(key) {
				return
			}
		}
	}
}

// keysLike is KEYS.
func (c *call) keysLike() error {
	pattern := c.args[1]
	prefix := glob.Literal(pattern)
	if err := cmp.Or(c.mayReadFrom(prefix), c.open()); err != nil {
		return err
	}
	from, n := len(c.Buf), 0
	take := func(key []byte) {
		if c.fits(pattern, key) {
			c.Bulk(key)
			n++
		}
	}
	if c.tx == nil && c.raw.Len() > fewKeys && opened.DriverOf(c.shared.db) == nil {
		takeAll := func(all iter.Seq2[[]byte, error]) error {
			for key, err := range all {
				if err != nil {
					return err
				}
				take(key)
			}
			return nil
		}
		maps := func() int { return len(opened.Engine(c.shared.db).Tables()) }
		sorted := len(prefix) > 0
		if !sorted {
			before := maps()
			if err := takeAll(anywhere(c, "")); err != nil {
				return err
			}
			if sorted = maps() != before; sorted { // keys of a map that was declared meanwhile may have come twice
				c.Cut(from)
				n = 0
			}
		}
		if sorted {
			if err := takeAll(sortedLike(c, prefix)); err != nil {
				return err
			}
		}
	} else {
		for key := range c.walkLike(prefix, nil) {
			take(key)
		}
	}
	c.Before(from, func() { c.Array(n) })
	return nil
}

// sortedLike yields the keys of the client's database with a prefix, in order. It sorts no others, and keeps no order.
// An error is the last.
func sortedLike(c *call, prefix []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		span := engine.PrefixSpan(c.rawKey(prefix))
		for raw, err := range copaladmin.Keys(c.shared.db, span.Low, span.High, false) {
			if err == nil && !c.goOn(1) {
				err = c.Err()
			}
			switch db, key := databaseOf(raw); {
			case err != nil:
				yield(nil, err)
				return
			case db == int(c.db.Load()) && !yield(key, nil):
				return
			}
		}
	}
}

// anywhere yields the keys of the client's database from a place on, in no order. An error is the last.
func anywhere(c *call, place copaladmin.Place) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for n, more := 8, true; more; n = min(2*n, somePage) {
			var keys [][]byte
			var err error
			keys, place, more, err = copaladmin.SomeKeys(c.shared.db, place, n)
			if err == nil && !c.goOn(len(keys)) {
				err = c.Err()
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for _, raw := range keys {
				if db, key := databaseOf(raw); db == int(c.db.Load()) && !yield(key, nil) {
					return
				}
			}
		}
	}
}

// randomkey returns the first key behind a random place or, in a transaction, behind a place between the first and the
// last.
func (c *call) randomkey() error {
	if err := c.open(); err != nil {
		return err
	}
	if c.tx == nil {
		key, ok, err := someKey(c, copaladmin.RandomPlace(c.shared.db))
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
	first, ok := firstOf(c.walk(nil))
	if !ok {
		c.Null()
		return nil
	}
	last, _ := c.lastKey()
	key, ok := firstOf(c.walk(between(first, last)))
	if !ok {
		key = first
	}
	c.Bulk(key)
	return nil
}

// someKey is the first key of the client's database behind a place.
func someKey(c *call, place copaladmin.Place) (key []byte, ok bool, err error) {
	for key, err := range anywhere(c, place) {
		return key, err == nil, err
	}
	return nil, false, nil
}

// between returns random bytes that do not stand before first, nor behind last: the beginning that both have, then a
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
