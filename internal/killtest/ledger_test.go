package killtest

import (
	"fmt"
)

// ledger is what the parent knows about one store: what was acknowledged, and what
// may have happened.
type ledger struct {
	last   map[slot]op  // what each slot's entry was left by; absent when it is a Delete
	flying map[uint8]op // by writer: announced and not acknowledged
	tally
}

// tally counts.
type tally struct {
	cycles, stores, restarts  int // restarts: the child closed and opened the store itself
	acks                      [kinds]int
	refused                   int // ErrClosed
	applied, dropped          int // operations in flight that had happened, and that had not
	entries                   int // compared by content
	torn                      int // recoveries that found a torn tail
	lost, wrong, unsound      int // unsound: the store did not open, or Check or an acknowledgement contradicts
	logBytes, maxSegments     int64
	killsInOpen, killsInWrite int
}

func (t *tally) add(o tally) {
	t.cycles += o.cycles
	t.stores += o.stores
	t.restarts += o.restarts
	for k := range t.acks {
		t.acks[k] += o.acks[k]
	}
	t.refused += o.refused
	t.applied += o.applied
	t.dropped += o.dropped
	t.entries += o.entries
	t.torn += o.torn
	t.lost += o.lost
	t.wrong += o.wrong
	t.unsound += o.unsound
	t.logBytes += o.logBytes
	t.maxSegments = max(t.maxSegments, o.maxSegments)
	t.killsInOpen += o.killsInOpen
	t.killsInWrite += o.killsInWrite
}

// failed reports whether anything was found that must not be.
func (t tally) failed() bool { return t.lost+t.wrong+t.unsound > 0 }

func (t tally) String() string {
	write, fsync := t.acks[set]+t.acks[remove], t.acks[setFSync]+t.acks[removeFSync]
	return fmt.Sprintf("%d cycles (%d killed while opening, %d while writing) on %d stores, %d acks (%d write, %d fsync; %d of deletes), "+
		"%d in flight (%d had happened), %d restarts, %d refused while closing, %d entries compared, %d torn tails, %d MB of log, up to %d segments: %d lost, %d wrong, %d unsound",
		t.cycles, t.killsInOpen, t.killsInWrite, t.stores, write+fsync, write, fsync, t.acks[remove]+t.acks[removeFSync],
		t.applied+t.dropped, t.applied, t.restarts, t.refused, t.entries, t.torn, t.logBytes>>20, t.maxSegments, t.lost, t.wrong, t.unsound)
}

func newLedger() *ledger {
	return &ledger{last: map[slot]op{}, flying: map[uint8]op{}}
}

// frame takes in a message of a child. The error says that it contradicts what is known.
func (l *ledger) frame(f frame) error {
	w := f.Op.Writer
	flying, busy := l.flying[w]
	switch f.What {
	case announced:
		if busy {
			return fmt.Errorf("the test is wrong: %v was announced while %v was in flight", f.Op, flying)
		}
		l.flying[w] = f.Op
	case acked:
		if flying != f.Op {
			return fmt.Errorf("the test is wrong: %v was acknowledged while %v was in flight", f.Op, flying)
		}
		delete(l.flying, w)
		_, had := l.standing(f.Op.slot)
		l.last[f.Op.slot] = f.Op
		l.acks[f.Op.Kind]++
		if !f.Op.Kind.sets() && f.Existed != had {
			return fmt.Errorf("%v returned %t, but that there was an entry is %t", f.Op, f.Existed, had)
		}
	case refused:
		delete(l.flying, w)
		l.refused++
	}
	return nil
}

// standing returns the operation that left the entry of a slot, if there is to be one.
func (l *ledger) standing(s slot) (op, bool) {
	o, ok := l.last[s]
	return o, ok && o.Kind.sets()
}

// inFlight returns the operation on a slot that may or may not have happened.
func (l *ledger) inFlight(s slot) (op, bool) {
	o, ok := l.flying[s.Writer]
	return o, ok && o.slot == s
}

// verify compares all entries of a store with what is known, and takes over what it
// finds of the operations in flight. It returns what must not be.
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
	for _, o := range l.flying { // those that were not found to have happened
		l.dropped++
		_ = o
	}
	clear(l.flying)
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
	if flying, busy := l.inFlight(s); busy && !flying.Kind.sets() {
		l.happened(flying)
		return ""
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
