package study

import (
	"errors"
	"fmt"
	"slices"

	"github.com/copaldb/copal/internal/bench/rivals"
)

// A table keeps records under numbers in one way, in one store. A study measures tables: the loop
// knows neither engines nor encodings. One goroutine at a time uses it.
//
// Methods that get a record use it for their own work, or hand it on for the time of a call.
type table interface {
	// insert writes the records that next makes, all in one transaction or each in its own. next
	// returns nil after the last one.
	insert(next func() (number uint64, record any), together bool) error
	// read reads a record, in a transaction.
	read(number uint64, record any) error
	// readMany reads n records from number on, in the order of numbers and in one transaction.
	readMany(number uint64, n int, f func(record any) error) error
	// sum adds up a field of all records, in one transaction.
	sum() (total float64, n int, err error)
	// update changes a field of a record, in a transaction.
	update(number uint64, round int) error
	// size is the number of bytes of keys and values that a record becomes.
	size(number uint64, record any) (int, error)
	close() error
}

// A strategy is a way to keep records, which some engines can have.
type strategy struct {
	name string
	says string // for people, in a few words
	open func(e rivals.Engine, dir string, durable bool, s subject) (table, error)
	only []string // engines; all where it is empty
}

// strategies are all of them, in the order of tables.
var strategies = slices.Concat(
	[]strategy{
		onePair("binary", "the fields one behind the other"),
		onePair("names", "names and values of the fields"),
		onePair("json", "encoding/json"),
		onePair("gob", "encoding/gob, a stream for each record"),
		{name: "fields", says: "a pair for each field", open: openFields},
		{name: "nested", says: "a bucket for each record", open: openNested, only: []string{"bbolt"}},
		{name: "hash", says: "a hash for each record", open: openHash, only: []string{"copal"}},
	},
	[]strategy{
		onePair("copal", "the binary codec of copal, in a pair"),
		onePair("json2", "JSON version 2, go-json-experiment"),
		onePair("gob-shared", "encoding/gob, one description of the type for all"),
		onePair("cbor", "fxamacker/cbor"),
		onePair("msgpack", "vmihailenco/msgpack"),
	},
	mapStrategies,
)

// onePair returns a strategy that keeps a record in one pair.
func onePair(name, says string) strategy {
	return strategy{name: name, says: says, open: func(e rivals.Engine, dir string, durable bool, s subject) (table, error) {
		enc, err := encodings[name](s)
		if err != nil {
			return nil, notKept(err)
		}
		store, err := e.Open(dir, durable)
		if err != nil {
			return nil, err
		}
		return &pairs{store: store, encoding: enc, subject: s}, nil
	}}
}

// pairs is a table with a pair for each record.
type pairs struct {
	store    rivals.Store
	encoding encoding
	subject  subject
	key      []byte
	value    []byte
}

func (p *pairs) keyOf(number uint64) []byte {
	p.key = key(p.key[:0], number)
	return p.key
}

func (p *pairs) encode(record any) (err error) {
	p.value, err = p.encoding.Append(p.value[:0], record)
	return notKept(err)
}

func (p *pairs) decode(value []byte, record any) error {
	return notKept(p.encoding.Decode(value, record))
}

// encodeField replaces the content of value by a field.
func (p *pairs) encodeField(record any, i int) (err error) {
	p.value, err = p.subject.AppendField(p.value[:0], record, i)
	return notKept(err)
}

// each calls f for the records that next makes.
func each(next func() (uint64, any), f func(number uint64, record any) error) error {
	for {
		number, record := next()
		if record == nil {
			return nil
		}
		if err := f(number, record); err != nil {
			return fmt.Errorf("record %d: %w", number, err)
		}
	}
}

func (p *pairs) insert(next func() (uint64, any), together bool) error {
	insertBy := func(put func(key, value []byte) error) error {
		return each(next, func(number uint64, record any) error {
			if err := p.encode(record); err != nil {
				return err
			}
			return put(p.keyOf(number), p.value)
		})
	}
	if together {
		return p.store.Update(func(tx rivals.Tx) error { return insertBy(tx.Put) })
	}
	return insertBy(p.put)
}

// put writes one pair in a transaction. The transaction of bbolt that waits for other writers is
// not for one writer.
func (p *pairs) put(key, value []byte) error {
	if _, ok := p.store.(rivals.Bolt); ok {
		return p.store.Update(func(tx rivals.Tx) error { return tx.Put(key, value) })
	}
	return p.store.Put(key, value)
}

func (p *pairs) read(number uint64, record any) error {
	return p.store.View(func(tx rivals.Tx) error {
		value, err := tx.Get(p.keyOf(number))
		if err != nil {
			return err
		}
		return p.decode(value, record)
	})
}

// scan walks over the records in [from, to).
func scan(s rivals.Store, from, to []byte, f func(value []byte) error) error {
	return s.View(func(tx rivals.Tx) error {
		return tx.Scan(from, to, func(_, value []byte) error { return f(value) })
	})
}

func (p *pairs) readMany(number uint64, n int, f func(record any) error) error {
	record := p.subject.New()
	return scan(p.store, key(nil, number), key(nil, number+uint64(n)), func(value []byte) error {
		reset(record)
		if err := p.decode(value, record); err != nil {
			return err
		}
		return f(record)
	})
}

// behindAll is a key after those of all records.
var behindAll = key(nil, 1<<63)

func (p *pairs) sum() (total float64, n int, err error) {
	record := p.subject.New()
	err = scan(p.store, nil, behindAll, func(value []byte) error {
		v, err := p.encoding.Number(value, record)
		total, n = total+v, n+1
		return notKept(err)
	})
	return total, n, err
}

func (p *pairs) update(number uint64, round int) error {
	record := p.subject.New()
	return p.store.Update(func(tx rivals.Tx) error {
		value, err := tx.Get(p.keyOf(number))
		if err == nil {
			err = p.decode(value, record)
		}
		if err != nil {
			return err
		}
		p.subject.Touch(record, number, round)
		if err := p.encode(record); err != nil {
			return err
		}
		return tx.Put(p.key, p.value)
	})
}

func (p *pairs) size(number uint64, record any) (int, error) {
	err := p.encode(record)
	return len(p.keyOf(number)) + len(p.value), err
}

func (p *pairs) close() error { return p.store.Close() }

// fieldTable is the strategy MultiKV: a pair for each field, under the key of the record and the
// name of the field.
type fieldTable struct {
	pairs
	names []string // in the order of keys, by which the fields of a record lie
	place []int    // the field of each name
}

func openFields(e rivals.Engine, dir string, durable bool, s subject) (table, error) {
	store, err := e.Open(dir, durable)
	if err != nil {
		return nil, err
	}
	t := &fieldTable{pairs: pairs{store: store, subject: s}}
	for _, f := range s.Fields() {
		t.names = append(t.names, f.name)
	}
	slices.Sort(t.names)
	for _, name := range t.names {
		t.place = append(t.place, indexOf(s.Fields(), name))
	}
	return t, nil
}

func (t *fieldTable) field(number uint64, name string) []byte {
	t.key = append(t.keyOf(number), name...)
	return t.key
}

// putAll puts the fields of a record.
func (t *fieldTable) putAll(number uint64, record any, put func(key, value []byte) error) (err error) {
	for i, f := range t.subject.Fields() {
		if err = t.encodeField(record, i); err != nil {
			return err
		}
		if err := put(t.field(number, f.name), t.value); err != nil {
			return err
		}
	}
	return nil
}

func (t *fieldTable) insert(next func() (uint64, any), together bool) error {
	if together {
		return t.store.Update(func(tx rivals.Tx) error {
			return each(next, func(number uint64, record any) error { return t.putAll(number, record, tx.Put) })
		})
	}
	return each(next, func(number uint64, record any) error {
		return t.store.Update(func(tx rivals.Tx) error { return t.putAll(number, record, tx.Put) })
	})
}

func (t *fieldTable) read(number uint64, record any) error {
	return t.walk(number, 1, record, func() error { return nil })
}

// walk sets record from the fields of n records, one after the other.
func (t *fieldTable) walk(number uint64, n int, record any, f func() error) error {
	from, to := key(nil, number), key(nil, number+uint64(n))
	i := 0
	err := scan(t.store, from, to, func(value []byte) error {
		if i == 0 {
			reset(record)
		}
		if err := t.subject.SetField(record, t.place[i], value); err != nil {
			return notKept(err)
		}
		if i++; i < len(t.place) {
			return nil
		}
		i = 0
		return f()
	})
	if err == nil && i != 0 {
		err = fmt.Errorf("%d fields of a record are absent", len(t.place)-i)
	}
	return err
}

func (t *fieldTable) readMany(number uint64, n int, f func(record any) error) error {
	record := t.subject.New()
	return t.walk(number, n, record, func() error { return f(record) })
}

// sum reads the field of each record by its key, as a program would that knows the numbers.
func (t *fieldTable) sum() (total float64, n int, err error) {
	name := t.subject.Fields()[t.subject.Summed()].name
	err = t.store.View(func(tx rivals.Tx) error {
		for ; ; n++ {
			value, err := tx.Get(t.field(uint64(n), name))
			if errors.Is(err, rivals.ErrAbsent) {
				return nil
			}
			if err != nil {
				return err
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

// update writes the field without reading the record.
func (t *fieldTable) update(number uint64, round int) (err error) {
	record, i := t.subject.New(), t.subject.Updated()
	t.subject.Touch(record, number, round)
	if err = t.encodeField(record, i); err != nil {
		return err
	}
	return t.put(t.field(number, t.subject.Fields()[i].name), t.value)
}

func (t *fieldTable) size(number uint64, record any) (total int, err error) {
	err = t.putAll(number, record, func(key, value []byte) error {
		total += len(key) + len(value)
		return nil
	})
	return total, err
}

// nested is a bucket for each record, with a pair for each field.
type nested struct{ fieldTable }

func openNested(e rivals.Engine, dir string, durable bool, s subject) (table, error) {
	t, err := openFields(e, dir, durable, s)
	if err != nil {
		return nil, err
	}
	return &nested{*t.(*fieldTable)}, nil
}

func (t *nested) putAll(tx rivals.Tx, number uint64, record any) error {
	b, err := tx.(rivals.Nester).Bucket(t.keyOf(number))
	if err != nil {
		return err
	}
	for i, f := range t.subject.Fields() {
		if err = t.encodeField(record, i); err != nil {
			return err
		}
		t.key = append(t.key[:0], f.name...)
		if err := b.Put(t.key, t.value); err != nil {
			return err
		}
	}
	return nil
}

func (t *nested) insert(next func() (uint64, any), together bool) error {
	if together {
		return t.store.Update(func(tx rivals.Tx) error {
			return each(next, func(number uint64, record any) error { return t.putAll(tx, number, record) })
		})
	}
	return each(next, func(number uint64, record any) error {
		return t.store.Update(func(tx rivals.Tx) error { return t.putAll(tx, number, record) })
	})
}

// behindNames sorts after the names of all fields.
var behindNames = []byte{0xff}

func (t *nested) set(b rivals.Tx, record any) error {
	i := 0
	reset(record)
	err := b.Scan(nil, behindNames, func(_, value []byte) error {
		i++
		return notKept(t.subject.SetField(record, t.place[i-1], value))
	})
	if err == nil && i != len(t.place) {
		err = fmt.Errorf("%d fields of a record are absent", len(t.place)-i)
	}
	return err
}

func (t *nested) read(number uint64, record any) error {
	return t.store.View(func(tx rivals.Tx) error {
		b, err := tx.(rivals.Nester).Bucket(t.keyOf(number))
		if err != nil {
			return err
		}
		return t.set(b, record)
	})
}

func (t *nested) readMany(number uint64, n int, f func(record any) error) error {
	record := t.subject.New()
	return t.store.View(func(tx rivals.Tx) error {
		return tx.(rivals.Nester).Buckets(key(nil, number), key(nil, number+uint64(n)), func(_ []byte, b rivals.Tx) error {
			if err := t.set(b, record); err != nil {
				return err
			}
			return f(record)
		})
	})
}

func (t *nested) sum() (total float64, n int, err error) {
	name := []byte(t.subject.Fields()[t.subject.Summed()].name)
	err = t.store.View(func(tx rivals.Tx) error {
		return tx.(rivals.Nester).Buckets(nil, behindAll, func(_ []byte, b rivals.Tx) error {
			value, err := b.Get(name)
			if err != nil {
				return err
			}
			v, err := t.subject.NumberOf(value)
			total, n = total+v, n+1
			return err
		})
	})
	return total, n, err
}

func (t *nested) update(number uint64, round int) (err error) {
	record, i := t.subject.New(), t.subject.Updated()
	t.subject.Touch(record, number, round)
	if err = t.encodeField(record, i); err != nil {
		return err
	}
	return t.store.Update(func(tx rivals.Tx) error {
		b, err := tx.(rivals.Nester).Bucket(t.keyOf(number))
		if err != nil {
			return err
		}
		t.key = append(t.key[:0], t.subject.Fields()[i].name...)
		return b.Put(t.key, t.value)
	})
}

// size counts the key of a record once: the name of its bucket.
func (t *nested) size(number uint64, record any) (int, error) {
	n, err := t.fieldTable.size(number, record)
	return n - 8*(len(t.place)-1), err
}
