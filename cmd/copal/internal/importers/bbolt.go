package importers

import (
	"errors"
	"fmt"
	"os"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/vfs"
)

// patience is the time to wait for the lock of another process.
const patience = time.Second

// readBbolt turns each bucket into a map: its keys get the bucket's name in front. The file is
// opened read-only, beside others that read it.
func readBbolt(s *Source, emit func(*Item) error) (err error) {
	defer recovered(&err)
	defer vfs.Caught(vfs.Catch(), nil, &err) // of a file that is cut meanwhile
	db, err := bolt.Open(s.Path, 0o600, &bolt.Options{ReadOnly: true, Timeout: patience})
	if errors.Is(err, berrors.ErrTimeout) {
		return errors.New("another process has the file open for writing")
	}
	if err != nil {
		return err
	}
	defer db.Close()
	f, err := os.Open(s.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return db.View(func(tx *bolt.Tx) error {
		p := pages{file: f, size: info.Size(), page: int64(db.Info().PageSize), seen: map[uint64]bool{}}
		if err := p.check(uint64(tx.Cursor().Bucket().RootPage()), 0); err != nil {
			return err
		}
		if s.Nested == "" {
			if err := tx.ForEach(refuseNested); err != nil {
				return err
			}
		}
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error { return s.bucket(string(name), b, emit) })
	})
}

// refuseNested returns an error for a bucket with another in it, before anything is imported: half
// of a map is worse than none.
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
