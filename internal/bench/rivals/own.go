package rivals

import (
	"errors"

	"github.com/copaldb/copal"
)

// Copal is this store, by its raw bytes.
var Copal = Engine{Name: "copal", Module: "github.com/copaldb/copal", Open: func(dir string, durable bool) (Store, error) {
	return openOwn(dir, durable)
}}

// CopalOrdered keeps its keys in order, as all the others do.
var CopalOrdered = Engine{Name: "copal", Module: "github.com/copaldb/copal", Open: func(dir string, durable bool) (Store, error) {
	return openOwn(dir, durable, copal.OrderedKeys(), copal.Ordered())
}}

// Own is a store of copal's. Its DB is there for what only copal has.
type Own struct {
	DB      *copal.DB
	durable bool
}

func openOwn(dir string, durable bool, opts ...copal.Option) (Store, error) {
	db, err := copal.Open(dir, opts...)
	if err != nil {
		return nil, err
	}
	return Own{db, durable}, nil
}

// Get implements Store.
func (s Own) Get(key []byte) ([]byte, error) { return s.DB.Raw().Load(key) }

// Put implements Store.
func (s Own) Put(key, value []byte) error {
	if s.durable {
		return s.DB.Raw().SetFSync(key, value)
	}
	return s.DB.Raw().Set(key, value)
}

// Batch implements Store.
func (s Own) Batch(n int, entry func(i int) (key, value []byte)) error {
	raw := s.DB.Raw()
	if s.durable {
		raw = raw.With(copal.FSync)
	}
	b := raw.Batch()
	for i := range n {
		b.Set(entry(i))
	}
	return b.Commit()
}

// View implements Store.
func (s Own) View(f func(Tx) error) error {
	return s.DB.View(func(tx *copal.Tx) error { return f(ownTx{tx.Raw()}) })
}

// Update implements Store.
func (s Own) Update(f func(Tx) error) error {
	update := s.DB.Update
	if s.durable {
		update = s.DB.UpdateFSync
	}
	return update(func(tx *copal.Tx) error { return f(ownTx{tx.Raw()}) })
}

// Close implements Store.
func (s Own) Close() error { return s.DB.Close() }

type ownTx struct{ raw *copal.Raw }

func (t ownTx) Get(key []byte) ([]byte, error) {
	value, err := t.raw.Load(key)
	if errors.Is(err, copal.ErrNotFound) {
		err = ErrAbsent
	}
	return value, err
}

func (t ownTx) Put(key, value []byte) error { return t.raw.Set(key, value) }

func (t ownTx) Scan(from, to []byte, f func(key, value []byte) error) error {
	for key, value := range t.raw.Between(from, to) {
		if err := f(key, value); err != nil {
			return err
		}
	}
	return nil
}

// Durable says whether Put, Batch and Update have synced what they wrote when they return.
func (s Own) Durable() bool { return s.durable }
