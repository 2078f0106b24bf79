package hybridlog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/crashtest"
	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/vfs"
)

// A history is a random sequence of events of one log: writes, syncs, trimmings and compactions,
// operations that fail, full disks, kills within any of them, write-backs that fail without a word,
// and power cuts. After each, the log holds all acknowledged entries, or after a power cut all that
// were reported durable.
type history struct {
	t      *testing.T
	rng    *rand.Rand
	change func(*options)
	policy SyncPolicy

	mem     *vfs.Mem
	loses   bool // write-backs may fail, and disks be full
	log     *Log
	entries [][]byte  // those acknowledged, and perhaps one more, of which nothing is known
	acked   int       // how many of them are acknowledged
	durable int       // and how many durable
	first   []Address // where the log may begin; the newest that is certain comes first
	steps   []string
}

func (h *history) options(fsys vfs.FS) *options {
	return testOptions(fsys, h.change, func(o *options) { o.policy, o.random = h.policy, h.rng.Uint64 })
}

func (h *history) fatalf(format string, args ...any) {
	h.t.Helper()
	h.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(h.steps, "\n"))
}

func (h *history) note(format string, args ...any) {
	h.steps = append(h.steps, fmt.Sprintf(format, args...))
}

// size is the size of the first n entries.
func (h *history) size(n int) (size int64) {
	for _, p := range h.entries[:n] {
		size += int64(len(p))
	}
	return size
}

// check sees to it that a log holds some of the entries, least of them at least, and returns how many.
func (h *history) check(l *Log, least int, what string) int {
	h.t.Helper()
	for n := len(h.entries); n >= least; n-- {
		if h.size(n) != l.Size() {
			continue
		}
		known := false
		for _, a := range h.first {
			known = known || a == l.First()
		}
		if !known {
			h.fatalf("%s: it begins at %d, and may at %v", what, l.First(), h.first)
		}
		if err := problem(l, h.entries[:n], l.First()); err != nil && !errors.Is(err, vfs.ErrInjected) {
			h.fatalf("%s: %v", what, err)
		}
		return n
	}
	h.fatalf("%s: it has %d bytes; %d were acknowledged, and %d durable", what, l.Size(), h.size(h.acked), h.size(h.durable))
	return 0
}

// disk is the disk with some faults.
func (h *history) disk() vfs.FS {
	copied := func(name string) bool {
		return strings.HasSuffix(name, files.TempSuffix) && !strings.Contains(name, manifestName)
	}
	var faults []*vfs.Fault
	switch n := h.rng.IntN(6); {
	case n < 2:
	case n == 2 || !h.loses:
		faults = append(faults, &vfs.Fault{Kinds: vfs.Mutating, N: 1 + h.rng.IntN(60), Forever: h.rng.IntN(3) == 0 && h.loses})
	case n == 3:
		faults = append(faults, &vfs.Fault{Kinds: vfs.OpCreate, N: 1 + h.rng.IntN(4), Forever: h.rng.IntN(2) == 0, Err: vfs.ErrNoSpace, Match: copied})
	case n == 4:
		faults = append(faults, &vfs.Fault{Kinds: vfs.Mutating &^ (vfs.OpSync | vfs.OpSyncDir), N: 1 + h.rng.IntN(60), Forever: h.rng.IntN(3) == 0, Err: vfs.ErrNoSpace})
	default:
		faults = append(faults, &vfs.Fault{Kinds: vfs.OpSync | vfs.OpSyncDir | vfs.OpRename, N: 1 + h.rng.IntN(12)}, &vfs.Fault{Kinds: vfs.OpCreate, N: 1 + h.rng.IntN(6), Err: vfs.ErrNoSpace})
	}
	for _, f := range faults {
		h.note("  a fault of operations %x, the %d-th, for ever %v, %v", uint(f.Kinds), f.N, f.Forever, f.Err)
	}
	return vfs.Inject(h.mem, faults...)
}

func (h *history) open() {
	for try := 0; ; try++ {
		var fsys vfs.FS = h.mem
		if try < 2 {
			fsys = h.disk()
		}
		l, err := open("log", h.options(fsys))
		if err == nil {
			h.log = l
			break
		}
		if !errors.Is(err, vfs.ErrInjected) && !vfs.IsNoSpace(err) {
			h.fatalf("Open: %v", err)
		}
	}
	n := h.check(h.log, h.acked, "opened")
	h.entries, h.acked = h.entries[:n], n
	h.begins(h.log.First())
	h.told()
}

// begins notes where the log begins for certain.
func (h *history) begins(a Address) { h.first = append([]Address{a}, h.first...) }

// told believes the log which entries are durable.
func (h *history) told() {
	for h.durable < h.acked && h.size(h.durable+1) <= int64(h.log.Stats().Durable) {
		h.durable++
	}
}

// powerCuts tries the states that a power cut may leave, and returns one of them.
func (h *history) powerCuts(n int) (one *vfs.Mem) {
	seen := 0
	for image := range h.mem.PowerCuts(n, h.rng) {
		if h.mem.CacheID("log") == "" {
			image.SetCacheID("")
		}
		if seen++; h.rng.IntN(seen) == 0 {
			one = image.ProcessCrash()
		}
		l, err := open("log", h.options(image))
		if err != nil {
			h.fatalf("a power cut: Open: %v", err)
		}
		h.check(l, h.durable, "a power cut")
		l.Close()
	}
	return one
}

func (h *history) run(steps int) {
	h.open()
	for range steps {
		var killed *vfs.Mem
		mem, acked, durable := h.mem, h.acked, h.durable
		if h.rng.IntN(4) == 0 {
			n := h.rng.IntN(30)
			mem.OnBoundary(func(vfs.Op, vfs.Phase) {
				if n--; n == 0 {
					killed = mem.ProcessCrash()
				}
			})
		}
		h.step()
		mem.OnBoundary(nil)
		if killed != nil {
			h.note("  and was killed within")
			h.mem, h.log, h.acked, h.durable = killed, nil, min(acked, h.acked), min(durable, h.durable)
			h.writeBack()
		}
		if h.log == nil {
			h.open()
		}
		if h.rng.IntN(3) == 0 {
			h.powerCuts(8)
		}
	}
}

// writeBack writes back the pages that a process has left, which may fail.
func (h *history) writeBack() {
	if h.loses && h.rng.IntN(3) == 0 {
		h.note("  a write-back fails")
		crashtest.LoseUnsynced(h.mem, "log")
	}
}

func (h *history) kill() {
	h.note("killed")
	h.mem, h.log = h.mem.ProcessCrash(), nil
	h.writeBack()
}

func (h *history) step() {
	switch n := h.rng.IntN(20); {
	case n < 9:
		h.append()
	case n < 13:
		err := h.log.Sync()
		h.note("sync: %v", err)
		if err == nil {
			h.durable = h.acked
		}
	case n < 14:
		h.trim()
	case n < 15:
		h.note("compact: %v", h.log.Compact())
	case n < 16 && h.log.tail != nil:
		h.note("seal: %v", h.log.sealBehind())
	case n < 18:
		wrote, failed := h.log.tail != nil, h.log.tails.Failure() != nil
		err := h.log.Close()
		h.note("close: %v", err)
		if err == nil && wrote && !failed {
			h.durable = h.acked
		}
		h.log = nil
		return
	case n < 19:
		h.kill()
		return
	default:
		h.powerCut()
		return
	}
	if h.log == nil {
		return
	}
	if h.log.tails.Failure() != nil && h.rng.IntN(2) == 0 {
		h.kill()
		return
	}
	h.told()
}

func (h *history) append() {
	sizes := []int{1, 20, 200, 600, 1000, 5000, 9000}
	p := text(len(h.steps), 1+h.rng.IntN(sizes[h.rng.IntN(len(sizes))]))
	h.entries = h.entries[:h.acked]
	before := h.log.Size()
	if before != h.size(h.acked) {
		h.fatalf("it has %d bytes, and %d were acknowledged", before, h.size(h.acked))
	}
	_, err := h.log.Append(p)
	h.note("append %d: %v", len(p), err)
	if err != nil && h.log.tails.Failure() == nil && h.log.Size() == before {
		if !errors.Is(err, ErrNoSpace) && !errors.Is(err, vfs.ErrInjected) {
			h.fatalf("a write is refused: %v", err)
		}
		if errors.Is(err, ErrNoSpace) {
			return // nothing has changed
		}
	}
	h.entries = append(h.entries[:h.acked:h.acked], p)
	switch {
	case err == nil:
		h.acked++
		if h.policy == AlwaysSync {
			h.durable = h.acked
		}
	case h.log.Size() > before:
		h.acked++ // it can be read
		h.kill()
	default:
		h.kill()
	}
}

func (h *history) trim() {
	at := Address(h.log.Size() * int64(h.rng.IntN(1001)) / 1000)
	n := 0
	for n < h.acked && h.size(n+1) <= int64(at) {
		n++
	}
	err := h.log.Trim(at)
	h.note("trim %d: %v", at, err)
	h.first = append(h.first, max(Address(h.size(n)), h.first[0]))
	if err == nil {
		h.begins(h.log.First())
		h.durable = max(h.durable, n)
	}
}

func (h *history) powerCut() {
	image := h.powerCuts(12)
	if image == nil {
		return
	}
	h.note("a power cut")
	image.Record()
	image.LosePagesForGood()
	h.mem, h.log = image, nil
	l, err := open("log", h.options(image))
	if err != nil {
		h.fatalf("Open: %v", err)
	}
	n := h.check(l, h.durable, "behind a power cut")
	h.entries, h.acked, h.durable = h.entries[:n], n, n
	l.Close()
}

func TestHistories(t *testing.T) {
	seeds := uint64(30)
	if longTest() {
		seeds = 20_000
	}
	bothWays(t, func(t *testing.T, change func(*options)) {
		for seed := range seeds {
			h := &history{t: t, rng: rand.New(rand.NewPCG(seed, 77)), mem: vfs.NewCrashMem(), first: []Address{0}}
			h.note("seed %d", seed)
			h.change = func(o *options) {
				change(o)
				if seed%3 == 0 {
					o.segmentBytes = 7000
				}
			}
			h.loses, h.policy = h.rng.IntN(2) == 0, SyncPolicy(h.rng.IntN(3))
			h.mem.LosePagesForGood()
			if h.rng.IntN(4) == 0 {
				h.mem.SetCacheID("")
			}
			h.run(25)
		}
	})
}
