package copal

import (
	"bytes"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/opened"
	"github.com/copaldb/copal/internal/render"
)

func init() {
	opened.Engine = func(db any) *engine.Store { return db.(*DB).store }
	opened.Renderers = func(db any) *render.Renderers { return &db.(*DB).renders }
	opened.SetFit = func(raw unsafe.Pointer, fit opened.Fitter) { (*Raw)(raw).fit = fit }
	opened.View = func(s any) (*engine.View, *engine.Store) {
		snapshot := s.(*Snapshot)
		return snapshot.view, snapshot.db.store
	}
}

// fitOpen is opened.Fit, which the first map that is opened fills in: programs without maps do not carry it.
var fitOpen = func(db any, key, value []byte) (*opened.Fitted, error) {
	if m := db.(*DB).openMap(key); m != nil {
		return m.fitted(key, value)
	}
	return nil, nil
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

func (m *mapCore) fitted(key, value []byte) (*opened.Fitted, error) {
	if !m.order.Holds(string(key[len(m.prefix):])) {
		return nil, fmt.Errorf("it is no key of map %q, which has keys of type %v", m.name, m.keysType)
	}
	f := &opened.Fitted{Value: value, Text: m.values.plan.Schema()}
	v := reflect.New(m.values.goval).Interface()
	err := m.values.decode(key, &engine.Entry{Value: value}, v)
	switch {
	case err != nil:
	case m.values.codec == codec.JSON:
		f.Schema, err = m.values.schema()
	default:
		f.Value, f.Schema, err = m.values.encode(&buffer{}, key, v)
	}
	return f, err
}
