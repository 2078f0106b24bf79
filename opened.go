package copal

import (
	"bytes"
	"reflect"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/opened"
	"github.com/copaldb/copal/internal/render"
)

func init() {
	opened.Engine = func(db any) *engine.Store { return db.(*DB).store }
	opened.Renderers = func(db any) *render.Renderers { return &db.(*DB).renders }
	opened.View = func(s any) (*engine.View, *engine.Store) {
		snapshot := s.(*Snapshot)
		return snapshot.view, snapshot.db.store
	}
}

// readsOpen is opened.Reads, which the first map that is opened fills in: programs without maps do not carry it.
var readsOpen = func(db any, key, value []byte) (open bool, err error) {
	if m := db.(*DB).openMap(key); m != nil {
		return true, m.reads(key, value)
	}
	return false, nil
}

// txOf is opened.Tx, which the first transaction fills in: programs without any do not carry it.
var txOf = func(tx any) *engine.Tx { return tx.(*Tx).tx }

// openMap is the map that a key belongs to, nil if it is not open.
func (db *DB) openMap(key []byte) *mapCore {
	db.mu.Lock()
	defer db.mu.Unlock()
	for name, m := range db.maps {
		if bytes.HasPrefix(key, MapPrefix(name)) {
			return m
		}
	}
	return nil
}

func (m *mapCore) reads(key, value []byte) error {
	v := reflect.New(m.values.goval)
	return m.values.decode(key, &engine.Entry{Value: value}, v.Interface())
}
