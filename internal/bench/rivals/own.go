package rivals

import (
	"errors"
	"sync"

	"github.com/copaldb/copal"
)

// Copal is this store, by its raw bytes.
var Copal = Engine{Name: "copal", Module: "github.com/copaldb/copal", Open: func(dir string, durable bool) (Store, error) {
	return OpenCopal(dir, durable)
}}

// CopalOrdered keeps its keys in order, as all the others do.
var CopalOrdered = Engine{Name: Copal.Name, Module: Copal.Module, Open: func(dir string, durable bool) (Store, error) {
	return OpenCopal(dir, durable, copal.OrderedKeys(), copal.Ordered())
}}

// Own is a store of copal's. Its DB is for features that only copal has.
type Own struct {
	DB      *copal.DB
	durable bool
	batches *sync.Pool // of *copal.Batch, which keep their memory from use to use
}

// OpenCopal opens a store of copal's with options.
func OpenCopal(dir string, durable bool, opts ...copal.Option) (Store, error) {
	db, err := copal.Open(dir, opts...)
	if err != nil {
		return nil, err
	}
	raw := db.Raw()
	if durable {
		raw = raw.With(copal.FSync)
	}
	return Own{db, durable, &sync.Pool{New: func() any { return raw.Batch() }}}, nil
}

// Get implements Store.
func (s Own) Get(key []byte) ([]byte, error) {
	value, err := s.DB.Raw().Load(key)
	return value, ownError(err)
}

// ownError returns an error of copal as one of this package.
func ownError(err error) error {
	if errors.Is(err, copal.ErrNotFound) {
		return ErrAbsent
	}
	return err
}

// Put implements Store.
func (s Own) Put(key, value []byte) error {
	if s.durable {
		return s.DB.Raw().SetFSync(key, value)
	}
	return s.DB.Raw().Set(key, value)
}

// Batch implements Store.
func (s Own) Batch(n int, entry func(i int) (key, value []byte)) error {
	b := s.batches.Get().(*copal.Batch)
	for i := range n {
		b.Set(entry(i))
	}
	if err := b.Commit(); err != nil {
		return err // b is not empty
	}
	s.batches.Put(b)
	return nil
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
	return value, ownError(err)
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

// Durable reports whether Put, Batch and Update have synced their writes when they return.
func (s Own) Durable() bool { return s.durable }
