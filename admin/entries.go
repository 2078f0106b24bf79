package admin

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/opened"
)

// Entry is an entry as a store keeps it. Put into another store it is the same again, whatever its
// type: no codec looks at the value.
type Entry struct {
	Key     []byte
	Value   []byte    // as Codec has encoded it
	Codec   string    // name of the codec; "" for raw bytes
	Schema  string    // the schema by which the codec reads the value; "" for raw bytes
	Content string    // the content type, such as "image/png"; "" where none is known
	Expires time.Time // the deadline, to the millisecond, rounded up; the zero Time for none
	Deleted bool      // the entry does not exist: Put removes the key

	// For a key that holds a collection: its type, such as "hash", and the number of its elements, which
	// Elements yields. Value is nil then.
	Collection string
	Elements   int64

	// The length of a value that Look does not read, because it is too long; 0 for any other.
	Large int64

	// The number and the time of the entry's record in its own store. Put does not pass them on.
	Seq  uint64
	Time time.Time
}

// Entries yields the entries of the snapshot, those of maps and raw ones, with keys in [from, to),
// in bytewise order of their keys. nil is no bound. Key and value are the caller's own.
//
// An entry that cannot be read comes as an error, with its Key if that is known, and Entries goes
// on. copal.ErrClosed and copal.ErrSnapshotLost are the last that it yields.
func Entries(s *copal.Snapshot, from, to []byte) iter.Seq2[Entry, error] {
	view, store := (*opened.View.Load())(s)
	return func(yield func(Entry, error) bool) {
		for item, c := range view.Entries(engine.Span{Low: from, High: to, HighOpen: true}) {
			e, err := Entry{Key: item.Key}, item.Err
			if err == nil {
				e, err = entryOf(store, &item)
			}
			if err == nil && c != nil {
				e.Collection = string(c.Type)
				e.Elements, err = view.Collections().CountIn(item.Key, c.Type, engine.Span{})
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// entryOf is an entry of the log, with the schema instead of its number.
func entryOf(store *engine.Store, item *engine.Item) (Entry, error) {
	e := storedOf(item)
	var err error
	e.Codec, e.Schema, err = schemaOf(store, item.Key, item.Schema)
	return e, err
}

// storedOf is an entry of the log without its schema.
func storedOf(item *engine.Item) Entry {
	return Entry{Key: item.Key, Value: item.Value, Content: item.Type, Seq: item.Seq, Time: item.Time, Expires: timeOf(item.Deadline())}
}

// timeOf is a deadline of the store as a time, which is zero for none.
func timeOf(deadline uint64) (at time.Time) {
	if deadline != 0 {
		at = time.UnixMilli(int64(deadline))
	}
	return at
}

// schemaOf returns the schema with this number, and its codec.
func schemaOf(store *engine.Store, key []byte, number uint64) (codec, text string, err error) {
	if number == 0 {
		return "", "", nil
	}
	schema, ok := store.Schema(number)
	if !ok {
		return "", "", fmt.Errorf("%w: the entry of key %q names schema %d, which is not in the log", copal.ErrCorrupt, key, number)
	}
	return schema.Codec, schema.Text, nil
}

// Element is an element of a collection as a store keeps it. Its Name is the field of a hash, the
// member of a set or the position in a list; a sorted set has two elements per member (see package
// internal/elements).
type Element struct {
	Name   []byte // its name in the collection
	Value  []byte // as Codec has encoded it
	Codec  string // Codec and Schema are as in Entry
	Schema string
}

// Elements yields the elements of the collection under key, in bytewise order of their names, and
// none if there is no collection. An element that cannot be read comes as an error, and Elements
// goes on. Name and value are the caller's own. A transaction depends on the elements that it reads.
// For one on another machine the only error is errors.ErrUnsupported.
func Elements[S Moment](in S, key []byte) iter.Seq2[Element, error] {
	return ElementsFrom(in, key, nil)
}

// ElementsFrom is Elements from a name on.
func ElementsFrom[S Moment](in S, key, name []byte) iter.Seq2[Element, error] {
	switch in := any(in).(type) {
	case *copal.Snapshot:
		view, store := (*opened.View.Load())(in)
		return elements(view.Collections(), store, key, name)
	case *copal.Tx:
		if tx := engineTx(in); tx != nil {
			return elements(tx.Collections(), tx.Owner(), key, name)
		}
	}
	return func(yield func(Element, error) bool) { yield(Element{}, errors.ErrUnsupported) }
}

// Moment is where Elements reads a collection: a snapshot, or a transaction.
type Moment interface{ *copal.Snapshot | *copal.Tx }

func elements(of engine.Collections, store *engine.Store, key, from []byte) iter.Seq2[Element, error] {
	return func(yield func(Element, error) bool) {
		for item := range of.All(key, "", engine.Span{Low: from}, true) {
			e, err := Element{Name: bytes.Clone(item.Key)}, item.Err
			if err == nil {
				err = e.take(store, key, &item.Entry)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// take takes over the stored form of an element of the collection under key.
func (e *Element) take(store *engine.Store, key []byte, from *engine.Entry) (err error) {
	e.Value = bytes.Clone(from.Value)
	e.Codec, e.Schema, err = schemaOf(store, key, from.Schema)
	return err
}

// Put stores entries, from another store or this one, all or none of them, and replaces the present
// entries of their keys. Of several entries with one key the last counts. Put ignores Seq and Time.
// An entry whose deadline has passed leaves its key without an entry. Put is as durable as Map.Set
// or, in a transaction, as that; there it reads whether an entry exists that it deletes. Put keeps
// none of the entries' bytes.
//
// The errors are those of Map.Set, and one for a Codec that is no possible name of a codec, or a
// Content that no record can have. For a store on another machine it is errors.ErrUnsupported; for
// an entry with a Collection, copal.ErrType. Put does not check that a value fits its schema; the
// first read does.
func Put[S Writable](in S, entries ...*Entry) error {
	store, tx, err := writable(in)
	if err != nil {
		return err
	}
	writes := make([]engine.Write, len(entries))
	for i, e := range entries {
		if writes[i], err = writeOf(store, e); err != nil {
			return err
		}
	}
	switch {
	case tx != nil:
		return putIn(tx, writes)
	case len(writes) == 1:
		_, err := store.Write(nil, &writes[0])
		return err
	}
	at := make(map[string]int, len(writes)) // by key: which change
	changes := make([]*engine.Change, 0, len(writes))
	for _, w := range writes {
		c := &engine.Change{Write: w}
		if i, ok := at[string(w.Key)]; ok {
			changes[i] = c
			continue
		}
		at[string(w.Key)] = len(changes)
		changes = append(changes, c)
	}
	return store.WriteAll(changes, engine.Process)
}

// putIn makes writes in a transaction.
func putIn(tx *engine.Tx, writes []engine.Write) (err error) {
	for i := range writes {
		if w := &writes[i]; w.Delete {
			_, err = tx.Delete(nil, nil, w.Key)
		} else {
			err = tx.Write(nil, w)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// PutElements adds elements to the collection that e describes, all or none of them, and replaces
// those with the same names. With anew, it first deletes the entry of the key, and last sets the
// deadline of e. These are separate changes, so a crash may leave nothing, or no deadline.
// PutElements is as durable as Put. The errors are those of Put, and copal.ErrType when the key
// holds something else.
func PutElements(db *copal.DB, e *Entry, list []Element, anew bool) error {
	store := opened.Engine(db)
	if !engine.IsWord(e.Collection) {
		return fmt.Errorf("%w: there is no collection of type %q", copal.ErrType, e.Collection)
	}
	edits := make([]*engine.Edit, len(list))
	for i := range list {
		edits[i] = &engine.Edit{Sub: list[i].Name, Value: list[i].Value}
		var err error
		if edits[i].Schema, err = numberOf(store, list[i].Codec, list[i].Schema); err != nil {
			return err
		}
	}
	deadline, err := e.deadline()
	if err != nil {
		return err
	}
	of := engine.CollectionType(e.Collection)
	err = store.Restore(e.Key, of, edits, anew)
	if err == nil && anew && deadline != 0 {
		err = store.Redate(e.Key, of, deadline, engine.Process)
	}
	return err
}

// DeclareMap makes a map of the entries whose keys begin with copal.MapPrefix(name), as OpenMap
// does, for a program that knows neither type. DB.Maps lists the map then, and OpenMap opens it
// with any type of keys. The store remembers it from the first write on.
func DeclareMap(db *copal.DB, name string) error {
	if name == "" {
		return errors.New("copal: DeclareMap needs the name of a map")
	}
	_, err := opened.Engine(db).Map(name)
	return err
}

// deadline is the deadline as the store keeps it, 0 for none.
func (e *Entry) deadline() (uint64, error) {
	if e.Expires.IsZero() {
		return 0, nil
	}
	return engine.MillisAt(e.Expires)
}

func writeOf(store *engine.Store, e *Entry) (engine.Write, error) {
	deadline, err := e.deadline()
	w := engine.Write{Key: e.Key, Value: e.Value, Type: e.Content, Expiry: deadline}
	if err != nil {
		return w, err
	}
	if !isContentType(e.Content) {
		return w, fmt.Errorf("%w: %q is no content type of at most %d printable characters without spaces", copal.ErrType, e.Content, mostContent)
	}
	if e.Collection != "" {
		return w, fmt.Errorf("%w: key %q has a %s, which needs PutElements", copal.ErrType, e.Key, e.Collection)
	}
	if e.Deleted {
		return engine.Write{Key: e.Key, Delete: true}, nil
	}
	w.Schema, err = numberOf(store, e.Codec, e.Schema)
	return w, err
}

// mostContent is the greatest length of a content type in a record.
const mostContent = 128

// isContentType reports whether a record can have a text as its content type.
func isContentType(text string) bool {
	for _, c := range []byte(text) {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return len(text) <= mostContent
}

// numberOf returns the number of a schema in this store.
func numberOf(store *engine.Store, codec, text string) (uint64, error) {
	switch {
	case codec == "" && text == "":
		return 0, nil
	case !engine.IsWord(codec):
		return 0, fmt.Errorf("copal: a codec is called %q; its name must be a word of lower-case letters and digits", codec)
	}
	return store.SchemaNumber(engine.Schema{Codec: codec, Text: text})
}
