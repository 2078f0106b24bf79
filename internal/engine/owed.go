package engine

import (
	"errors"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// Of some tables the end of an entry at its deadline is a record, E: those whose system record says so, or is to
// say so. Such an entry stays in the index until the log has that record. So one that is in the index, and has
// expired, is what the log is owed an E for, and nothing else has to be known: a snapshot of the index has the
// entry, compaction copies its record, and a recovery puts it back. Readers ask the clock, as ever.
//
// Two write the record, with the lock of the key: the expirer, and before its own record whoever writes the key
// otherwise. Then the entry goes, as by a deletion. A reader writes nothing.
//
// Opening a store is to write nothing, so what had expired by then is owed until this process has begun to
// write. What the log refuses is owed for a second. Meanwhile it is counted as owed: the number of entries is
// the number of the index less those owed.

// TellExpiry makes the end of an entry of the table at its deadline a record, from now on and whoever opens the
// store later. The log learns of it before the next record of the table.
func (s *Store) TellExpiry(t *Table) { t.asked.Store(true) }

// tellsExpiry reports whether the end of an entry is a record.
func (t *Table) tellsExpiry() bool { return t.mayOwe() || t.asksExpiry() }

// asksExpiry reports whether this process has asked for that.
func (t *Table) asksExpiry() bool {
	return (t.asked.Load() || t.store.opts.ExpiryEvents) && !t.ofElements
}

// mayOwe is tellsExpiry as far as the log says so: then an entry that has expired may be owed.
func (t *Table) mayOwe() bool {
	is := t.inLog.Load()
	if is == nil && t.name != "" { // the log does not know the map, and takes its keys for raw ones
		is = t.store.spaces[0].raw.inLog.Load()
	}
	return is != nil && is.expiry
}

// tells reports whether the end of an entry that has expired is to be told: one that the log has.
func (t *Table) tells(now *state) bool {
	return now.address != 0 && !t.store.opts.ReadOnly && t.tellsExpiry()
}

// owed is an entry whose E is owed, or entries with the same hash.
type owed struct {
	deadline, schema uint64
	paying           bool // it is being looked at, and owed no longer unless that fails
}

// owedItems is about what an owed entry takes in memory, in items of the queue.
const owedItems = 3

// mayTell reports whether an E can be written for an entry with this deadline, as far as is known.
func (t *Table) mayTell(d *deadlines, deadline, now uint64) bool {
	s := t.store
	return now >= d.again.Load() && (deadline > s.opened || s.log.Wrote()) && s.log.Failure() == nil
}

// endLocked takes out an entry whose deadline has passed, and tells the log where that is to know. What cannot be
// told now is owed.
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

// retryMillis is after how long what has failed is tried again.
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
	if e.owes.Store(true); t.store.log.Wrote() { // else the log tells when it has begun
		e.poke()
	}
}

// news returns an error unless it is the one that was returned last: a disk may be full for hours.
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

// owing is the number of entries in the index that have expired, and are counted no more.
func (t *Table) owing() int {
	if d := t.deadlines.Load(); d != nil {
		return int(d.owing.Load())
	}
	return 0
}

// owes takes out what has expired, and reports whether the table owes anything.
func (t *Table) owes() bool {
	t.reap()
	return t.owing() > 0
}

// forgive ends the debt for entries that have not expired by now: the clock was set back, and reads show them.
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

// owedOf counts those of which f is true. The caller holds the locks of all keys.
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

// pay writes what is owed, as far as that is possible now.
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

// payLocked looks at what is owed under a hash. It is counted as owed until it has left the order of the keys.
func (t *Table) payLocked(sh *deadlineShard, hash, now uint64) {
	t.counted.begun.Add(1)
	defer t.counted.ended.Add(1)
	o := sh.owed[hash]
	o.paying = true
	sh.owed[hash] = o
	if err := t.lookLocked(hash, now); err != nil {
		t.store.log.ReportError("taking out what has expired", err)
	}
	if sh.owed[hash].paying {
		t.settleOwed(hash)
	}
}

// payAllLocked tells of everything that has expired, before much of it is deleted at once. The caller holds the
// locks of all keys, and is about to write.
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

// tellLocked writes the E of an entry that a record of the log has, and takes the entry out.
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
