package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keyrange"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/store"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// pastLength is the length of the windows, in milliseconds; something is written in each.
const pastLength = 60

// lived is a store and its content as of each record.
type lived struct {
	mem      *vfs.Mem
	clock    *logtest.Clock
	content  map[uint64]string // by the number of the last record of each change
	from, to uint64            // the moments that can be read
}

func (l *lived) options(o *engine.Options) {
	o.SegmentBytes, o.Window, o.Clock = 900, pastLength, l.clock
}

// live makes random changes, groups and values in parts among them. It compacts the part older than
// the window.
func live(t *testing.T, rng *rand.Rand) (l *lived, s *engine.Store) {
	l = &lived{mem: vfs.NewCrashMem(), clock: logtest.NewClock(), content: map[uint64]string{0: ""}}
	s = storetest.Open(t, l.mem, l.options)
	for i := range 3 * pastLength {
		l.clock.Advance(time.Millisecond)
		key := fmt.Sprint("key ", rng.IntN(12))
		switch rng.IntN(30) {
		case 0, 8:
			storetest.Delete(t, s, key)
		case 1:
			if err := s.DeleteRange(keyrange.Prefix([]byte("key 1")), engine.Process); err != nil {
				t.Fatal(err)
			}
		case 2:
			storetest.Set(t, s, "large", strings.Repeat(key, 180_000))
		case 3, 4, 5, 6, 7:
			l.group(t, s, rng)
		default:
			storetest.Set(t, s, key, strings.Repeat(fmt.Sprint(i, " "), 1+rng.IntN(20)))
		}
		l.to = s.Log().Last()
		l.content[l.to] = storetest.Content(t, s)
		if i == 2*pastLength {
			if err := storetest.Compact(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.from = s.Log().History().Seq
	return l, s
}

func (l *lived) group(t *testing.T, s *engine.Store, rng *rand.Rand) {
	err := s.Transact(engine.Process, func(tx *engine.Tx) error {
		for range 2 + rng.IntN(4) {
			if err := tx.Write(nil, &engine.Write{Key: fmt.Append(nil, "key ", rng.IntN(12)), Value: make([]byte, rng.IntN(500))}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// as returns the content of the store as of a record.
func (l *lived) as(seq uint64) string {
	for ; ; seq-- {
		if content, ok := l.content[seq]; ok {
			return content
		}
	}
}

// wantCut wants files that end with the moment.
func (l *lived) wantCut(t *testing.T, dir string) {
	t.Helper()
	m, err := seglog.ReadManifest(l.mem, dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range m.Segments {
		if size := len(logtest.ContentOfFile(t, l.mem, filepath.Join(dir, e.ID.FileName()))); int64(size) != e.Bytes || e.Records == 0 {
			t.Fatalf("%s: segment %s has %d bytes; the manifest says %d, and %d records", dir, e.ID, size, e.Bytes, e.Records)
		}
	}
}

// want checks a copy of a moment: it is sound, it has that moment and those before, and it is a store.
func (l *lived) want(t *testing.T, dir string, seq uint64) {
	t.Helper()
	storetest.WantSound(t, l.mem, dir)
	l.wantCut(t, dir)
	if got, want := storetest.ContentIn(t, l.mem, dir), l.as(seq); got != want {
		t.Fatalf("%s, as of %d, holds\n%s, want\n%s", dir, seq, got, want)
	}
	twin := l.mem.ProcessCrash()
	s, err := store.Open(dir, storetest.Options(twin, l.options))
	if err != nil {
		t.Fatal(err)
	}
	if last := s.Log().Last(); last != seq {
		t.Fatalf("%s, as of %d, ends with record %d", dir, seq, last)
	}
	for at := l.from; at <= seq; at += 1 + (seq-l.from)/3 {
		m, err := s.OpenMoment(seglog.AtSeq(at))
		if err != nil {
			t.Fatalf("%s, as of %d: %d: %v", dir, seq, at, err)
		}
		if got, want := storetest.Content(t, m), l.as(at); got != want {
			t.Fatalf("%s, as of %d, held at %d\n%s, want\n%s", dir, seq, at, got, want)
		}
		if err := s.CloseMoment(m); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Set(t, s, "later", "1")
	storetest.Close(t, s)
	storetest.WantSound(t, twin, dir)
}

// TestBackupOfAMoment makes backups and stores of moments of the past: of the process that writes, of a reader
// beside it, and of a store that is closed.
func TestBackupOfAMoment(t *testing.T) { logtest.BothWays(t, backupOfAMoment) }

func backupOfAMoment(t *testing.T) {
	seed := rand.Uint64()
	l, s := live(t, rand.New(rand.NewPCG(seed, 0)))
	t.Logf("seed %d: records %d to %d", seed, l.from, l.to)
	reader := storetest.Open(t, l.mem, func(o *engine.Options) { o.ReadOnly, o.Clock = true, l.clock })
	if l.from == 0 || l.from > l.to/2 {
		t.Errorf("seed %d: of %d records the window begins with %d", seed, l.to, l.from)
	}
	for seq := l.from; seq <= l.to; seq += 1 + (l.to-l.from)/8 {
		at := seglog.AtSeq(seq)
		for of, from := range map[string]*engine.Store{"written": s, "read": reader} {
			dir := fmt.Sprint(of, " ", seq)
			report, err := Make(t.Context(), from, dir, Options{At: &at})
			if err != nil || report.Seq != seq || report.Linked+report.Copied != report.Bytes {
				t.Fatalf("seed %d: %s: %+v, %v", seed, dir, report, err)
			}
			l.want(t, dir, seq)
			if _, err := Make(t.Context(), from, dir, Options{At: &at}); !errors.Is(err, fs.ErrExist) {
				t.Errorf("a moment over a backup: %v", err)
			}
			mustBackup(t, from, dir) // up to date
			l.want(t, dir, l.to)
		}
		into := fmt.Sprint("restored ", seq)
		if _, err := Restore(t.Context(), "db", into, Options{FS: l.mem, At: &at}); err != nil {
			t.Fatalf("seed %d: restoring %d: %v", seed, seq, err)
		}
		l.want(t, into, seq)
	}
	storetest.Close(t, reader)
	storetest.Close(t, s)
	at := seglog.AtSeq((l.from + l.to) / 2)
	if _, err := Restore(t.Context(), "db", "closed", Options{FS: l.mem, At: &at}); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	l.want(t, "closed", at.Seq)
}

// A moment that the window does not have makes no backup.
func TestBackupOfAMomentThatIsGone(t *testing.T) {
	l, s := live(t, rand.New(rand.NewPCG(1, 2)))
	defer storetest.Close(t, s)
	for _, seq := range []uint64{l.from - 1, l.to + 1} {
		at := seglog.AtSeq(seq)
		_, made := Make(t.Context(), s, "copy", Options{At: &at})
		_, restored := Restore(t.Context(), "db", "store", Options{FS: l.mem, At: &at})
		for _, err := range []error{made, restored} {
			if err == nil || errors.Is(err, seglog.ErrHistoryLost) != (seq < l.from) {
				t.Errorf("a copy as of %d, of %d to %d: %v", seq, l.from, l.to, err)
			}
		}
		if names, err := l.mem.List("store"); err == nil && len(names) > 1 {
			t.Errorf("there is %v", names)
		}
	}
}
