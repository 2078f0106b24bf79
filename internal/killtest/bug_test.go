package killtest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// bug is something wrong that is done on purpose, to see that it is found.
type bug string

const (
	none       bug = ""
	ackEarly   bug = "acknowledges before it writes"
	skipSome   bug = "acknowledges some writes and forgets them"
	mixUp      bug = "stores some other value than the one given"
	reviveSome bug = "lets some deleted entries come back"
	staleAsync bug = "an asynchronous write lands after a newer one"
	noFlush    bug = "a sync does nothing"
	halfSteps  bug = "a group is written as two"
	cutLog     bug = "the log loses its last bytes when the process dies"
	flipBit    bug = "the log gets a wrong bit when the process dies"
	emptyStore bug = "the log is gone when the process dies"
	lostRing   bug = "the ring was not drained, and is gone when the process dies"
	otherRing  bug = "the ring was used again before it was drained"
)

func (b bug) ofTheRing() bool { return b == lostRing || b == otherRing }

// ofTheLog reports whether the bug is in the files that the process leaves, not in its behaviour.
// Such a bug may also show when the store is opened or checked.
func (b bug) ofTheLog() bool { return slices.Contains(logBugs, b) }

var (
	logBugs = []bug{cutLog, flipBit, emptyStore, lostRing, otherRing}
	allBugs = append([]bug{ackEarly, skipSome, mixUp, reviveSome, staleAsync, noFlush}, logBugs...)

	shapeBugs = append([]bug{ackEarly, skipSome, mixUp, halfSteps}, logBugs...) // that are of shapes, too
)

// afterDeath applies the bug to the store in dir when the child is dead.
func (b bug) afterDeath(dir string, rng *rand.Rand) error {
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(logs) == 0 {
		return err
	}
	ring := filepath.Join(dir, "RING")
	newest := logs[len(logs)-1]
	info, err := os.Stat(newest)
	if err != nil {
		return err
	}
	switch b {
	case cutLog:
		return os.Truncate(newest, max(0, info.Size()-1-rng.Int64N(200)))
	case flipBit:
		if info.Size() == 0 { // it died when it had just made the file
			return nil
		}
		return flip(newest, rng.Int64N(info.Size()))
	case emptyStore:
		return os.RemoveAll(dir)
	case lostRing:
		return ignore(fs.ErrNotExist, os.Remove(ring))
	case otherRing:
		return ignore(fs.ErrNotExist, overwrite(ring))
	}
	return nil
}

func ignore(what, err error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}

// overwrite puts other bytes in the place of a ring's records.
func overwrite(ring string) error {
	f, err := os.OpenFile(ring, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	const head = 4096
	_, err = f.WriteAt(bytes.Repeat([]byte("x"), int(info.Size()-head)), head)
	return err
}

func flip(file string, at int64) error {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		return fmt.Errorf("flip a bit at %d: %w", at, err)
	}
	b[0] ^= 4
	_, err = f.WriteAt(b, at)
	return err
}
