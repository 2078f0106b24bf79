//go:build !image

package importers

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/ndjson"
	"github.com/copaldb/copal/internal/vfs"
)

// The library meets damage in four ways: by a panic in a goroutine of its own, which ends the
// process; by a line in its log, after which it leaves out the table or the value; by removing the
// tables that a damaged MANIFEST does not name, though it reads only; and by an error. So a child
// reads the directory (badgerchild.go), looks through it before the library does, verifies the
// checksums, and takes a line of the log for an error.

var errCrashed = errors.New("a crash has left it, or somebody has it open: open it once with the program that wrote it, which cuts off " +
	"unfinished writes, close it, and import it then")

// writeBadger writes the newest version of each key, with its deadline, as lines of an export, and
// returns the number of those with a user meta byte. The directory is opened read-only, so it must
// have been closed.
func writeBadger(out io.Writer, name string) (marked int, err error) {
	defer recovered(&err)
	dir, err := files.Path(name) // the library drops the name before ".."
	if err != nil {
		return 0, err
	}
	if err := checkBadger(dir); err != nil {
		return 0, err
	}
	log := &badgerLog{}
	db, err := badger.Open(badger.DefaultOptions(dir).WithReadOnly(true).WithLogger(log).
		WithChecksumVerificationMode(options.OnTableAndBlockRead).WithVerifyValueChecksum(true))
	switch {
	case err == nil:
	case strings.Contains(err.Error(), badger.ErrTruncateNeeded.Error()): // the library does not always wrap it
		return 0, errCrashed
	default:
		return 0, fmt.Errorf("%w; a badger directory must be closed by the program that writes it, and not be encrypted", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := log.err(); err != nil {
		return 0, err
	}
	buffered := bufio.NewWriterSize(out, 64<<10)
	lines, err := ndjson.NewWriter(buffered, ndjson.Head{Time: time.Now()})
	if err != nil {
		return 0, err
	}
	err = db.View(func(tx *badger.Txn) error {
		it := tx.NewIterator(badger.IteratorOptions{}) // which reads no values before they are asked for
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			from := it.Item()
			entry := admin.Entry{Key: from.Key()}
			if at := from.ExpiresAt(); at != 0 {
				entry.Expires = time.Unix(int64(at), 0)
			}
			if from.UserMeta() != 0 {
				marked++
			}
			err := from.Value(func(value []byte) error {
				if log.err() != nil { // then there is no value here
					return fmt.Errorf("it is damaged: the value of key %.100q cannot be read", entry.Key)
				}
				entry.Value = value
				return lines.Entry(&entry)
			})
			if err != nil {
				return err
			}
		}
		if err := log.err(); err != nil {
			return err
		}
		return lines.End()
	})
	return marked, errors.Join(err, buffered.Flush())
}

// badgerFiles are the names of files, or the ends of names.
var badgerFiles = []string{badger.ManifestFilename, badger.KeyRegistryFileName, "DISCARD", "LOCK", ".sst", ".vlog", ".mem"}

// checkBadger finds a reason for the library to wait, to follow a link, to leave out a table, or to
// remove one.
func checkBadger(dir string) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if e.IsDir() && !slices.Contains(badgerFiles, cmp.Or(filepath.Ext(e.Name()), e.Name())) {
			continue
		}
		f, err := vfs.OpenRegular(filepath.Join(dir, e.Name()), os.O_RDONLY, 0)
		if err != nil {
			return err
		}
		f.Close()
		if filepath.Ext(e.Name()) == ".mem" { // entries that are not yet in a table
			return errCrashed
		}
	}
	manifest, err := readManifest(filepath.Join(dir, badger.ManifestFilename))
	if err != nil {
		return err
	}
	for _, e := range list {
		number, isTable := strings.CutSuffix(e.Name(), ".sst")
		id, err := strconv.ParseUint(number, 10, 64)
		if _, named := manifest.Tables[id]; isTable && err == nil && !named {
			return fmt.Errorf("its MANIFEST does not name the table %s: one of them is of another time, or damaged", e.Name())
		}
	}
	return nil
}

// readManifest reads which tables there are.
func readManifest(path string) (m badger.Manifest, err error) {
	f, err := vfs.OpenRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return m, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return m, err
	}
	m, whole, err := badger.ReplayManifestFile(f, 0, badger.DefaultOptions("").WithLogger(nil))
	switch {
	case err != nil:
		return m, fmt.Errorf("its MANIFEST is damaged: %w", err)
	case whole < info.Size():
		return m, fmt.Errorf("its MANIFEST is cut: %w", errCrashed)
	}
	for id, table := range m.Tables {
		if int(table.Level) >= badger.DefaultOptions("").MaxLevels {
			return m, fmt.Errorf("its MANIFEST is damaged: table %d is on level %d", id, table.Level)
		}
	}
	return m, nil
}

// badgerLog keeps the first error that the library logs, and may not return.
type badgerLog struct {
	mu    sync.Mutex // guards first
	first error
}

func (l *badgerLog) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first
}

// Errorf is called by several goroutines.
func (l *badgerLog) Errorf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == nil {
		l.first = fmt.Errorf("it is damaged: %s", strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}

// Warningf does nothing.
func (*badgerLog) Warningf(string, ...any) {}

// Infof does nothing.
func (*badgerLog) Infof(string, ...any) {}

// Debugf does nothing.
func (*badgerLog) Debugf(string, ...any) {}
