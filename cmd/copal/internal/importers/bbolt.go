package importers

import (
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/copaldb/copal"
)

// patience is how long the lock of another process is waited for.
const patience = time.Second

// readBbolt makes of each bucket what a map of that name is: its keys get the name in front. The file is opened
// read-only, beside others who read it.
func readBbolt(s *Source, emit func(*Item) error) (err error) {
	defer recovered(&err)
	db, err := bolt.Open(s.Path, 0o600, &bolt.Options{ReadOnly: true, Timeout: patience})
	if errors.Is(err, berrors.ErrTimeout) {
		return errors.New("another process has the file open for writing")
	}
	if err != nil {
		return err
	}
	defer db.Close()
	return db.View(func(tx *bolt.Tx) error {
		if s.Nested == "" {
			if err := tx.ForEach(refuseNested); err != nil {
				return err
			}
		}
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error { return s.bucket(string(name), b, emit) })
	})
}

// refuseNested is an error for a bucket with another in it: before anything is imported, for a map of half of
// what there is is worse than none.
func refuseNested(name []byte, b *bolt.Bucket) error {
	return b.ForEachBucket(func(key []byte) error {
		return fmt.Errorf("the bucket %q is in bucket %q; with --nested / it is imported as %q", key, name, string(name)+"/"+string(key))
	})
}

func (s *Source) bucket(name string, b *bolt.Bucket, emit func(*Item) error) error {
	prefix := copal.MapPrefix(name)
	item := &Item{}
	if name != "" {
		if err := emit(&Item{Map: name}); err != nil {
			return err
		}
	}
	return b.ForEach(func(key, value []byte) error {
		if value != nil {
			item.Key, item.Value = append(append(item.Key[:0], prefix...), key...), value
			return emit(item)
		}
		return s.bucket(name+s.Nested+string(key), b.Bucket(key), emit)
	})
}

// recovered makes an error of the panic with which a library meets a damaged file.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the library that reads the file failed, so that is probably damaged: %v", p)
	}
}
