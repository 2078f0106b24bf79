package command

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
// commands know raw keys and nothing else. Replies and messages have the names of the client.
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

// common is the beginning of all prefixes.
var common = bytes.TrimSuffix(prefixes[1], []byte("1:"))

// DatabaseOf returns the database of a raw key, and its name there.
func DatabaseOf(raw []byte) (database int, key []byte) {
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

// Database is the number of one in an argument.
func Database(arg []byte) (int, error) {
	n, err := ParseInt(arg)
	switch {
	case err != nil:
		return 0, err
	case n < 0 || n >= Databases:
		return 0, ErrDB
	}
	return int(n), nil
}

// RawKey is the raw key of one that the client names.
func (c *Call) RawKey(key []byte) []byte {
	if n := c.Database.Load(); n != 0 {
		return Key(int(n), key)
	}
	return key
}

// Outside returns the name of a raw key in the database of the client.
func (c *Call) Outside(raw []byte) []byte { return raw[len(prefixes[c.Database.Load()]):] }

// span are raw keys from one on and before another, nil for the first or after the last.
type span struct{ From, To []byte }

// after returns the first key after those with the prefix of a database, which ends with a colon.
func after(prefix []byte) []byte { return append(bytes.Clone(prefix[:len(prefix)-1]), ':'+1) }

// Spans are the raw keys of the databases, each in order.
var Spans = func() (list [Databases][]span) {
	var from []byte
	for _, prefix := range slices.SortedFunc(slices.Values(prefixes[1:]), bytes.Compare) {
		list[0] = append(list[0], span{from, prefix})
		from = after(prefix)
	}
	list[0] = append(list[0], span{from, nil})
	for n, prefix := range prefixes[1:] {
		list[n+1] = []span{{prefix, after(prefix)}}
	}
	return list
}()

// Walk yields the keys of a database from one on, in order, as clients call them.
func Walk(raw *copal.Raw, database int, from []byte) iter.Seq[[]byte] {
	from = Key(database, from)
	return func(yield func([]byte) bool) {
		for _, s := range Spans[database] {
			if s.To != nil && bytes.Compare(from, s.To) >= 0 {
				continue
			}
			if bytes.Compare(s.From, from) < 0 {
				s.From = from
			}
			for key := range raw.KeysBetween(s.From, s.To) {
				if !yield(key[len(prefixes[database]):]) {
					return
				}
			}
		}
	}
}

// Walk yields the keys of the client's database from one on, in order.
func (c *Call) Walk(from []byte) iter.Seq[[]byte] {
	c.Long(c.Store.Len())
	return Steps(c, Walk(c.Store, int(c.Database.Load()), from))
}

// LastKey is the last key of the client's database.
func (c *Call) LastKey() (key []byte, ok bool) {
	c.Long(c.Store.Len())
	for _, s := range slices.Backward(Spans[c.Database.Load()]) {
		if raw, ok := FirstOf(c.Store.Backward().KeysBetween(s.From, s.To)); ok {
			return c.Outside(raw), true
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

// Sizes are the numbers of keys in the databases. Outside of a transaction nothing is sorted for them.
func (c *Call) Sizes() (list [Databases]int, err error) {
	if c.Tx == nil {
		all := c.Store.Len()
		counts, ok, err := copaladmin.CountMaps(c.Shared.DB, prefixList)
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
		list[n] = size(c.Store, n)
	}
	return list, nil
}

// size is the number of keys in a database. It counts those of all but 0.
func size(raw *copal.Raw, number int) (n int) {
	count := func(number int) (n int) {
		for range Walk(raw, number, nil) {
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

func FirstOf(keys iter.Seq[[]byte]) (key []byte, ok bool) {
	for key := range keys {
		return bytes.Clone(key), true
	}
	return nil, false
}
