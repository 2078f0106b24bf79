package table

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/copaldb/copal/internal/bench/rivals"
)

// Transactions: each reads two accounts and moves an amount from one to the other, so the sum of
// all does not change, which is checked after each round.

const opening = 1 << 40 // on each account

func balance(b []byte) uint64 {
	if len(b) != valueBytes {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

// account returns a value with a balance.
func account(n uint64) []byte {
	b := newBlob(valueBytes)
	binary.LittleEndian.PutUint64(b, n)
	return b
}

// changed returns the value with another balance.
func changed(value []byte, by int64) []byte {
	b := bytes.Clone(value)
	binary.LittleEndian.PutUint64(b, balance(value)+uint64(by))
	return b
}

// transfer moves one unit.
func transfer(s rivals.Store, from, to []byte) error {
	return s.Update(func(tx rivals.Tx) error {
		value, err := tx.Get(from)
		if err != nil {
			return err
		}
		a := changed(value, -1)
		if value, err = tx.Get(to); err != nil {
			return err
		}
		return errors.Join(tx.Put(from, a), tx.Put(to, changed(value, 1)))
	})
}

// readAccounts reads several accounts in their state at one moment.
func readAccounts(s rivals.Store, keys [][]byte, seen func(balance uint64)) error {
	return s.View(func(tx rivals.Tx) error {
		for _, k := range keys {
			v, err := tx.Get(k)
			if err != nil {
				return err
			}
			seen(balance(v))
		}
		return nil
	})
}

// ledgers returns the engines with transactions that are serializable.
func ledgers() []rivals.Engine {
	return []rivals.Engine{rivals.Copal, rivals.Bbolt, rivals.BadgerConflicts}
}

// transactionLines: unsynced transfers, and synced ones; and reads.
func transactionLines(s setting) []line {
	var lines []line
	info := namesOf(ledgers()[2:], "")
	for _, durable := range []bool{false, true} {
		for _, workers := range []int{1, 16} {
			name, title, ops := "process", "not synced, ", s.slowOps
			if durable {
				name, title, ops = "power", "synced, ", 5*workers*s.perWorker
			}
			lines = append(lines, ledgerLine(s, line{
				name:  fmt.Sprintf("tx/%s/%d", name, workers),
				group: "Transactions of two reads and two writes of 72 B, 100k keys",
				rows:  []versus{{title: title + goroutines(workers), ours: "copal", theirs: []string{"bbolt"}, info: info, metric: perOp, goal: atLeast(3)}},
			}, durable, workers, ops, transferSide))
		}
	}
	return append(lines, ledgerLine(s, line{
		name:  "tx/view/1",
		group: "Transactions of ten reads",
		rows:  []versus{{title: goroutines(1), ours: "copal", theirs: []string{"bbolt"}, info: info, metric: perOp}},
	}, false, 1, s.slowOps, readSide))
}

func ledgerLine(s setting, l line, durable bool, workers, ops int, work ledgerSide) line {
	l.setup = func(e *env) (sides []side, err error) {
		keys, order := asBytes(makeKeys(s.keys)), shuffled(s.keys, ops)
		for _, engine := range ledgers() {
			store, err := e.open(engine, durable)
			if err != nil {
				return nil, err
			}
			value := account(opening)
			if err := rivals.Fill(store, len(keys), func(i int) ([]byte, []byte) { return keys[i], value }); err != nil {
				return nil, err
			}
			sides = append(sides, work(engine.Name, store, keys, order, workers))
		}
		return sides, nil
	}
	return l
}

type ledgerSide func(name string, s rivals.Store, keys [][]byte, order []int32, workers int) side

func transferSide(name string, s rivals.Store, keys [][]byte, order []int32, workers int) side {
	w := workload{name: name, workers: workers, order: order}
	w.loop = func(_ int, part []int32) error {
		for at, i := range part {
			if err := transfer(s, keys[i], keys[(int(i)+1+at%7)%len(keys)]); err != nil {
				return err
			}
		}
		return nil
	}
	w.check = func(int) error {
		sum := uint64(0)
		if err := readAccounts(s, keys, func(n uint64) { sum += n }); err != nil {
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

func readSide(name string, s rivals.Store, keys [][]byte, order []int32, workers int) side {
	w := workload{name: name, workers: workers, order: order}
	w.loop = func(_ int, part []int32) error {
		some, n := make([][]byte, readsOf), 0
		for _, i := range part {
			for j := range some {
				some[j] = keys[(int(i)+j*977)%len(keys)]
			}
			if err := readAccounts(s, some, func(b uint64) { n += int(b / opening) }); err != nil {
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
