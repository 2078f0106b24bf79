package engine

import (
	"errors"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// In some tables the end of an entry at its deadline is a record, E: the tables whose system record has, or
// will have, that option. Such an entry stays in the index until the log has that record. So the log is owed an
// E for each expired entry in the index, and no other state is needed: a snapshot of the index has the entry,
// compaction copies its record, and a recovery puts it back. Readers ask the clock, as ever.
//
// The record is written, under the lock of the key, by the expirer, or by another writer of the key before its
// own record. Then the entry goes, as by a deletion. A reader writes nothing.
//
// Opening a store must write nothing, so entries that had expired by then are owed until this process has begun
// to write. An entry whose E the log refuses is owed for a second. Meanwhile both are counted as owed: the
// number of entries is the number in the index less those owed.

// TellExpiry makes the end of an entry of the table at its deadline a record, from now on and for every later
// process. The log gets that option before the next record of the table.
func (s *Store) TellExpiry(t *Table) { t.asked.Store(true) }

// tellsExpiry reports whether the end of an entry is a record.
func (t *Table) tellsExpiry() bool { return t.mayOwe() || t.asksExpiry() }

// asksExpiry reports whether this process has requested that.
func (t *Table) asksExpiry() bool {
	return (t.asked.Load() || t.store.opts.ExpiryEvents) && !t.ofElements
}

// mayOwe is tellsExpiry by the log's record alone: then an expired entry may be owed.
func (t *Table) mayOwe() bool {
	is := t.inLog.Load()
	if is == nil && t.name != "" { // the log has no record of the map, and treats its keys as raw ones
		is = t.store.spaces[0].raw.inLog.Load()
	}
	return is != nil && is.expiry
}

// tells reports whether the end of an expired entry is a record, which needs an entry in the log.
func (t *Table) tells(now *state) bool {
	return now.address != 0 && !t.store.opts.ReadOnly && t.tellsExpiry()
}

// owed is an entry whose E is owed, or entries with the same hash.
type owed struct {
	deadline, schema uint64
	paying           bool // its end is being written, and it is no longer owed unless that fails
}

// owedItems is the approximate memory of an owed entry, in items of the queue.
const owedItems = 3

// mayTell reports whether an E can probably be written for an entry with this deadline.
func (t *Table) mayTell(d *deadlines, deadline, now uint64) bool {
	s := t.store
	return now >= d.again.Load() && (deadline > s.opened || s.log.Wrote()) && s.log.Failure() == nil
}

// endLocked removes an entry whose deadline has passed, and writes its E if the table has such records. An E that
// cannot be written now is owed.
func (t *Table) endLocked(d *deadlines, was *state, now uint64) error {
	hash, tells, waits := was.hash, t.tells(was), was.cell != nil && was.cell.Dirty
	if tells && !waits && !t.mayTell(d, was.expiry, now) {
		t.owe(d, was)
		return nil
	}
	entry := *was
	err := t.store.expireLocked(t, was)
	if tells && !waits && err != nil && !errors.Is(err, seglog.ErrCorrupt) {
		d.again.Store(now + retryMillis)
		t.owe(d, &entry)
		return t.store.expirer.news(err)
	}
	return t.againLocked(hash, now, err)
}

// retryMillis is the time after which a failed write is tried again.
const retryMillis = 1000

// owe counts an entry as owed.
func (t *Table) owe(d *deadlines, was *state) {
	sh := d.shard(was.hash)
	if sh.owed == nil {
		sh.owed = map[uint64]owed{}
	}
	_, already := sh.owed[was.hash]
	sh.owed[was.hash] = owed{deadline: was.expiry, schema: was.schema}
	for latest := d.latest.Load(); was.expiry > latest && !d.latest.CompareAndSwap(latest, was.expiry); {
		latest = d.latest.Load()
	}
	if !already {
		d.owing.Add(1)
		t.countDeadlines(d, owedItems)
	}
	e := &t.store.expirer
	if e.owes.Store(true); t.store.log.Wrote() { // else the log wakes it at the first write
		e.poke()
	}
}

// news returns an error unless it equals the last one: a disk may be full for hours.
func (e *expirer) news(err error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if text := err.Error(); text != e.told {
		e.told = text
		return err
	}
	return nil
}

// begun is called when this process has begun to write.
func (e *expirer) begun() {
	if e.owes.Load() {
		e.poke()
	}
}

// settleOwed counts an entry no longer as owed.
func (t *Table) settleOwed(hash uint64) {
	d := t.deadlines.Load()
	if d == nil || d.owing.Load() == 0 {
		return
	}
	sh := d.shard(hash)
	if _, is := sh.owed[hash]; is {
		delete(sh.owed, hash)
		d.owing.Add(-1)
		t.countDeadlines(d, -owedItems)
	}
}

// owing returns the number of expired entries in the index, which are no longer counted.
func (t *Table) owing() int {
	if d := t.deadlines.Load(); d != nil {
		return int(d.owing.Load())
	}
	return 0
}

// owes removes expired entries, and reports whether the table owes anything.
func (t *Table) owes() bool {
	t.reap()
	return t.owing() > 0
}

// forgive ends the debt for entries that have not expired now, after the clock was set back: reads show them.
func (t *Table) forgive(d *deadlines, now uint64) {
	latest := d.latest.Load()
	if d.owing.Load() == 0 || now >= latest {
		return
	}
	for n := range d.shards {
		mu := &t.store.keys[n]
		mu.Lock()
		for hash, o := range d.shards[n].owed {
			if now < o.deadline && !t.store.closed {
				t.payLocked(&d.shards[n], hash, now)
			}
		}
		mu.Unlock()
	}
	d.latest.CompareAndSwap(latest, now)
}

// owedOf counts the owed entries for which f is true. The caller holds the locks of all keys.
func (t *Table) owedOf(f func(*owed) bool) (n int) {
	d := t.deadlines.Load()
	if d == nil || d.owing.Load() == 0 {
		return 0
	}
	for i := range d.shards {
		for _, o := range d.shards[i].owed {
			if f(&o) {
				n++
			}
		}
	}
	return n
}

// pay writes the records that are owed, as far as that is possible now.
func (t *Table) pay(d *deadlines, now uint64) {
	for n := range d.shards {
		for d.owing.Load() > 0 && t.mayTell(d, 0, now) && t.paySome(d, n, now) {
		}
	}
}

// paySome pays some of a shard, and reports whether there may be more.
func (t *Table) paySome(d *deadlines, n int, now uint64) (more bool) {
	mu := &t.store.keys[n]
	mu.Lock()
	defer mu.Unlock()
	return !t.store.closed && t.paySomeLocked(d, n, now)
}

func (t *Table) paySomeLocked(d *deadlines, n int, now uint64) (more bool) {
	left := reapBatch
	for hash := range d.shards[n].owed {
		if left--; left < 0 || !t.mayTell(d, 0, now) {
			return left < 0
		}
		t.payLocked(&d.shards[n], hash, now)
	}
	return false
}

// payLocked looks at the entries owed under a hash. They are owed until they have left the order of the keys.
func (t *Table) payLocked(sh *deadlineShard, hash, now uint64) {
	t.counted.begun.Add(1)
	defer t.counted.ended.Add(1)
	o := sh.owed[hash]
	o.paying = true
	sh.owed[hash] = o
	if err := t.lookLocked(hash, now); err != nil {
		t.store.log.ReportError("removing expired entries", err)
	}
	if sh.owed[hash].paying {
		t.settleOwed(hash)
	}
}

// payAllLocked writes an E for every expired entry, before many are deleted at once. The caller holds the locks
// of all keys, and is about to write.
func (s *Store) payAllLocked() error {
	for _, t := range s.spaces[0].tables() {
		d := t.deadlines.Load()
		if d == nil || !t.tellsExpiry() {
			continue
		}
		if err := s.log.Begin(); err != nil {
			return err
		}
		now := s.now()
		for n := range d.shards {
			for t.paySomeLocked(d, n, now) {
			}
			for t.reapSomeLocked(d, n, now) {
			}
		}
	}
	return nil
}

// tellLocked writes the E of an entry with a record in the log, and removes the entry.
func (s *Store) tellLocked(t *Table, now *state) error {
	w := &Write{Key: append([]byte(t.beginning()), now.own...), Delete: true}
	if now.schema == metaSchema {
		w.Kind = record.Meta
	}
	p := &seglog.Pending{Key: w.Key}
	w.fill(p)
	p.Op, p.Expiry = record.Expire, now.expiry
	err := s.appendAndShowLocked(t, now, w, p)
	if err == nil {
		now.cell = nil
	}
	return err
}
