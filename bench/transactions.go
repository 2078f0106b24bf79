package main

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/copaldb/copal"
	"github.com/dgraph-io/badger/v4"
	bolt "go.etcd.io/bbolt"
)

// Transactions: each reads two accounts and moves an amount from one to the other, so the sum of all stays what
// it was, which is checked after each round.

// ledger is a store with transactions. It is safe for concurrent use.
type ledger interface {
	// transfer moves one unit; a transaction that has had a conflict is tried again.
	transfer(from, to []byte) error
	// read reads several accounts as they were at one moment.
	read(keys [][]byte, seen func(balance uint64)) error
}

const opening = 1 << 40 // on each account

func balance(b []byte) uint64 {
	if len(b) != valueBytes {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

// account is a value with a balance.
func account(n uint64) []byte {
	b := newBlob(valueBytes)
	binary.LittleEndian.PutUint64(b, n)
	return b
}

// moved are the two values with one unit moved.
func moved(from, to []byte) (a, b []byte) {
	a, b = append([]byte(nil), from...), append([]byte(nil), to...)
	binary.LittleEndian.PutUint64(a, balance(from)-1)
	binary.LittleEndian.PutUint64(b, balance(to)+1)
	return a, b
}

type ownLedger struct {
	db     *copal.DB
	update func(func(*copal.Tx) error) error
}

func (l ownLedger) transfer(from, to []byte) error {
	return l.update(func(tx *copal.Tx) error {
		a, err := tx.Raw().Load(from)
		if err != nil {
			return err
		}
		b, err := tx.Raw().Load(to)
		if err != nil {
			return err
		}
		a, b = moved(a, b)
		return errors.Join(tx.Raw().Set(from, a), tx.Raw().Set(to, b))
	})
}

func (l ownLedger) read(keys [][]byte, seen func(uint64)) error {
	return l.db.View(func(tx *copal.Tx) error {
		for _, k := range keys {
			v, err := tx.Raw().Load(k)
			if err != nil {
				return err
			}
			seen(balance(v))
		}
		return nil
	})
}

type boltLedger struct {
	boltDB
	shared bool // writers share transactions, which makes one alone wait for others
}

func (l boltLedger) transfer(from, to []byte) error {
	move := func(tx *bolt.Tx) error {
		bucket := tx.Bucket(bucket)
		a, b := moved(bucket.Get(from), bucket.Get(to))
		return errors.Join(bucket.Put(from, a), bucket.Put(to, b))
	}
	if l.shared {
		return l.db.Batch(move)
	}
	return l.db.Update(move)
}

func (l boltLedger) read(keys [][]byte, seen func(uint64)) error {
	return l.db.View(func(tx *bolt.Tx) error {
		bucket := tx.Bucket(bucket)
		for _, k := range keys {
			seen(balance(bucket.Get(k)))
		}
		return nil
	})
}

type badgerLedger struct{ badgerDB }

func (l badgerLedger) transfer(from, to []byte) error {
	for {
		err := l.db.Update(func(tx *badger.Txn) error {
			a, err := badgerGet(tx, from)
			if err != nil {
				return err
			}
			b, err := badgerGet(tx, to)
			if err != nil {
				return err
			}
			a, b = moved(a, b)
			return errors.Join(tx.Set(from, a), tx.Set(to, b))
		})
		if !errors.Is(err, badger.ErrConflict) {
			return err
		}
	}
}

func badgerGet(tx *badger.Txn, key []byte) ([]byte, error) {
	item, err := tx.Get(key)
	if err != nil {
		return nil, err
	}
	return item.ValueCopy(nil)
}

func (l badgerLedger) read(keys [][]byte, seen func(uint64)) error {
	return l.db.View(func(tx *badger.Txn) error {
		for _, k := range keys {
			v, err := badgerGet(tx, k)
			if err != nil {
				return err
			}
			seen(balance(v))
		}
		return nil
	})
}

// ledgers opens the stores that have transactions, with an opening balance on each account.
func ledgers(e *env, keys [][]byte, durable bool, workers int) (list map[string]ledger, err error) {
	stores := map[string]byteStore{}
	for _, o := range []opener{ownStore, bboltStore, {"badger", openBadgerTx}} {
		if stores[o.name], err = o.openIn(e, durable); err != nil {
			return nil, err
		}
		value := account(opening)
		if err := fillBytes(stores[o.name], len(keys), func(i int) ([]byte, []byte) { return keys[i], value }); err != nil {
			return nil, err
		}
	}
	db := stores["copal"].(own).db
	update := db.Update
	if durable {
		update = db.UpdateFSync
	}
	return map[string]ledger{
		"copal":  ownLedger{db, update},
		"bbolt":  boltLedger{stores["bbolt"].(boltDB), durable && workers > 1},
		"badger": badgerLedger{stores["badger"].(badgerDB)},
	}, nil
}

// openBadgerTx is openBadger with the detection of conflicts that transactions need.
func openBadgerTx(dir string, durable bool) (byteStore, error) {
	db, err := badger.Open(badger.DefaultOptions(dir).WithSyncWrites(durable).WithLogger(nil))
	return badgerDB{db}, err
}

// transactionLines: transfers that nobody syncs, and synced ones; and reads.
func transactionLines(s scale) []line {
	var lines []line
	for _, durable := range []bool{false, true} {
		for _, workers := range []int{1, 16} {
			name, title, ops := "process", "not synced, ", s.slowOps
			if durable {
				name, title, ops = "power", "synced, ", 5*workers*s.perWorker
			}
			lines = append(lines, ledgerLine(s, line{
				name:  fmt.Sprintf("tx/%s/%d", name, workers),
				group: "Transactions of two reads and two writes of 72 B, 100k keys",
				rows:  []versus{{title: title + goroutines(workers), ours: "copal", theirs: []string{"bbolt"}, info: []string{"badger"}, metric: perOp, goal: atLeast(3)}},
			}, durable, workers, ops, false))
		}
	}
	return append(lines, ledgerLine(s, line{
		name:  "tx/view/1",
		group: "Transactions of ten reads",
		rows:  []versus{{title: goroutines(1), ours: "copal", theirs: []string{"bbolt"}, info: []string{"badger"}, metric: perOp}},
	}, false, 1, s.slowOps, true))
}

func ledgerLine(s scale, l line, durable bool, workers, ops int, reads bool) line {
	l.setup = func(e *env) (sides []side, err error) {
		keys, order := asBytes(makeKeys(s.keys)), shuffled(s.keys, ops)
		list, err := ledgers(e, keys, durable, workers)
		if err != nil {
			return nil, err
		}
		for _, name := range []string{"copal", "bbolt", "badger"} {
			work := transferSide
			if reads {
				work = readSide
			}
			sides = append(sides, work(name, list[name], keys, order, workers))
		}
		return sides, nil
	}
	return l
}

func transferSide(name string, l ledger, keys [][]byte, order []int32, workers int) side {
	w := workload{name: name, workers: workers, order: order}
	w.loop = func(_ int, part []int32) error {
		for at, i := range part {
			if err := l.transfer(keys[i], keys[(int(i)+1+at%7)%len(keys)]); err != nil {
				return err
			}
		}
		return nil
	}
	w.check = func(int) error {
		sum := uint64(0)
		if err := l.read(keys, func(n uint64) { sum += n }); err != nil {
			return err
		}
		if want := uint64(len(keys)) * opening; sum != want {
			return fmt.Errorf("all accounts together have %d, want %d", sum, want)
		}
		return nil
	}
	return w.side()
}

const readsOf = 10 // a transaction that reads

func readSide(name string, l ledger, keys [][]byte, order []int32, workers int) side {
	w := workload{name: name, workers: workers, order: order}
	w.loop = func(_ int, part []int32) error {
		some, n := make([][]byte, readsOf), 0
		for _, i := range part {
			for j := range some {
				some[j] = keys[(int(i)+j*977)%len(keys)]
			}
			if err := l.read(some, func(b uint64) { n += int(b / opening) }); err != nil {
				return err
			}
		}
		if want := len(part) * readsOf; n != want {
			return fmt.Errorf("%d accounts had their balance, want %d", n, want)
		}
		return nil
	}
	return w.side()
}
