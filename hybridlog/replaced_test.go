package hybridlog

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/tail"
	"github.com/copaldb/copal/internal/vfs"
)

// Each file of a log is removed, emptied, or replaced: by an older version of itself, by another log's, by one of
// a newer version of the format; alone, and in pairs. Then the log opens with everything, or Open or a read says
// which file is wrong, and why. It never has less, nothing new begins over old files, and a log that does not open
// is not changed.
//
// An older version is from before the last sync. Bytes that were written since, and are in only one
// file, are not missed when an older version of that very file is written over it in place.

// logFiles are the files of a log at one moment.
type logFiles map[string][]byte

// written is a log with several processes' segments, and the earlier versions of its files.
type written struct {
	t      *testing.T
	conf   func(*options)
	mem    *vfs.Mem
	log    *Log
	want   [][]byte
	synced int // so many of them
	older  []logFiles
}

func newWritten(t *testing.T, salt uint64, change func(*options)) *written {
	w := &written{t: t, mem: vfs.NewMem()}
	w.conf = func(o *options) {
		o.segmentBytes = 3000
		o.random = func() uint64 { salt++; return salt * 0x9e3779b97f4a7c15 }
		change(o)
	}
	w.log = mustOpen(t, w.mem, w.conf)
	return w
}

func (w *written) put(sizes ...int) {
	w.t.Helper()
	for _, n := range sizes {
		w.want = append(w.want, text(len(w.want)+int(w.log.opts.random()%7), n))
		mustAppend(w.t, w.log, w.want[len(w.want)-1])
		if w.log.opts.policy == AlwaysSync {
			w.synced = len(w.want)
		}
	}
}

func (w *written) sync() {
	w.t.Helper()
	if err := w.log.Sync(); err != nil {
		w.t.Fatal(err)
	}
	w.synced = len(w.want)
}

func (w *written) close() {
	w.t.Helper()
	mustClose(w.t, w.log)
	w.synced = len(w.want)
}

func (w *written) moment() { w.older = append(w.older, filesOf(w.t, w.mem)) }

// die kills the process. Where there is no ring, only their own frames prove the entries since the
// last sync.
func (w *written) die() {
	if w.log.tails.Ring == nil {
		w.sync()
	}
	w.mem = w.mem.ProcessCrash()
}

func (w *written) again() { w.log = mustOpen(w.t, w.mem, w.conf) }

// long is the life of a log under several processes, with sealed segments and open ones; the last process still
// writes.
func (w *written) long() {
	w.put(5, 900)
	w.moment()
	w.put(1500, 700, 2100, 30)
	w.sync()
	w.moment()
	w.put(40, 2000, 300)
	w.close()
	w.moment()

	w.again()
	w.put(50)
	w.moment()
	w.put(2700, 900)
	w.moment()
	w.die()

	w.again()
	w.put(80)
	w.moment()
	w.put(1000, 60)
	w.sync()
	w.close()
	w.moment()

	w.again()
	w.put(70, 100)
	w.moment()
	w.put(2500, 200, 300, 1900)
	w.moment()
	w.put(600, 20)
	w.sync()
	w.put(90, 11)
}

// lives are the histories of a log before its files are replaced.
var lives = map[string]func(w *written){
	"closed": func(w *written) { w.long(); w.close() },
	"killed": func(w *written) { w.long(); w.die() },
	"killed while it was new": func(w *written) {
		w.put(30, 40)
		w.die()
	},
	"killed when it had begun again": func(w *written) {
		w.put(900)
		w.close()
		w.moment()
		w.again()
		w.put(30, 40)
		w.die()
	},
	"killed twice": func(w *written) {
		w.put(30, 40)
		w.moment()
		w.die()
		w.again()
		w.put(50)
		w.moment()
		w.put(60)
		w.die()
	},
	"closed when it had begun again": func(w *written) {
		w.put(900)
		w.close()
		w.moment()
		w.again()
		w.put(30, 40)
		w.close()
	},
}

// replacement is something that happens to a file.
type replacement struct {
	what string
	file string
	with []byte // nil: it is removed
}

// replacements are all that can happen to the files of a log.
func replacements(texts logFiles, older []logFiles, other logFiles) (list []replacement) {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		list = append(list, replacement{"removed", name, nil}, replacement{"emptied", name, []byte{}})
		for i, then := range older {
			if old, there := then[name]; there && string(old) != string(texts[name]) && (i == 0 || string(old) != string(older[i-1][name])) {
				list = append(list, replacement{fmt.Sprint("as at moment ", i), name, old})
			}
		}
		if with, there := other[name]; there {
			list = append(list, replacement{"that of another log", name, with})
		}
		if with := newer(name, texts[name]); with != nil {
			list = append(list, replacement{newerVersion, name, with})
		}
	}
	return list
}

const newerVersion = "that of a newer version"

// newer is a file of that name in a newer version of the format, or nil where nothing in it has a version.
func newer(name string, now []byte) []byte {
	what, line := "", 0
	switch {
	case name == manifestName:
		return record.Seal([]byte("copal hybridlog 2 and something new"))
	case name == markName:
		what, line = "hybridmark", files.SlotBytes
	case name == ringName:
		what, line = "hybridring", tail.RingLine
	case strings.HasSuffix(name, ".sum"):
		what, line = "hybridsums", lineBytes
	default:
		return nil
	}
	return append(record.SealPadded("copal "+what+" 2 and something new", line), now[line:]...)
}

func (r replacement) do(t *testing.T, mem *vfs.Mem) {
	t.Helper()
	if err := mem.Remove("log/" + r.file); err != nil {
		t.Fatal(err)
	}
	if r.with == nil {
		return
	}
	f, err := mem.Open("log/"+r.file, vfs.Create)
	if err == nil {
		_, err = f.WriteAt(r.with, 0)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (r replacement) String() string { return r.file + " " + r.what }

// TestFilesReplaced replaces each file, and pairs of files: half of the pairs, without COPAL_LONG.
func TestFilesReplaced(t *testing.T) {
	for life, live := range lives {
		bothWays(t, func(t *testing.T, change func(*options)) {
			w, foreign := newWritten(t, 1, change), newWritten(t, 1001, change)
			live(w)
			live(foreign)
			list := replacements(filesOf(t, w.mem), w.older, filesOf(t, foreign.mem))
			list = append(list, replacement{"removed", lockName, nil}, replacement{"emptied", lockName, []byte{}}, replacement{"that of another process", lockName, []byte("1\n")})
			opened, refused, rng := 0, 0, rand.New(rand.NewPCG(1, 2))
			try := func(all ...replacement) {
				dead := w.mem.ProcessCrash()
				for _, r := range all {
					r.do(t, dead)
				}
				before := filesOf(t, dead)
				whole, err := everything(dead, w.want, change)
				switch {
				case err != nil && !accounts(err, all):
					t.Errorf("%s, %v: %v", life, all, err)
				case len(all) == 1 && all[0].what == newerVersion && !errors.Is(err, ErrVersion):
					t.Errorf("%s, %v: %v", life, all, err)
				case !whole && err == nil && !w.unfinished(all):
					t.Errorf("%s, %v: it opens with something else", life, all)
				case whole:
					opened++
				default:
					if refused++; !maps.EqualFunc(filesOf(t, dead), before, bytes.Equal) {
						t.Errorf("%s, %v: it is refused, and changed", life, all)
					}
				}
			}
			for i, r := range list {
				try(r)
				for _, other := range list[:i] {
					if other.file != r.file && (longTest() || rng.IntN(2) == 0) {
						try(other, r)
					}
				}
			}
			t.Logf("%s: of %d replacements %d open, %d are refused", life, opened+refused, opened, refused)
		})
	}
}

// TestFilesReplacedBeforeAReboot is the same for one file, when the page cache has gone since: the
// synced entries are there, or there is an error.
func TestFilesReplacedBeforeAReboot(t *testing.T) {
	for life, live := range lives {
		for _, policy := range []SyncPolicy{NoSync, AlwaysSync} {
			bothWays(t, func(t *testing.T, change func(*options)) {
				conf := func(o *options) { change(o); o.policy = policy }
				w, foreign := newWritten(t, 1, conf), newWritten(t, 1001, conf)
				live(w)
				live(foreign)
				for _, r := range replacements(filesOf(t, w.mem), w.older, filesOf(t, foreign.mem)) {
					dead := w.mem.ProcessCrash()
					dead.SetCacheID("after-a-reboot")
					r.do(t, dead)
					l, err := open("log", testOptions(dead, conf, accepted))
					if err == nil {
						n, end := 0, int64(0)
						for n < len(w.want) && end < l.Size() {
							end += int64(len(w.want[n]))
							n++
						}
						if err = problem(l, w.want[:n], 0); err == nil && n < w.synced {
							err = fmt.Errorf("%d entries of %d, and %d were synced", n, len(w.want), w.synced)
						}
					}
					if err != nil && !accounts(err, []replacement{r}) {
						t.Errorf("%s, policy %d, %v: %v", life, policy, r, err)
					}
				}
			})
		}
	}
}

// everything opens a log, reads all of it, writes to it, and reads that again in the next process. whole says
// that all was there; without an error less was.
func everything(mem *vfs.Mem, want [][]byte, change func(*options)) (whole bool, err error) {
	l, err := open("log", testOptions(mem, change, accepted))
	if err != nil {
		return false, err
	}
	if err := problem(l, want, 0); err != nil {
		if errors.Is(err, ErrCorrupt) || errors.Is(err, ErrVersion) {
			return false, err
		}
		return false, nil
	}
	p := text(999, 70)
	if _, err := l.Append(p); err != nil {
		return false, err
	}
	if err := l.Close(); err != nil {
		return false, err
	}
	if l, err = open("log", testOptions(mem, change)); err != nil {
		return false, err
	}
	if err := problem(l, append(want[:len(want):len(want)], p), 0); err != nil {
		return false, nil
	}
	return true, l.Close()
}

// unfinished reports whether an append that was not finished leaves the same. Where there is no
// ring, only the newest frames and the mark show the end of the log; bytes after both may be those
// of one more entry, whose frames were not written yet.
func (w *written) unfinished(all []replacement) bool {
	segments := w.log.set.Load().segments
	return w.log.tails.Ring == nil && len(all) == 2 && all[0].file == sumsName(segments[len(segments)-1].id) && all[1].file == markName
}

// accounts reports whether an error of opening or reading a log names a file that is wrong, or the other one of
// its segment, and says why.
func accounts(err error, all []replacement) bool {
	return slices.ContainsFunc(all, func(r replacement) bool {
		stem, _, _ := strings.Cut(r.file, ".")
		if errors.Is(err, ErrVersion) {
			return r.what == newerVersion && strings.Contains(err.Error(), r.file)
		}
		return errors.Is(err, ErrCorrupt) && strings.Contains(err.Error(), stem)
	})
}

// TestRingOfAnEarlierProcess: it is distinguished from the one that the manifest names, also after
// a reboot.
func TestRingOfAnEarlierProcess(t *testing.T) {
	w := newWritten(t, 1, func(*options) {})
	lives["killed twice"](w)
	if w.older[0][ringName] == nil {
		t.Skip("skipped: nothing is mapped here, so there is no ring")
	}
	w.mem.SetCacheID("after-a-reboot")
	replacement{"older", ringName, w.older[0][ringName]}.do(t, w.mem)
	var c *CorruptError
	if _, err := open("log", testOptions(w.mem)); !errors.As(err, &c) || c.File != "log/"+ringName || !strings.Contains(c.Reason, "older") {
		t.Errorf("Open: %v", err)
	}
}

// TestMarkOfAnotherLog: it shows that files of two logs are in one directory.
func TestMarkOfAnotherLog(t *testing.T) {
	w, foreign := newWritten(t, 1, func(*options) {}), newWritten(t, 1001, func(*options) {})
	lives["closed"](w)
	lives["closed"](foreign)
	replacement{"that of another log", markName, filesOf(t, foreign.mem)[markName]}.do(t, w.mem)
	var c *CorruptError
	if _, err := open("log", testOptions(w.mem)); !errors.As(err, &c) || c.File != "log/"+markName {
		t.Errorf("Open: %v", err)
	}
}
