package importers

import (
	"fmt"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/positions"
	"github.com/copaldb/copal/internal/rdb"
	"github.com/copaldb/copal/redisapi"
)

// readRDB reads a file of Redis. One that is cut is an error: Redis renames a file that is whole,
// and a length that was changed looks the same.
func readRDB(s *Source, emit func(*Item) error) error {
	k := keys{Source: s, emit: emit}
	return rdb.Read(s.In, k.entry)
}

// keys converts keys of Redis into items.
type keys struct {
	*Source
	emit func(*Item) error
	last []byte // the position of the last element of the list that is read
}

// keyOf returns a store's key for a key of a numbered database. Databases beyond those that a store
// serves are in maps of the same kind.
func keyOf(database int, key []byte) []byte {
	if database < redisapi.Databases {
		return redisapi.Key(database, key)
	}
	return append(copal.MapPrefix(fmt.Sprintf("db:%d", database)), key...)
}

// entry hands on a key, or a part of a collection.
func (k *keys) entry(e *rdb.Entry) error {
	if e.Foreign != "" && e.Key == nil {
		k.LeftOut(e.Foreign, nil)
		return nil
	}
	item := Item{Entry: admin.Entry{Key: keyOf(e.DB, e.Key), Expires: e.Expires}}
	if e.Foreign != "" {
		k.LeftOut(e.Foreign, item.Key)
		return nil
	}
	return k.value(&item, &e.Value, e.Begins)
}

// value hands on a value under the key of an item, or a part of it.
func (k *keys) value(item *Item, v *rdb.Value, begins bool) error {
	if v.Type == "value" {
		item.Value = v.Text
		return k.emit(item)
	}
	if begins {
		k.last = nil
		item.Collection = v.Type
		if err := k.emit(item); err != nil {
			return err
		}
	}
	step := 1
	if v.Type == "hash" || v.Type == "stream" {
		step = 2
	}
	if v.Type == "list" {
		return k.list(v.Elements)
	}
	for i := 0; i < len(v.Elements); i += step {
		e := Item{Element: &admin.Element{Name: v.Elements[i]}}
		switch v.Type {
		case "hash", "stream":
			e.Element.Value = v.Elements[i+1]
		case "zset":
			score := v.Scores[i] + 0 // the zeros are one
			e.Score = &score
		}
		if err := k.emit(&e); err != nil {
			return err
		}
	}
	return nil
}

// list hands on elements, each at the position after the previous one.
func (k *keys) list(elements [][]byte) error {
	for _, value := range elements {
		k.last = positions.Between(k.last, nil, 1, 1)[0]
		if err := k.emit(&Item{Element: &admin.Element{Name: k.last, Value: value}}); err != nil {
			return err
		}
	}
	return nil
}
