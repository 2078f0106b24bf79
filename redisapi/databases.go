package redisapi

import (
	"bytes"
	"fmt"
	"iter"
	"slices"

	"github.com/copaldb/copal"
	copaladmin "github.com/copaldb/copal/admin"
)

// Databases is how many numbered databases there are, as Redis has by default.
const Databases = 16

// Key is the raw key of a key in a numbered database. That of database 0 is the key itself. The others have the prefix
// of a map that is called after their number, "db:1" for example. Database 0 is all keys without one of these prefixes.
//
// A request of a client that has chosen another database than 0 gets these keys in the place of those that it names, so
// commands know raw keys and nothing else. What names keys in replies and messages calls them as clients do.
func Key(database int, key []byte) []byte {
	return append(slices.Clip(prefixes[database]), key...)
}

// prefixes are those of the databases.
var prefixes = func() (list [Databases][]byte) {
	for n := 1; n < Databases; n++ {
		list[n] = []byte(copal.MapPrefix(fmt.Sprint("db:", n)))
	}
	return list
}()

// common is what the prefixes begin with.
var common = bytes.TrimSuffix(prefixes[1], []byte("1:"))

// databaseOf is the database of a raw key, and what clients call it.
func databaseOf(raw []byte) (database int, key []byte) {
	if !bytes.HasPrefix(raw, common) {
		return 0, raw
	}
	for n, prefix := range prefixes[1:] {
		if bytes.HasPrefix(raw, prefix) {
			return n + 1, raw[len(prefix):]
		}
	}
	return 0, raw
}

// database is the number of one in an argument.
func database(arg []byte) (int, error) {
	n, err := parseInt(arg)
	switch {
	case err != nil:
		return 0, err
	case n < 0 || n >= Databases:
		return 0, errDB
	}
	return int(n), nil
}

// rawKey is the raw key of one that the client names.
func (c *call) rawKey(key []byte) []byte {
	if n := c.db.Load(); n != 0 {
		return Key(int(n), key)
	}
	return key
}

// outside is what the client calls a raw key of its database.
func (c *call) outside(raw []byte) []byte { return raw[len(prefixes[c.db.Load()]):] }

// span are raw keys from one on and before another, nil for the first or behind the last.
type span struct{ from, to []byte }

// behind is the first key behind those with the prefix of a database, which ends with a colon.
func behind(prefix []byte) []byte { return append(bytes.Clone(prefix[:len(prefix)-1]), ':'+1) }

// spans are the raw keys of the databases, each in order.
var spans = func() (list [Databases][]span) {
	var from []byte
	for _, prefix := range slices.SortedFunc(slices.Values(prefixes[1:]), bytes.Compare) {
		list[0] = append(list[0], span{from, prefix})
		from = behind(prefix)
	}
	list[0] = append(list[0], span{from, nil})
	for n, prefix := range prefixes[1:] {
		list[n+1] = []span{{prefix, behind(prefix)}}
	}
	return list
}()

// walk yields the keys of a database from one on, in order, as clients call them.
func walk(raw *copal.Raw, database int, from []byte) iter.Seq[[]byte] {
	from = Key(database, from)
	return func(yield func([]byte) bool) {
		for _, s := range spans[database] {
			if s.to != nil && bytes.Compare(from, s.to) >= 0 {
				continue
			}
			if bytes.Compare(s.from, from) < 0 {
				s.from = from
			}
			for key := range raw.KeysBetween(s.from, s.to) {
				if !yield(key[len(prefixes[database]):]) {
					return
				}
			}
		}
	}
}

// walk yields the keys of the client's database from one on, in order.
func (c *call) walk(from []byte) iter.Seq[[]byte] {
	c.long(c.raw.Len())
	return steps(c, walk(c.raw, int(c.db.Load()), from))
}

// lastKey is the last key of the client's database.
func (c *call) lastKey() (key []byte, ok bool) {
	c.long(c.raw.Len())
	for _, s := range slices.Backward(spans[c.db.Load()]) {
		if raw, ok := firstOf(c.raw.Backward().KeysBetween(s.from, s.to)); ok {
			return c.outside(raw), true
		}
	}
	return nil, false
}

// prefixList are the prefixes of the databases from 1 on.
var prefixList = func() (list []string) {
	for _, prefix := range prefixes[1:] {
		list = append(list, string(prefix))
	}
	return list
}()

// sizes are the numbers of keys in the databases. Outside of a transaction nothing is sorted for them.
func (c *call) sizes() (list [Databases]int, err error) {
	if c.tx == nil {
		all := c.raw.Len()
		counts, ok, err := copaladmin.CountMaps(c.shared.db, prefixList)
		if err != nil {
			return list, err
		}
		if ok {
			copy(list[1:], counts)
			for _, n := range counts {
				all -= n
			}
			list[0] = max(all, 0)
			return list, nil
		}
	}
	for n := range list {
		list[n] = size(c.raw, n)
	}
	return list, nil
}

// size is the number of keys in a database. It counts those of all but 0.
func size(raw *copal.Raw, number int) (n int) {
	count := func(number int) (n int) {
		for range walk(raw, number, nil) {
			n++
		}
		return n
	}
	if number != 0 {
		return count(number)
	}
	n = raw.Len()
	for other := 1; other < Databases; other++ {
		n -= count(other)
	}
	return n
}

func firstOf(keys iter.Seq[[]byte]) (key []byte, ok bool) {
	for key := range keys {
		return bytes.Clone(key), true
	}
	return nil, false
}
