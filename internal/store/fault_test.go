package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/copaldb/copal/internal/vfs"
)

// The fault injector. A script of 500 operations runs once to learn how many file
// operations it takes. Then it runs again for each of them, which fails, once or for
// ever from then on. Whatever fails:
//
//   - the process lives, and every call returns;
//   - an operation that returns nil has happened; one that returns ErrNoSpace has not;
//   - after any other error of a write every later write is refused, and says why;
//   - what the store shows meanwhile is what was acknowledged;
//   - when the disk is well again the store opens, with every acknowledged write; if a
//     sync failed, with every one that was acknowledged as durable.

// faulted is a run of a script under a fault.
type faulted struct {
	t       *testing.T
	name    string
	fsys    *vfs.Faulty
	oracle  *oracle
	refused bool // a write has failed for good
	unsync  bool // a sync may have failed: what only the cache had may be gone
	store   *Store
}

func (f *faulted) fatalf(format string, args ...any) {
	f.t.Helper()
	f.t.Fatalf("%s: %s\n%s", f.name, fmt.Sprintf(format, args...), lastLines(f.fsys.String(), 12))
}

func lastLines(s string, n int) string {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == '\n' {
			if n--; n == 0 {
				return s[i+1:]
			}
		}
	}
	return s
}

func faultScript(seed uint64, n int) []step {
	script := randomScript(rand.New(rand.NewPCG(seed, 3)), n)
	for i := range script { // few reopenings: what follows a failed one is a script of its own
		if script[i].kind == "reopen" && i%10 != 0 {
			script[i].kind = "set"
		}
	}
	return script
}

func faultOptions(o *Options) { o.SegmentBytes, o.GroupBytes = 4000, 1000 }

// run runs the script until its end, or until the store cannot be reopened.
func (f *faulted) run(script []step) {
	var err error
	if f.store, err = Open("db", testOptions(f.fsys, faultOptions)); err != nil {
		return // fine: nothing was acknowledged
	}
	for i, st := range script {
		if st.kind == "reopen" {
			if f.store, err = f.reopen(); err != nil {
				return
			}
			continue
		}
		f.step(i, st)
		f.compare(st.key)
		for _, change := range st.changes {
			f.compare(change.key) // of collections, which have sub-keys: no entry
		}
	}
	f.close()
}

func (f *faulted) reopen() (*Store, error) {
	f.close()
	s, err := Open("db", testOptions(f.fsys, faultOptions))
	if err != nil {
		return nil, err
	}
	f.settle(s)
	f.refused = false
	return s, nil
}

func (f *faulted) close() {
	err := f.store.Close()
	f.note(err)
	if err == nil && !f.refused && !f.fsys.Fired() {
		f.oracle.durable = f.oracle.acked
	}
	if again := f.store.Close(); again != nil {
		f.fatalf("the second Close: %v", again)
	}
}

// settle finds out which of the possible states a reopened store holds.
func (f *faulted) settle(s *Store) {
	lo := f.oracle.acked
	if f.unsync {
		lo = f.oracle.durable
	}
	content := map[string]string{}
	for _, t := range s.Tables() {
		for item := range s.Items(t) {
			if errors.Is(item.Err, ErrType) {
				item.Err = collectionItem(s, &item)
			}
			if item.Err != nil {
				if f.readable(item.Err) {
					f.fatalf("after reopening: %v", item.Err)
				}
				return
			}
			content[string(item.Key)] = string(item.Value)
		}
	}
	at, ok := f.oracle.find(render(content), lo, 0)
	if !ok {
		f.fatalf("the reopened store holds\n\t%s\n\twant one of %q", render(content), f.oracle.states[lo:])
	}
	f.oracle.states = append(f.oracle.states[:at:at], f.oracle.states[at])
	f.oracle.started, f.oracle.acked, f.oracle.durable = at, at, min(f.oracle.durable, at)
	f.oracle.content = content
	f.unsync = false
}

// readable reports whether an error of a read cannot come from an injected fault.
func (f *faulted) readable(err error) bool {
	return !errors.Is(err, syscall.EIO) && !errors.Is(err, vfs.ErrInjected)
}

// step does one operation and holds its result against the rules.
func (f *faulted) step(i int, st step) {
	if strings.HasPrefix(st.kind, "h") || st.kind == "sweep" {
		f.collectionStep(i, st)
		return
	}
	if st.changes != nil {
		f.groupStep(i, st)
		return
	}
	var err error
	before, had := f.oracle.content[st.key]
	write := true
	switch st.kind {
	case "map":
		_, err = f.store.Map(st.key)
		write = false
	case "compact", "shrink", "snapshot":
		if f.compact(st); f.refused {
			return
		}
		write = false
	case "sync":
		err = f.store.FSyncAll()
	case "set", "fsync":
		f.oracle.begin(st)
		err = f.store.Set(nil, []byte(st.key), []byte(st.value), 0, durabilityOf(st))
	default:
		f.oracle.begin(st)
		_, err = f.store.Delete(nil, []byte(st.key), durabilityOf(st))
	}
	switch {
	case err == nil && f.refused && write && st.kind != "sync":
		f.fatalf("step %d, %s, succeeds after a failure", i, st.kind)
	case err == nil:
		f.oracle.acked = f.oracle.started
		if write && (st.kind == "sync" || durabilityOf(st) == Power) {
			f.oracle.durable = f.oracle.acked
		}
		return
	case st.kind == "map" || st.kind == "sync":
		f.note(err)
		return
	}
	var failed *FailedError
	switch {
	case errors.As(err, &failed):
		f.note(err)
		if e, err := f.store.Get(nil, []byte(st.key)); err == nil && string(e.Value) == f.oracle.content[st.key] && st.kind == "fsync" ||
			errors.Is(err, ErrNotFound) && st.kind == "deletefsync" {
			return // visible, and not known to be durable
		}
		f.undo(st, before, had, true)
	case errors.Is(err, ErrNoSpace), !f.readable(err): // refused, or its key could not be looked up
		f.undo(st, before, had, false)
	default:
		f.fatalf("step %d, %s: unexpected error %v", i, st.kind, err)
	}
}

// compact compacts. Its failure is nobody's but that of a sync, or of the manifest.
func (f *faulted) compact(st step) {
	switch s := f.store; st.kind {
	case "compact":
		f.note(compactRun(s, len(st.value)))
	case "shrink":
		f.note(s.Shrink())
	default:
		s.housekeeping.Lock()
		defer s.housekeeping.Unlock()
		f.note(s.takeSnapshot(nil))
	}
}

func (f *faulted) note(err error) {
	var failed *FailedError
	if errors.As(err, &failed) {
		f.refused, f.unsync = true, true
	}
}

// undo puts the model back to before a write that failed. When its outcome is not
// known, the state that it would have made stays possible.
func (f *faulted) undo(st step, before string, had, unknown bool) {
	if had {
		f.oracle.content[st.key] = before
	} else {
		delete(f.oracle.content, st.key)
	}
	if !unknown {
		f.oracle.started--
		f.oracle.states = f.oracle.states[:f.oracle.started+1]
		return
	}
	f.oracle.states = append(f.oracle.states, render(f.oracle.content))
	f.oracle.started++
}

// compare reads a key and holds it against the model.
func (f *faulted) compare(key string) {
	want, ok := f.oracle.content[key]
	e, err := f.store.Get(nil, []byte(key))
	if errors.Is(err, ErrType) {
		var text string
		text, err = readHash(f.store.Collections(), key)
		e.Value = []byte(text)
	}
	switch {
	case err == nil && ok && string(e.Value) == want, errors.Is(err, ErrNotFound) && !ok:
	case err != nil && !f.readable(err):
	default:
		f.fatalf("Get(%q) = %.60q, %v; want %.60q, %v", key, e.Value, err, want, ok)
	}
}

func TestEveryFault(t *testing.T) { bothWays(t, everyFault) }

func everyFault(t *testing.T) { everyFaultOf(t, faultScript(1, 500), 19) }

// TestEveryFaultInCompaction is the same for scripts with many compactions.
func TestEveryFaultInCompaction(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		script := compactionScript(rand.New(rand.NewPCG(2, 23)), 120)
		for i := range script {
			if script[i].kind == "reopen" {
				script[i].kind = "set"
			}
		}
		everyFaultOf(t, script, 11)
	})
}

func everyFaultOf(t *testing.T, script []step, stride int) {
	kinds := []struct {
		name  string
		kinds vfs.Kind
		err   error
		short bool
	}{
		{"EIO", vfs.Mutating | vfs.Reading, syscall.EIO, false},
		{"ENOSPC", vfs.Mutating, vfs.ErrNoSpace, false},
		{"short write", vfs.OpWrite, syscall.EIO, true},
		{"short write, disk full", vfs.OpWrite, vfs.ErrNoSpace, true},
		{"sync EIO", vfs.OpSync | vfs.OpSyncDir, syscall.EIO, false},
	}
	switch {
	case longTest():
		stride = 1
	case testing.Short():
		stride = 2*stride + 1
	}
	total := 0
	for _, k := range kinds {
		for _, forever := range []bool{false, true} {
			name := k.name
			if forever {
				name += " for ever"
			}
			t.Run(name, func(t *testing.T) {
				cases := 0
				for n := 1; ; n += stride {
					mem := vfs.NewCrashMem()
					fault := &vfs.Fault{Kinds: k.kinds, N: n, Forever: forever, Err: k.err, Short: k.short}
					f := &faulted{t: t, name: fmt.Sprintf("%s at operation %d", name, n), fsys: vfs.Inject(mem, fault), oracle: newOracle(nil)}
					f.run(script)
					if !f.fsys.Fired() {
						break
					}
					f.afterwards(mem)
					cases++
				}
				if cases < 20/stride {
					t.Errorf("only %d cases", cases)
				}
				total += cases
			})
		}
	}
	t.Logf("%d cases, one operation in %d", total, stride)
}

// afterwards opens the store on a disk that is well again.
func (f *faulted) afterwards(mem *vfs.Mem) {
	image := mem.ProcessCrash()
	s, err := Open("db", testOptions(image, faultOptions))
	if err != nil {
		f.fatalf("opening it afterwards: %v", err)
	}
	f.settle(s)
	f.refused, f.unsync, f.store = false, false, s
	f.step(0, step{kind: "fsync", key: "afterwards", value: "1"})
	f.compare("afterwards")
	// What it holds now is on the disk, whatever an earlier sync has lost.
	for cut := range image.PowerCuts(3, nil) {
		twin, err := Open("db", testOptions(cut, faultOptions))
		if err != nil {
			f.fatalf("opening it after a power cut: %v", err)
		}
		c := &crasher{t: f.t}
		if found, _ := contentOf(c, twin, "afterwards"); found != render(f.oracle.content) {
			f.fatalf("after a power cut it holds\n\t%s, want\n\t%s", found, render(f.oracle.content))
		}
		if err := twin.Close(); err != nil {
			f.fatalf("closing it after a power cut: %v", err)
		}
		break
	}
	if err := s.Close(); err != nil {
		f.fatalf("closing it afterwards: %v", err)
	}
}
