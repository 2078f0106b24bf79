package copal

import (
	"time"
	"unsafe"

	"github.com/copaldb/copal/internal/engine"
)

// Batch is a list of changes of raw entries that are written together: all or none of them, in
// memory, in the log and after a crash, however many there are. Of several changes of one key the
// last counts. The log takes them in one piece, and one sync serves all.
//
// Only one goroutine at a time may use a Batch. It copies what it is given, and holds everything in
// memory until Commit. A batch that is not committed changes nothing, and needs no Close.
type Batch struct {
	raw     *Raw
	db      *DB
	changes []engine.Change
	of      map[string]int // by key: its place in changes
	list    []*engine.Change

	bytes  []byte // room for keys and values, which stay where they are
	copied int    // bytes taken since the batch was empty, in this room and in earlier ones
}

// batchRoom is how much room a batch takes at a time.
const batchRoom = 64 << 10

// batchKept is how much memory for keys and values an empty batch keeps at most.
const batchKept = 1 << 20

// Batch returns an empty batch, which is as durable as the writes of the handle. A transaction is a
// batch already: Commit of a batch made in one is an error.
func (r *Raw) Batch() *Batch { return &Batch{raw: r, db: r.db, of: map[string]int{}} }

// Set adds what Raw.Set does. Commit returns the error of a key or value that is too long.
func (b *Batch) Set(key, value []byte) { b.add(engine.Write{Key: b.copy(key), Value: b.copy(value)}) }

// SetTTL adds what Raw.SetTTL does. The time to live begins at this call.
func (b *Batch) SetTTL(key, value []byte, d time.Duration) error {
	deadline, err := b.db.store.Deadline(d)
	if err == nil {
		b.add(engine.Write{Key: b.copy(key), Value: b.copy(value), Expiry: deadline})
	}
	return err
}

// SetUntil adds what Raw.SetUntil does.
func (b *Batch) SetUntil(key, value []byte, deadline time.Time) error {
	at, err := b.db.store.DeadlineAt(deadline)
	if err == nil {
		b.add(engine.Write{Key: b.copy(key), Value: b.copy(value), Expiry: at})
	}
	return err
}

// Delete adds what Raw.Delete does.
func (b *Batch) Delete(key []byte) { b.add(engine.Write{Key: b.copy(key), Delete: true}) }

// Len is the number of keys that the batch changes.
func (b *Batch) Len() int { return len(b.changes) }

// Commit makes the changes. When it returns nil the batch is empty and can be filled again: it is
// usual to have one batch for many commits. When it returns an error nothing has changed, unless the
// store refuses further writes after it. The batch is as it was then: it can be committed again and
// added to.
func (b *Batch) Commit() error {
	if err := b.raw.writable(b.raw.by); err != nil {
		return err
	}
	if b.raw.tx != nil {
		return errTxBatch
	}
	b.list = b.list[:0]
	for i := range b.changes {
		c := &b.changes[i]
		if !c.Delete && c.Schema == 0 {
			var err error
			if c.Value, c.Schema, err = b.raw.fitted(c.Key, c.Value); err != nil {
				return err
			}
		}
		b.list = append(b.list, c)
	}
	if err := b.writeAll(); err != nil {
		return err
	}
	b.empty()
	return nil
}

func (b *Batch) writeAll() error {
	if from, is := b.raw.from.(driven); is {
		return from.writeAll(b.list, b.raw.by)
	}
	return b.db.store.WriteAll(b.list, b.raw.by)
}

// empty empties the batch, and keeps some of its memory for the next changes.
func (b *Batch) empty() {
	clear(b.of)
	clear(b.list)
	clear(b.changes)
	b.changes, b.list, b.bytes = b.changes[:0], b.list[:0], b.bytes[:0]
	if b.copied > cap(b.bytes) && b.copied <= batchKept {
		b.bytes = make([]byte, 0, b.copied) // the next batch will be about as large
	}
	b.copied = 0
}

func (b *Batch) add(w engine.Write) {
	own := unsafe.String(unsafe.SliceData(w.Key), len(w.Key)) // it stays, and does not change
	if i, ok := b.of[own]; ok {
		b.changes[i] = engine.Change{Write: w}
		return
	}
	b.of[own] = len(b.changes)
	b.changes = append(b.changes, engine.Change{Write: w})
}

// copy puts p where it stays until the batch is empty.
func (b *Batch) copy(p []byte) []byte {
	b.copied += len(p)
	if len(p) > cap(b.bytes)-len(b.bytes) {
		if len(p) >= batchRoom/4 {
			return append([]byte{}, p...)
		}
		b.bytes = make([]byte, 0, min(max(4*b.copied, 512), batchRoom))
	}
	start := len(b.bytes)
	b.bytes = append(b.bytes, p...)
	return b.bytes[start:len(b.bytes):len(b.bytes)]
}
