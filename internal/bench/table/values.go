package table

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/copaldb/copal/internal/bench/rivals"
)

// Values by length: the same three works with values from 128 B to 32 KiB, in stores whose keys
// have one of 16 prefixes. No side syncs. copal keeps its keys in order, since it walks over them.

var valueSizes = []int{128, 512, 2 << 10, 8 << 10, 32 << 10}

// mostValueBytes is the number of bytes of values in a store here, at most, since one of the rivals
// has them all in memory.
const mostValueBytes = 128 << 20

const prefixes = 16

// valueFamily is the beginning of the names of these lines; then come the work and the length.
const valueFamily = "values"

var perPair = metric{"time per pair", nanoseconds}

func prefixOf(i int) string { return fmt.Sprintf("group-%02d/", i%prefixes) }

// prefixedKeys are n keys, to which the prefixes are given in turn.
func prefixedKeys(n int, name string) [][]byte {
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "%s%s-%08d", prefixOf(i), name, i)
	}
	return keys
}

// valueLines: reads and writes as values get longer.
func valueLines(s setting) []line {
	s.rawBytes = min(s.rawBytes, mostValueBytes)
	others := append(s.stores(), rivals.Bunt)
	var inserts, gets, scans []line
	for _, bytes := range valueSizes {
		writes := min(s.slowOps, s.rawBytes/8/bytes)
		fresh := shuffled(writes, writes)
		random := shuffled(rawKeys(s, bytes), min(s.ops/6, 4*s.rawBytes/bytes))
		insert := versus{theirs: namesOf(others, ""), metric: perOp, goal: goal{sense: more}}
		get, scan := insert, insert
		scan.info, scan.metric = namesOf(others, lent), perPair
		inserts = append(inserts, valueLine(s, "insert", "new keys, one by one, no sync", bytes, insert, others, func(name string, store rivals.Store, _ [][]byte) []side {
			return []side{insertSide(name, store, bytes, fresh)}
		}))
		gets = append(gets, valueLine(s, "get", "Get of random keys, copied", bytes, get, others, func(name string, store rivals.Store, keys [][]byte) []side {
			return []side{rawGetSide(name, store, keys, bytes, random)}
		}))
		scans = append(scans, valueLine(s, "scan", "a walk over the keys with one of 16 prefixes, in order, a pair, copied", bytes, scan, others, func(name string, store rivals.Store, keys [][]byte) []side {
			return scanSides(name, store, keys, bytes, len(random))
		}))
	}
	return slices.Concat(inserts, gets, scans)
}

func valueLine(s setting, name, what string, bytes int, row versus, others []rivals.Engine, sidesOf func(name string, s rivals.Store, keys [][]byte) []side) line {
	n := rawKeys(s, bytes)
	row.title, row.ours = fmt.Sprintf("%s, %s keys", size(bytes), count(n)), rivals.Copal.Name
	return line{
		name:  fmt.Sprintf("%s/%s/%dB/%s", valueFamily, name, bytes, count(n)),
		group: "Values by length: " + what,
		rows:  []versus{row},
		setup: func(e *env) (sides []side, err error) {
			keys := prefixedKeys(n, "user")
			err = e.eachFilled(append([]rivals.Engine{rivals.CopalOrdered}, others...), false, keys, bytes, func(engine rivals.Engine, store rivals.Store) {
				sides = append(sides, sidesOf(engine.Name, store, keys)...)
			})
			return sides, err
		},
	}
}

// insertSide puts keys that are new in each round, among those that the store has.
func insertSide(name string, s rivals.Store, bytes int, order []int32) side {
	var fresh [][]byte
	w := workload{name: name, workers: 1, order: order}
	w.before = func(round int) error {
		fresh = prefixedKeys(len(order), fmt.Sprintf("new-%02d", round))
		return nil
	}
	w.loop = func(round int, part []int32) error { return putBlobs(s, fresh, part, newBlob(bytes), round) }
	w.check = func(round int) error { return holdsBlobs(s, fresh, spots(order), bytes, round) }
	return w.side()
}

// scanSides walk over copies. Others than copal lend as well.
func scanSides(name string, s rivals.Store, keys [][]byte, bytes, pairs int) []side {
	if own, is := s.(rivals.Own); is {
		return []side{scanSide(name, keys, bytes, pairs, func(from, to []byte, f visit) error {
			for key, value := range own.DB.Raw().Between(from, to) {
				if err := f(key, value); err != nil {
					return err
				}
			}
			return nil
		})}
	}
	lends := func(from, to []byte, f visit) error {
		return s.View(func(tx rivals.Tx) error { return tx.Scan(from, to, f) })
	}
	copies := func(from, to []byte, f visit) error {
		return lends(from, to, func(key, value []byte) error { return f(slices.Clone(key), slices.Clone(value)) })
	}
	return []side{scanSide(name, keys, bytes, pairs, copies), scanSide(name+lent, keys, bytes, pairs, lends)}
}

type visit = func(key, value []byte) error

// scanSide walks over one prefix after the other, until it has come by so many pairs.
func scanSide(name string, keys [][]byte, bytes, pairs int, scan func(from, to []byte, f visit) error) side {
	return side{name, func(round int) (figures, error) {
		walked, start := 0, time.Now()
		for prefix := round; walked < pairs; prefix++ {
			n, err := walk(scan, keys, prefix%prefixes, bytes)
			if err != nil {
				return nil, err
			}
			walked += n
		}
		return figures{perPair: float64(time.Since(start)) / float64(walked)}, nil
	}}
}

// walk comes by each pair of a prefix, in the order of keys.
func walk(scan func(from, to []byte, f visit) error, keys [][]byte, prefix, size int) (n int, err error) {
	from := []byte(prefixOf(prefix))
	to := slices.Concat(from[:len(from)-1], []byte{from[len(from)-1] + 1})
	next := prefix
	err = scan(from, to, func(key, value []byte) error {
		if next >= len(keys) || !bytes.Equal(key, keys[next]) || keyOf(value, size) != int32(next) {
			return fmt.Errorf("there is %s with %d bytes where key %d should be", key, len(value), next)
		}
		next += prefixes
		return nil
	})
	if err == nil && next < len(keys) {
		err = fmt.Errorf("key %d does not come", next)
	}
	return (next - prefix) / prefixes, err
}
