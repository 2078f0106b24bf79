//go:build !image

package importers

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/copaldb/copal/internal/files"
)

// readBadger reads the newest version of each key, with its deadline. The directory is opened read-only, so it
// must have been closed.
func readBadger(s *Source, emit func(*Item) error) (err error) {
	defer recovered(&err)
	dir, err := files.Path(s.Path) // the library drops what stands before ".."
	if err != nil {
		return err
	}
	db, err := badger.Open(badger.DefaultOptions(dir).WithReadOnly(true).WithLogger(nil))
	switch {
	case err == nil:
	case strings.Contains(err.Error(), badger.ErrTruncateNeeded.Error()): // the library does not always wrap it
		return errors.New("a crash has left it, or somebody has it open: open it once with the program that wrote it, which cuts off what " +
			"was not finished, close it, and import it then")
	default:
		return fmt.Errorf("%w; a badger directory must be closed by the program that writes it, and not be encrypted", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	marked := 0
	err = db.View(func(tx *badger.Txn) error {
		it := tx.NewIterator(badger.DefaultIteratorOptions)
		defer it.Close()
		item := &Item{}
		for it.Rewind(); it.Valid(); it.Next() {
			from := it.Item()
			item.Key, item.Expires = from.KeyCopy(item.Key), time.Time{}
			if at := from.ExpiresAt(); at != 0 {
				item.Expires = time.Unix(int64(at), 0)
			}
			if from.UserMeta() != 0 {
				marked++
			}
			err := from.Value(func(value []byte) error {
				item.Value = value
				return emit(item)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if marked > 0 {
		s.Note(fmt.Sprintf("%d entries have a user meta byte, which was left out", marked))
	}
	return err
}
