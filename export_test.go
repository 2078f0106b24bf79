package copal

import (
	"reflect"

	"github.com/copaldb/copal/internal/engine"
)

// AnyMap is a map of string keys whose type of values is known at run time alone: what OpenMap does to let
// values of one type be read as those of another, without a Map for each of a hundred types.
type AnyMap struct {
	name   string
	values *typed
	table  *engine.Table
}

// OpenAnyMap is OpenMap under the codec that the store was opened with.
func OpenAnyMap(db *DB, name string, t reflect.Type) (*AnyMap, error) {
	values, table, err := db.valuesOf(name, db.config.maps.codec, t)
	return &AnyMap{name, values, table}, err
}

func (m *AnyMap) key(key string) []byte { return []byte(m.name + ":" + key) }

// Set stores what is of the map's type.
func (m *AnyMap) Set(key string, v any) error {
	p := reflect.New(m.values.goval)
	p.Elem().Set(reflect.ValueOf(v))
	value, schema, err := m.values.encode(new(buffer), m.key(key), p.Interface())
	if err != nil {
		return err
	}
	return m.values.store.(*engine.Store).Set(m.table, m.key(key), value, schema, engine.Process)
}

// Load returns a value of the map's type.
func (m *AnyMap) Load(key string) (any, error) {
	e, err := m.values.store.(*engine.Store).Get(m.table, m.key(key))
	if err != nil {
		return nil, err
	}
	p := reflect.New(m.values.goval)
	err = m.values.decode(m.key(key), &e, p.Interface())
	return p.Elem().Interface(), err
}
