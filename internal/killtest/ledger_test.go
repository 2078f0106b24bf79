package killtest

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
)

// ledger is the parent's knowledge of one store: the acknowledged operations, and those that may
// have happened.
type ledger struct {
	last   map[slot]op               // by which operation each slot's entry was left; as a reader of the child sees it
	before map[slot][]op             // and the others that may have left it after a death: no sync came after the following ones. No Count: never written
	flying map[uint8]op              // by writer: announced and not acknowledged
	syncs  map[uint8]map[slot]uint64 // by writer of a sync in flight: for each entry it concerns, the operation that it must make safe
	tally
}

// tally counts.
type tally struct {
	cycles, stores, restarts  int // restarts: the child closed and opened the store itself
	acks                      [kinds]int
	steps                     int // of shapes, acknowledged
	refused                   int // ErrClosed
	reverted                  int // asynchronous writes that were gone, as they may
	ringless                  int // kills of children without the mapped ring
	applied, dropped          int // operations in flight that had happened, and that had not
	entries                   int // compared by content
	torn                      int // recoveries that found a torn tail
	lost, wrong, unsound      int // unsound: the store did not open, or Check or an acknowledgement contradicts
	shut                      int // deaths after which the store did not open
	logBytes, maxSegments     int64
	compacted                 int // verifications that met compacted segments
	killsInOpen, killsInWrite int
}

func (t *tally) add(o tally) {
	t.cycles += o.cycles
	t.stores += o.stores
	t.restarts += o.restarts
	for k := range t.acks {
		t.acks[k] += o.acks[k]
	}
	t.steps += o.steps
	t.refused += o.refused
	t.reverted += o.reverted
	t.ringless += o.ringless
	t.applied += o.applied
	t.dropped += o.dropped
	t.entries += o.entries
	t.torn += o.torn
	t.lost += o.lost
	t.wrong += o.wrong
	t.unsound += o.unsound
	t.shut += o.shut
	t.logBytes += o.logBytes
	t.maxSegments = max(t.maxSegments, o.maxSegments)
	t.compacted += o.compacted
	t.killsInOpen += o.killsInOpen
	t.killsInWrite += o.killsInWrite
}

// tallies count by mix.
type tallies map[*mix]tally

func (all tallies) add(others tallies) {
	for m, o := range others {
		t := all[m]
		t.add(o)
		all[m] = t
	}
}

func (all tallies) sum() (sum tally) {
	for _, t := range all {
		sum.add(t)
	}
	return sum
}

// failed reports whether anything was found that must not be.
func (t tally) failed() bool { return t.lost+t.wrong+t.unsound > 0 }

func (t tally) String() string {
	write, fsync := t.acks[set]+t.acks[remove], t.acks[setFSync]+t.acks[removeFSync]
	async, syncs := t.acks[setAsync]+t.acks[updateAsync]+t.acks[removeAsync], t.acks[syncMap]+t.acks[syncAll]
	return fmt.Sprintf("%d cycles (%d killed while opening, %d while writing, of these %d without the ring) on %d stores, "+
		"%d acks (%d write, %d fsync, %d async; %d of deletes), %d of steps and %d of syncs, %d async writes gone that were not synced, "+
		"%d in flight (%d had happened), %d restarts, %d refused while closing, %d entries compared, %d torn tails, %d MB of log, up to %d segments, %d times compacted ones: %d lost, %d wrong, %d unsound",
		t.cycles, t.killsInOpen, t.killsInWrite, t.ringless, t.stores, write+fsync+async, write, fsync, async,
		t.acks[remove]+t.acks[removeFSync]+t.acks[removeAsync], t.steps, syncs, t.reverted,
		t.applied+t.dropped, t.applied, t.restarts, t.refused, t.entries, t.torn, t.logBytes>>20, t.maxSegments, t.compacted, t.lost, t.wrong, t.unsound)
}

func newLedger() *ledger {
	return &ledger{last: map[slot]op{}, before: map[slot][]op{}, flying: map[uint8]op{}, syncs: map[uint8]map[slot]uint64{}}
}

// frame takes in a message of a child. The error means that it contradicts earlier ones.
func (l *ledger) frame(f frame) error {
	w := f.Op.Writer
	flying, busy := l.flying[w]
	switch f.What {
	case announced:
		if busy {
			return fmt.Errorf("the test is wrong: %v was announced while %v was in flight", f.Op, flying)
		}
		l.flying[w] = f.Op
		if f.Op.Kind.syncs() {
			l.syncs[w] = l.toSync(f.Op)
		}
	case closed:
		l.synced(l.toSync(op{Kind: syncAll}))
	case acked:
		if flying != f.Op {
			return fmt.Errorf("the test is wrong: %v was acknowledged while %v was in flight", f.Op, flying)
		}
		delete(l.flying, w)
		l.acks[f.Op.Kind]++
		if f.Op.Kind.syncs() {
			l.synced(l.syncs[w])
			return nil
		}
		_, had := l.standing(f.Op.slot)
		l.acknowledged(f.Op)
		if f.Op.Kind.removes() && f.Existed != had {
			return fmt.Errorf("%v returned %t, but that there was an entry is %t", f.Op, f.Existed, had)
		}
	case refused:
		delete(l.flying, w)
		l.refused++
	}
	return nil
}

// acknowledged takes over an operation that has happened in the eyes of the child.
func (l *ledger) acknowledged(o op) {
	if o.Kind.async() {
		l.before[o.slot] = append(l.before[o.slot], l.last[o.slot])
	} else {
		delete(l.before, o.slot)
	}
	l.last[o.slot] = o
}

// toSync returns the operations that a sync that begins now must make safe: for each entry with
// asynchronous writes the last of them.
func (l *ledger) toSync(o op) map[slot]uint64 {
	list := map[slot]uint64{}
	for s := range l.before {
		if o.Kind == syncAll || s.Shelf == o.Shelf {
			list[s] = l.last[s].Count
		}
	}
	return list
}

// synced notes that a sync has succeeded: the entries from before the operations that it made safe
// are gone for good.
func (l *ledger) synced(list map[slot]uint64) {
	for s, count := range list {
		l.before[s] = slices.DeleteFunc(l.before[s], func(o op) bool { return o.Count < count })
		if len(l.before[s]) == 0 {
			delete(l.before, s)
		}
	}
}

// standing returns the operation that left the entry of a slot, if there should be one.
func (l *ledger) standing(s slot) (op, bool) {
	o, ok := l.last[s]
	return o, ok && o.Kind.sets()
}

// inFlight returns the operation on a slot that may or may not have happened.
func (l *ledger) inFlight(s slot) (op, bool) {
	o, ok := l.flying[s.Writer]
	return o, ok && o.slot == s && !o.Kind.syncs()
}

// verify compares all entries of a store with the ledger, and takes over the operations in flight
// that it finds. It returns the violations.
func (l *ledger) verify(shelves []shelf) (found []string) {
	seen := map[slot]bool{}
	for number, sh := range shelves {
		n := 0
		for e := range sh.all() {
			n++
			l.entries++
			if e.alien != "" || seen[e.slot] {
				l.wrong++
				found = append(found, fmt.Sprintf("wrong: %s %v, which nobody wrote or which came twice, with %v", e.alien, e.slot, e.value))
				continue
			}
			seen[e.slot] = true
			if problem := l.compare(e); problem != "" {
				found = append(found, problem)
			}
		}
		if sh.len() != n {
			l.unsound++
			found = append(found, fmt.Sprintf("unsound: Len of %q is %d, All yields %d", shelfNames[number], sh.len(), n))
		}
	}
	for s := range l.last {
		if !seen[s] {
			if problem := l.missing(s); problem != "" {
				found = append(found, problem)
			}
		}
	}
	l.dropped += len(l.flying) // those that were not found to have happened
	clear(l.flying)
	clear(l.before) // the found entries are in the log
	clear(l.syncs)
	return found
}

// compare judges an entry that is there.
func (l *ledger) compare(e entry) (problem string) {
	want, present := l.standing(e.slot)
	if present && e.value.is(want) {
		return ""
	}
	flying, busy := l.inFlight(e.slot)
	if busy && flying.Kind.sets() && e.value.is(flying) {
		l.happened(flying)
		return ""
	}
	for _, o := range l.before[e.slot] {
		if o.Count > 0 && o.Kind.sets() && e.value.is(o) {
			l.reverted++
			l.last[e.slot] = o
			return ""
		}
	}
	last, known := l.last[e.slot]
	stamp, intact := e.value.stamp()
	if known && intact && stamp.slot == e.slot && stamp.Count <= last.Count && !(present && stamp.Count == last.Count) {
		l.lost++
		return fmt.Sprintf("lost: %v; found %v", last, e.value)
	}
	l.wrong++
	return fmt.Sprintf("wrong: %v holds %v; the last acknowledged is %v, in flight %v", e.slot, e.value, last, flying)
}

// missing judges an entry that is not there.
func (l *ledger) missing(s slot) (problem string) {
	want, present := l.standing(s)
	if !present {
		return ""
	}
	if flying, busy := l.inFlight(s); busy && flying.Kind.removes() {
		l.happened(flying)
		return ""
	}
	for _, o := range l.before[s] {
		if o.Count == 0 || o.Kind.removes() {
			l.reverted++
			l.last[s] = op{slot: s, Kind: remove, Count: o.Count}
			return ""
		}
	}
	l.lost++
	return fmt.Sprintf("lost: %v; found nothing", want)
}

// happened takes over an operation in flight that was found to have happened.
func (l *ledger) happened(o op) {
	l.applied++
	l.last[o.slot] = o
	delete(l.flying, o.Writer)
}

// TestLedger: the result of the checks for each possible content.
func TestLedger(t *testing.T) {
	at := slot{Shelf: 0, Writer: 1, Key: 2}
	older := op{slot: at, Kind: set, Count: 1, Size: 40}
	stood := op{slot: at, Kind: set, Count: 2, Size: 40}
	gone := op{slot: at, Kind: remove, Count: 2}
	next := op{slot: at, Kind: set, Count: 3, Size: 40}
	nextGone := op{slot: at, Kind: remove, Count: 3}
	never := op{slot: at, Kind: set, Count: 9, Size: 40}
	tests := []struct {
		name          string
		acked, flying op     // no Count: none
		found         *op    // nil: no entry
		want          string // "": right
	}{
		{"as acknowledged", stood, op{}, &stood, ""},
		{"the write in flight happened", stood, next, &next, ""},
		{"the write in flight did not happen", stood, next, &stood, ""},
		{"the delete in flight happened", stood, nextGone, nil, ""},
		{"the delete in flight did not happen", stood, nextGone, &stood, ""},
		{"deleted", gone, op{}, nil, ""},
		{"the first write in flight", op{}, next, &next, ""},
		{"nothing", stood, op{}, nil, "lost"},
		{"nothing, a write in flight", stood, next, nil, "lost"},
		{"older", stood, op{}, &older, "lost"},
		{"older, a write in flight", stood, next, &older, "lost"},
		{"deleted came back", gone, op{}, &older, "lost"},
		{"never written", stood, op{}, &never, "wrong"},
		{"never written, a write in flight", stood, next, &never, "wrong"},
		{"never announced", op{}, op{}, &older, "wrong"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := newLedger()
			if test.acked.Count > 0 {
				l.last[at] = test.acked
			}
			if test.flying.Count > 0 {
				l.flying[at.Writer] = test.flying
			}
			var entries []entry
			if test.found != nil {
				entries = append(entries, entry{slot: at, value: newBlob(*test.found)})
			}
			found := strings.Join(l.verify([]shelf{fixedShelf{entries: entries}}), "\n")
			if !strings.HasPrefix(found, test.want) || (found == "") != (test.want == "") {
				t.Errorf("got %q, want %q", found, test.want)
			}
			if l.failed() != (test.want != "") {
				t.Errorf("counted %v", l.tally)
			}
			if len(l.flying) > 0 {
				t.Errorf("%v is still in flight", l.flying)
			}
		})
	}
}

// TestLedgerAsync: the result of the checks for each possible content after asynchronous writes.
func TestLedgerAsync(t *testing.T) {
	at, other := slot{Shelf: 0, Writer: 1, Key: 2}, slot{Shelf: 1, Writer: 2}
	first := op{slot: at, Kind: set, Count: 1, Size: 40}
	async := op{slot: at, Kind: setAsync, Count: 2, Size: 40}
	gone := op{slot: at, Kind: removeAsync, Count: 2}
	next := op{slot: at, Kind: updateAsync, Count: 3, Size: 40}
	final := op{slot: at, Kind: set, Count: 4, Size: 40}
	all := op{slot: other, Kind: syncAll, Count: 1}
	mine := op{slot: slot{Shelf: 0, Writer: 2}, Kind: syncMap, Count: 1}
	others := op{slot: other, Kind: syncMap, Count: 1}
	begin := func(o op) []frame { return []frame{{What: announced, Op: o}} }
	end := func(o op) []frame { return []frame{{What: acked, Op: o, Existed: o.Kind.removes()}} }
	done := func(o op) []frame { return append(begin(o), end(o)...) }
	tests := []struct {
		name   string
		frames [][]frame
		found  []*op // each of which is right; nil for no entry
		lost   []*op // each of which is not
	}{
		{"not synced", [][]frame{done(first), done(async)}, []*op{&first, &async}, []*op{nil}},
		{"the first of all", [][]frame{done(async)}, []*op{nil, &async}, nil},
		{"two", [][]frame{done(first), done(async), done(next)}, []*op{&first, &async, &next}, []*op{nil}},
		{"deleted", [][]frame{done(first), done(gone)}, []*op{&first, nil}, nil},
		{"a newer synchronous one", [][]frame{done(first), done(async), done(final)}, []*op{&final}, []*op{&first, &async, nil}},
		{"synced", [][]frame{done(first), done(async), done(all)}, []*op{&async}, []*op{&first, nil}},
		{"deleted and synced", [][]frame{done(first), done(gone), done(all)}, []*op{nil}, []*op{&first}},
		{"a sync in flight", [][]frame{done(first), done(async), begin(all)}, []*op{&first, &async}, []*op{nil}},
		{"the map synced", [][]frame{done(first), done(async), done(mine)}, []*op{&async}, []*op{&first, nil}},
		{"another map synced", [][]frame{done(first), done(async), done(others)}, []*op{&first, &async}, []*op{nil}},
		{"written while a sync ran", [][]frame{done(first), done(async), begin(all), done(next), end(all)}, []*op{&async, &next}, []*op{&first, nil}},
		{"closed", [][]frame{done(first), done(async), {{What: closed}}}, []*op{&async}, []*op{&first, nil}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			verify := func(o *op) string {
				l := newLedger()
				for _, frames := range test.frames {
					for _, f := range frames {
						if err := l.frame(f); err != nil {
							t.Fatal(err)
						}
					}
				}
				var entries []entry
				if o != nil {
					entries = append(entries, entry{slot: at, value: newBlob(*o)})
				}
				found := strings.Join(l.verify([]shelf{fixedShelf{entries: entries}}), "\n")
				if again := strings.Join(l.verify([]shelf{fixedShelf{entries: entries}}), "\n"); found == "" && again != "" {
					t.Errorf("what was right is %q the second time", again)
				}
				return found
			}
			for _, o := range test.found {
				if got := verify(o); got != "" {
					t.Errorf("found %v: %q", o, got)
				}
			}
			for _, o := range test.lost {
				if got := verify(o); !strings.HasPrefix(got, "lost") {
					t.Errorf("found %v: %q", o, got)
				}
			}
		})
	}
}

// fixedShelf holds given entries, to be verified.
type fixedShelf struct {
	shelf
	entries []entry
}

func (s fixedShelf) all() iter.Seq[entry] { return slices.Values(s.entries) }
func (s fixedShelf) len() int             { return len(s.entries) }
