package study

import (
	"fmt"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/bench/rivals"
)

// hashTable is a hash of copal's for each record, with an element for each field. It is the nearest
// form to a bucket for each record.
type hashTable struct {
	fieldTable
	db *copal.DB
}

func openHash(e rivals.Engine, dir string, durable bool, s subject) (table, error) {
	t, err := openFields(e, dir, durable, s)
	if err != nil {
		return nil, err
	}
	f := t.(*fieldTable)
	return &hashTable{*f, f.store.(rivals.Own).DB}, nil
}

// run runs a transaction that writes.
func (t *hashTable) run(f func(tx *copal.Tx) error) error {
	if t.store.(rivals.Own).Durable() {
		return t.db.UpdateFSync(f)
	}
	return t.db.Update(f)
}

func (t *hashTable) hash(number uint64) *copal.HashOf[string, []byte] {
	return t.db.Raw().Hash(t.keyOf(number))
}

func (t *hashTable) putAll(tx *copal.Tx, number uint64, record any) error {
	fields := make(map[string][]byte, len(t.names))
	for i, f := range t.subject.Fields() {
		value, err := t.subject.AppendField(nil, record, i)
		if err != nil {
			return notKept(err)
		}
		fields[f.name] = value
	}
	return t.hash(number).In(tx).SetAll(fields)
}

func (t *hashTable) insert(next func() (uint64, any), together bool) error {
	if together {
		return t.run(func(tx *copal.Tx) error {
			return each(next, func(number uint64, record any) error { return t.putAll(tx, number, record) })
		})
	}
	return each(next, func(number uint64, record any) error {
		return t.run(func(tx *copal.Tx) error { return t.putAll(tx, number, record) })
	})
}

func (t *hashTable) set(tx *copal.Tx, number uint64, record any) error {
	n := 0
	reset(record)
	for name, value := range t.hash(number).In(tx).All() {
		i := indexOf(t.subject.Fields(), name)
		if i < 0 {
			return fmt.Errorf("a hash has a field %q, which its type has not", name)
		}
		if err := t.subject.SetField(record, i, value); err != nil {
			return notKept(err)
		}
		n++
	}
	if n != len(t.place) {
		return fmt.Errorf("%d fields of a record are absent", len(t.place)-n)
	}
	return nil
}

func (t *hashTable) read(number uint64, record any) error {
	return t.db.View(func(tx *copal.Tx) error { return t.set(tx, number, record) })
}

func (t *hashTable) readMany(number uint64, n int, f func(record any) error) error {
	record := t.subject.New()
	return t.db.View(func(tx *copal.Tx) error {
		for i := range uint64(n) {
			if err := t.set(tx, number+i, record); err != nil {
				return err
			}
			if err := f(record); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *hashTable) sum() (total float64, n int, err error) {
	name := t.subject.Fields()[t.subject.Summed()].name
	err = t.db.View(func(tx *copal.Tx) error {
		for ; ; n++ {
			value, ok := t.hash(uint64(n)).In(tx).Get(name)
			if !ok {
				return nil
			}
			v, err := t.subject.NumberOf(value)
			if err != nil {
				return err
			}
			total += v
		}
	})
	return total, n, err
}

func (t *hashTable) update(number uint64, round int) error {
	record, i := t.subject.New(), t.subject.Updated()
	t.subject.Touch(record, number, round)
	value, err := t.subject.AppendField(nil, record, i)
	if err != nil {
		return err
	}
	return t.run(func(tx *copal.Tx) error {
		return t.hash(number).In(tx).Set(t.subject.Fields()[i].name, value)
	})
}

// size counts the key of a record once: the key of its hash.
func (t *hashTable) size(number uint64, record any) (int, error) {
	n, err := t.fieldTable.size(number, record)
	return n - 8*(len(t.place)-1), err
}
