package copal

import (
	"slices"
	"time"
	"unsafe"

	"github.com/copaldb/copal/internal/engine"
)

// Batch is a list of changes of raw entries that are written together: all or none of them, in
// memory, in the log and after a crash, however many there are. Of several changes of one key only
// the last counts. The log gets the batch in one piece, and one sync serves it all.
//
// Only one goroutine at a time may use a Batch. It copies keys and values, and holds them in memory
// until Commit. A batch that is not committed changes nothing, and needs no Close.
type Batch struct {
	raw     *Raw
	db      *DB
	entries []batchEntry
	of      map[string]int // by key: its place in entries
	copied  engine.Arena   // keys and values

	changes []engine.Change // of entries, when they are committed
	list    []*engine.Change
}

// batchEntry is a change in a batch. It is small, because a batch may have millions.
type batchEntry struct {
	key, value []byte
	schema     uint64
	deadline   uint64
	delete     bool
}

// batchKept is the number of changes for which an empty batch keeps memory.
const batchKept = 4096

// Batch returns an empty batch, which is as durable as the writes of the handle. A transaction is a
// batch already: Commit of a batch made in one is an error.
func (r *Raw) Batch() *Batch { return &Batch{raw: r, db: r.db, of: map[string]int{}} }

// Set adds a Raw.Set to the batch. Commit returns the error of a key or value that is too long.
func (b *Batch) Set(key, value []byte) { b.add(key, batchEntry{value: b.copied.Copy(value)}) }

// SetTTL adds a Raw.SetTTL to the batch. The time to live begins at this call or, on a server, at Commit.
func (b *Batch) SetTTL(key, value []byte, d time.Duration) error {
	deadline, err := b.db.deadlineAfter(d)
	if err == nil {
		b.add(key, batchEntry{value: b.copied.Copy(value), deadline: deadline})
	}
	return err
}

// SetUntil adds a Raw.SetUntil to the batch.
func (b *Batch) SetUntil(key, value []byte, deadline time.Time) error {
	at, err := b.raw.deadlineAt(deadline)
	if err == nil {
		b.add(key, batchEntry{value: b.copied.Copy(value), deadline: at})
	}
	return err
}

// Delete adds a Raw.Delete to the batch.
func (b *Batch) Delete(key []byte) { b.add(key, batchEntry{delete: true}) }

// Len returns the number of keys that the batch changes.
func (b *Batch) Len() int { return len(b.entries) }

// Commit makes the changes. When it returns nil the batch is empty and can be filled again: one
// batch usually serves many commits. When it returns an error nothing has changed, unless the store
// refuses further writes from then on. After an error the batch still has its changes: it can be
// extended and committed again.
func (b *Batch) Commit() error {
	if err := b.raw.writable(b.raw.by); err != nil {
		return err
	}
	if b.raw.tx != nil {
		return errTxBatch
	}
	for i := range b.entries {
		e := &b.entries[i]
		if !e.delete && e.schema == 0 {
			var err error
			if e.value, e.schema, err = b.raw.fitted(e.key, e.value); err != nil {
				return err
			}
		}
	}
	if err := b.writeAll(); err != nil {
		return err
	}
	b.empty()
	return nil
}

func (b *Batch) writeAll() error {
	b.changes, b.list = slices.Grow(b.changes[:0], len(b.entries)), slices.Grow(b.list[:0], len(b.entries))
	for _, e := range b.entries {
		b.changes = append(b.changes, engine.Change{Write: engine.Write{Key: e.key, Value: e.value, Schema: e.schema, Expiry: e.deadline, Delete: e.delete}})
		b.list = append(b.list, &b.changes[len(b.changes)-1])
	}
	defer b.changed()
	if from, is := b.raw.from.(driven); is {
		return from.writeAll(b.list, b.raw.by)
	}
	return b.db.store.WriteAll(b.list, b.raw.by)
}

// changed releases the memory of a commit.
func (b *Batch) changed() {
	clear(b.changes)
	clear(b.list)
	if len(b.changes) > batchKept {
		b.changes, b.list = nil, nil
	}
}

// empty empties the batch, and keeps some of its memory for the next changes.
func (b *Batch) empty() {
	clear(b.of)
	clear(b.entries)
	b.entries = b.entries[:0]
	b.copied.Empty()
}

// add adds a change of a key, which is copied.
func (b *Batch) add(key []byte, e batchEntry) {
	if i, ok := b.of[string(key)]; ok {
		e.key = b.entries[i].key
		b.entries[i] = e
		return
	}
	e.key = b.copied.Copy(key)
	b.of[unsafe.String(unsafe.SliceData(e.key), len(e.key))] = len(b.entries) // it stays, and does not change
	b.entries = append(b.entries, e)
}
