package copal

import (
	"fmt"
	"iter"
	"time"

	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/store"
)

// MaxKeyBytes is the length of the longest key, what stands for the map's name included.
const MaxKeyBytes = store.MaxKeyBytes

// Entry is an entry as a store keeps it: what moves it into another store, where it is the same again, whatever its type. No codec
// looks at the value.
type Entry struct {
	Key     []byte
	Value   []byte    // as Codec has encoded it
	Codec   string    // name of the codec; "" of raw bytes
	Schema  string    // what that codec says of the type, without which the value cannot be read; "" of raw bytes
	Expires time.Time // the deadline, in milliseconds; the zero Time for none

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
		for item := range s.view.Entries(store.Span{Low: from, High: to, HighOpen: true}) {
			e, err := Entry{Key: item.Key}, item.Err
			if err == nil {
				e, err = s.db.entry(&item)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// entry is what the log has, with the schema instead of its number.
func (db *DB) entry(item *store.Item) (Entry, error) {
	e := Entry{Key: item.Key, Value: item.Value, Seq: item.Seq, Time: item.Time}
	if d := item.Deadline(); d != 0 {
		e.Expires = time.UnixMilli(int64(d))
	}
	if item.Schema == 0 {
		return e, nil
	}
	schema, ok := db.store.Schema(item.Schema)
	if !ok {
		return Entry{Key: item.Key}, fmt.Errorf("%w: the entry of key %q names schema %d, which is not in the log", ErrCorrupt, item.Key, item.Schema)
	}
	e.Codec, e.Schema = schema.Codec, schema.Text
	return e, nil
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

func (db *DB) writeOf(e *Entry) (store.Write, error) {
	w := store.Write{Key: e.Key, Value: e.Value}
	if !e.Expires.IsZero() {
		w.Expiry = uint64(max(e.Expires.UnixMilli(), 1))
	}
	switch {
	case e.Codec == "" && e.Schema == "":
		return w, nil
	case !isWord(e.Codec):
		return w, fmt.Errorf("%w: a codec is called %q; its name must be a word of lower-case letters and digits", ErrType, e.Codec)
	}
	var err error
	w.Schema, err = db.store.SchemaNumber(store.Schema{Codec: e.Codec, Text: e.Schema})
	return w, err
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
