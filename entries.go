package copal

import (
	"bytes"
	"fmt"
	"iter"
	"time"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keycodec"
)

// MaxKeyBytes is the length of the longest key, what stands for the map's name included.
const MaxKeyBytes = engine.MaxKeyBytes

// Entry is an entry as a store keeps it: what moves it into another store, where it is the same again, whatever its type. No codec
// looks at the value.
type Entry struct {
	Key     []byte
	Value   []byte    // as Codec has encoded it
	Codec   string    // name of the codec; "" of raw bytes
	Schema  string    // what that codec says of the type, without which the value cannot be read; "" of raw bytes
	Expires time.Time // the deadline, in milliseconds, rounded up; the zero Time for none

	// Of a key that holds a collection: its type, such as "hash"; how many elements it has, which Snapshot.Elements yields; and what the type keeps besides. Value is nil then.
	Collection string
	Elements   int64
	More       string

	// Where in the log of its store the entry stands, and since when. Who writes it elsewhere does not pass this on.
	Seq  uint64
	Time time.Time
}

// Entries yields the entries of the snapshot, of maps and raw, whose keys are at least from and less than to, in bytewise order of their keys. Without from, nil, it begins with
// the first; without to it goes on to the last. Key and value are the caller's.
//
// An entry that cannot be read comes as an error, with its Key if that is known, and iteration goes on; but for ErrClosed and ErrSnapshotLost, which are the last.
func (s *Snapshot) Entries(from, to []byte) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for item, c := range s.view.Entries(engine.Span{Low: from, High: to, HighOpen: true}) {
			e, err := Entry{Key: item.Key}, item.Err
			if err == nil {
				e, err = s.db.entry(&item)
			}
			if err == nil && c != nil {
				e.Collection, e.Elements, e.More = string(c.Type), int64(c.Count), c.More
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// entry is what the log has, with the schema instead of its number.
func (db *DB) entry(item *engine.Item) (Entry, error) {
	e := Entry{Key: item.Key, Value: item.Value, Seq: item.Seq, Time: item.Time}
	if d := item.Deadline(); d != 0 {
		e.Expires = time.UnixMilli(int64(d))
	}
	var err error
	e.Codec, e.Schema, err = db.schemaOf(item.Key, item.Schema)
	return e, err
}

// schemaOf is the schema of a value with this number.
func (db *DB) schemaOf(key []byte, number uint64) (codec, text string, err error) {
	if number == 0 {
		return "", "", nil
	}
	schema, ok := db.store.Schema(number)
	if !ok {
		return "", "", fmt.Errorf("%w: the entry of key %q names schema %d, which is not in the log", ErrCorrupt, key, number)
	}
	return schema.Codec, schema.Text, nil
}

// Element is an element of a collection as a store keeps it.
type Element struct {
	Name   []byte // what tells it apart from the others: of a hash the field
	Value  []byte // as Codec has encoded it
	Codec  string // as of an Entry
	Schema string
}

// Elements yields the elements of the collection under key, in bytewise order of their names. There are none where there is no collection. An element that cannot be read comes as an error, and
// iteration goes on. Name and value are the caller's.
func (s *Snapshot) Elements(key []byte) iter.Seq2[Element, error] {
	return func(yield func(Element, error) bool) {
		for item := range s.view.Collections().All(key, "", engine.Span{}, true) {
			e, err := Element{Name: bytes.Clone(item.Key)}, item.Err
			if err == nil {
				e.Value = bytes.Clone(item.Value)
				e.Codec, e.Schema, err = s.db.schemaOf(key, item.Schema)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// PutElements adds elements to the collection that e describes; one with the name of one that is there takes its place. With anew the collection, and its deadline, take the place of what is
// under the key first; that is not one change with the elements, so that a crash may leave nothing, or no deadline. The elements of one call are all there or none. It is as durable as Put. The error is
// that of PutEntry, or ErrType when the key has something else.
func (db *DB) PutElements(e *Entry, list []Element, anew bool) error {
	if !isWord(e.Collection) {
		return fmt.Errorf("%w: there is no collection of type %q", ErrType, e.Collection)
	}
	edits := make([]*engine.Edit, len(list))
	for i := range list {
		edits[i] = &engine.Edit{Sub: list[i].Name, Value: list[i].Value}
		var err error
		if edits[i].Schema, err = db.numberOf(list[i].Codec, list[i].Schema); err != nil {
			return err
		}
	}
	deadline, err := e.deadline()
	if err != nil {
		return err
	}
	err = db.store.Restore(e.Key, engine.CollectionType(e.Collection), e.More, edits, anew)
	if err == nil && anew && deadline != 0 {
		err = db.store.Redate(e.Key, engine.CollectionType(e.Collection), deadline, engine.Process)
	}
	return err
}

// deadline is that of the store, 0 for none.
func (e *Entry) deadline() (uint64, error) {
	if e.Expires.IsZero() {
		return 0, nil
	}
	return engine.MillisAt(e.Expires)
}

// PutEntry stores an entry of another store, or of this one, in the place of what is under its key. Seq and Time do not count. It is as durable as Put. A deadline may
// have passed: then nothing is under the key. The error is that of Put, or ErrType for a Codec that no codec can be called. That the value is one of the schema is
// not looked at: who reads it finds out.
func (db *DB) PutEntry(e *Entry) error {
	w, err := db.writeOf(e)
	if err == nil {
		_, err = db.store.Write(nil, &w)
	}
	return err
}

// PutEntry adds a DB.PutEntry. The error is ErrType for a Codec that no codec can be called, or says that the log did not take the schema; then nothing is added.
func (b *Batch) PutEntry(e *Entry) error {
	w, err := b.db.writeOf(e)
	if err == nil {
		w.Key, w.Value = b.copy(w.Key), b.copy(w.Value)
		b.add(w)
	}
	return err
}

func (db *DB) writeOf(e *Entry) (engine.Write, error) {
	deadline, err := e.deadline()
	w := engine.Write{Key: e.Key, Value: e.Value, Expiry: deadline}
	if err != nil {
		return w, err
	}
	if e.Collection != "" {
		return w, fmt.Errorf("%w: key %q has a %s, of which the elements are to be put", ErrType, e.Key, e.Collection)
	}
	w.Schema, err = db.numberOf(e.Codec, e.Schema)
	return w, err
}

// numberOf is the number of a schema in this store.
func (db *DB) numberOf(codec, text string) (uint64, error) {
	switch {
	case codec == "" && text == "":
		return 0, nil
	case !isWord(codec):
		return 0, fmt.Errorf("%w: a codec is called %q; its name must be a word of lower-case letters and digits", ErrType, codec)
	}
	return db.store.SchemaNumber(engine.Schema{Codec: codec, Text: text})
}

// MapPrefix is what the raw keys of the entries of map name begin with: the name, in which some bytes are escaped, and a colon. So
// db.Scan(MapPrefix("users")) yields the map's entries, and append(MapPrefix("users"), "alice"...) is the key of one whose own is a string.
func MapPrefix(name string) []byte { return append(keycodec.AppendName(nil, name), ':') }

// DeclareMap makes a map of the entries whose keys begin with MapPrefix(name), as OpenMap does, where neither the type of its keys nor that of its values is known: Maps lists
// it then. The store remembers it from the first write on.
func (db *DB) DeclareMap(name string) error {
	if name == "" {
		return fmt.Errorf("%w: a map needs a name", ErrType)
	}
	_, err := db.store.Map(name)
	return err
}
