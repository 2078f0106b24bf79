package rivals

import (
	"errors"
	"os"
	"path/filepath"
)

// ErrAbsent is the error of Get for a key that the store does not have.
var ErrAbsent = errors.New("the key is absent")

// A Store keeps pairs of bytes. It is safe for concurrent use.
type Store interface {
	// Get returns a copy that is the caller's own.
	Get(key []byte) ([]byte, error)
	// Put is one transaction, as durable as the store was opened.
	Put(key, value []byte) error
	// Batch writes n pairs in as few transactions as the store allows. It keeps none of the slices.
	Batch(n int, entry func(i int) (key, value []byte)) error
	// View reads, at the moments that Tx describes.
	View(f func(tx Tx) error) error
	// Update reads and writes. The writes of a function that returns an error are not done. The
	// function is called again when a concurrent transaction has changed an entry that it has read.
	Update(f func(tx Tx) error) error
	Close() error
}

// A Tx reads and writes pairs in a transaction, for one goroutine and until the function of View or
// Update returns.
//
// Only single reads of pebble's View are of no common moment: a snapshot would cost it more than
// the read. A transaction of badger that grows over its limit is committed, and goes on in another.
type Tx interface {
	// Get lends the value, until the transaction ends or reads again.
	Get(key []byte) ([]byte, error)
	// Put keeps neither slice.
	Put(key, value []byte) error
	// Scan calls f for the pairs in [from, to), in the order of keys, up to the first error. It
	// lends both slices for the call. Update sees its own writes.
	Scan(from, to []byte, f func(key, value []byte) error) error
}

// A Nester is a Tx of a store that has stores within it.
type Nester interface {
	// Bucket returns the store of this name within the outermost, and makes it in an Update. In a
	// View, a bucket that is not there is ErrAbsent.
	Bucket(name []byte) (Tx, error)
	// Buckets calls f for the buckets whose names are in [from, to), in order.
	Buckets(from, to []byte, f func(name []byte, bucket Tx) error) error
}

// An Engine is a kind of store.
type Engine struct {
	Name   string
	Module string // the path of its module, by which its version is found
	// Open opens a store in a directory that exists. A durable store has synced the writes of Put,
	// Batch and Update when they return. Another syncs nothing, or later. Open is nil where the
	// engine is not there.
	Open func(dir string, durable bool) (Store, error)
}

// OpenIn opens a store in the directory of the engine's name below dir, which it makes.
func (e Engine) OpenIn(dir string, durable bool) (Store, error) {
	dir = filepath.Join(dir, e.Name)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	return e.Open(dir, durable)
}

// BatchSize is the number of pairs that Fill has a store take at once.
const BatchSize = 500

// Fill puts pairs before a measurement.
func Fill(s Store, n int, entry func(i int) (key, value []byte)) error {
	for from := 0; from < n; from += BatchSize {
		if err := s.Batch(min(BatchSize, n-from), func(i int) ([]byte, []byte) { return entry(from + i) }); err != nil {
			return err
		}
	}
	return nil
}
