package copal

import (
	"bytes"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/opened"
	"github.com/copaldb/copal/internal/render"
	"github.com/copaldb/copal/internal/vfs"
)

func init() {
	opened.Engine = func(db any) *engine.Store { return db.(*DB).store }
	opened.Disk = func(opts any) (vfs.FS, error) {
		c, err := newConfig(opts.([]Option))
		return c.disk(), err
	}
	opened.Seam = func(set func(*engine.Options)) any {
		return storeOption(func(c *config) { c.seams = append(c.seams, set) })
	}
	opened.Renderers = func(db any) *render.Renderers { return &db.(*DB).renders }
	opened.SetValues = func(raw unsafe.Pointer, fit opened.Fitter, shape *opened.Shape, takes engine.Takes) {
		r := (*Raw)(raw)
		r.fit, r.shape, r.takes = fit, shape, takes
	}
}

// formOf is opened.FormOf, which the first map that is opened fills in: programs without maps do not carry it.
var formOf = func(db any, key []byte) (*opened.Form, error) {
	if m := db.(*DB).openMap(key); m != nil {
		return m.form(key)
	}
	return nil, nil
}

// txOf is opened.Tx, which the first transaction fills in: programs without any do not carry it.
var txOf = func(tx any) *engine.Tx {
	if tx := tx.(*Tx); tx.far == nil {
		return tx.tx
	}
	return nil
}

// driverOf is opened.Driver, which the first store with a driver fills in.
var driverOf = func(db any) driver.Driver { return db.(*DB).drives() }

// viewOf is opened.View, which the first snapshot fills in: programs without any do not carry it.
var viewOf = func(s any) (*engine.View, *engine.Store) {
	snapshot := s.(*Snapshot)
	return snapshot.view, snapshot.db.store
}

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

func (m *mapCore) form(key []byte) (*opened.Form, error) {
	if err := m.self.(interface{ holds(key []byte) error }).holds(key); err != nil {
		return nil, fmt.Errorf("it is no key of map %q, which has keys of type %v", m.name, m.keysType)
	}
	reads := func(key, stored []byte, number uint64) error {
		return m.values.decode(key, &engine.Entry{Value: stored, Schema: number}, reflect.New(m.values.goval).Interface())
	}
	return &opened.Form{Codec: m.values.codec, Schema: m.values.plan.Schema(), Number: m.values.schema, Reads: reads}, nil
}

// holds returns an error for bytes that are no key of the map.
func (m *Map[K, V]) holds(key []byte) error {
	_, err := m.keys.Decode(key[len(m.bare.prefix):])
	return err
}

// restOf is opened.RestOf, which the first watch fills in.
var restOf = func(change any) []byte {
	c := change.(*Change)
	if c.far != nil {
		return c.far.Rest
	}
	return c.event.Rest()
}
