package engine

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sort"
	"strings"
	"unsafe"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/collection"
	"github.com/copaldb/copal/internal/seglog"
)

// Versions of a table are the old states of its entries, kept as long as a view is open that was
// opened before the change. The log has no versions, and the index has none. The writer that
// changes an entry notes the place of the old record, and only while there is a view.
//
// A version holds from the previous change of the same key up to the change that replaced it. So
// the entry of a key in a view is the first version that was replaced after the view was opened or,
// when there is none, the present entry. Between two views a key gets one version, however often it
// changes: states that came and went since the newest view was opened are not noted.
//
// They are split by the locks of the keys, each of which guards a shard: a list in the order of the
// changes, a hash table over it that leads to the newest of each bucket and from there to earlier
// ones, and the bytes of the keys. It has no pointers. When a list has doubled, versions that no
// view needs are left out. When the last view is closed, all are; a shard learns that from its
// epoch, at its next use.
type versions struct {
	shards [cache.Shards]versionShard
}

type versionShard struct {
	epoch   uint64 // in which this was noted; empty in another one
	list    []former
	buckets []int32 // as many as a power of two: the newest version, counted from 1, or 0
	keys    []byte
	kept    int   // length of the list when it was last swept
	counted int64 // bytes that are in views.bytes
}

// former is the state of an entry before a change.
type former struct {
	hash     uint64
	address  seglog.Address // of its record, 0 when there was no entry
	replaced uint64         // number of the record that replaced it; of a group, of its commit
	opened   uint64         // number of views opened by then
	key      uint32         // place of the length of the key's own bytes, which follow
	before   int32          // the version before in the same bucket, counted from 1, or 0
}

// sees reports whether a version is the view's own, or newer. When an entry expires there is no
// record, and the number is the next record's: a view that was opened between the two has the same
// number as the views before.
func (v *View) sees(f *former) bool { return f.replaced > v.seq && f.opened >= v.number }

// note keeps, for the views, the address a of the entry's record, 0 for none, before the record with number seq
// replaced it or, with 0, before it expired. The caller holds the key's lock, and has appended that record.
func (t *Table) note(hash uint64, own string, a seglog.Address, seq uint64) {
	if v := &t.store.views; v.open.Load() > 0 && !v.quiet.Load() {
		v.work.note(t, hash, own, a, seq)
	}
}

func (t *Table) noteLocked(hash uint64, own string, a seglog.Address, seq uint64) {
	views := &t.store.views
	if seq == 0 {
		seq = t.store.log.Last() + 1
	}
	all := t.noted()
	sh := &all.shards[hash%cache.Shards]
	sh.enter(views.epoch.Load())
	last, opened := sh.newest(hash, own), views.opened.Load()
	if last != nil && last.replaced > views.newest.Load() && last.opened == opened {
		return // no view has the state that goes now
	}
	sh.add(former{hash: hash, address: a, replaced: seq, opened: opened}, last, own)
	if len(sh.list) >= 2*sh.kept+sweepFrom {
		sh.sweep(views.all())
	}
	sh.count(views)
}

// noted returns the versions of the table, which are made when they are missing.
func (t *Table) noted() *versions {
	if old := t.versions.Load(); old != nil {
		return old
	}
	if t.versions.CompareAndSwap(nil, new(versions)) {
		t.store.views.add(t)
	}
	return t.versions.Load()
}

// versionShard returns the versions under the lock of a key, nil when there are none that count.
func (t *Table) versionShard(n int) *versionShard {
	all := t.versions.Load()
	if all == nil || all.shards[n].epoch != t.store.views.epoch.Load() {
		return nil
	}
	return &all.shards[n]
}

// sweepFrom is the growth, beyond doubling, at which a shard is swept. It is a variable for tests.
var sweepFrom = 32

// smallShard is the number of versions for which an empty shard keeps its memory.
const smallShard = 64

// enter empties a shard of versions that were noted for other views.
func (sh *versionShard) enter(epoch uint64) {
	if sh.epoch == epoch {
		return
	}
	sh.epoch, sh.kept = epoch, 0
	if cap(sh.list) > smallShard || cap(sh.keys) > smallShard*64 {
		sh.list, sh.buckets, sh.keys = nil, nil, nil
		return
	}
	sh.list, sh.keys = sh.list[:0], sh.keys[:0]
	clear(sh.buckets)
}

// bucket returns the head of the list of versions of a hash. The lowest bits have chosen the shard.
func (sh *versionShard) bucket(hash uint64) *int32 {
	return &sh.buckets[hash/cache.Shards&uint64(len(sh.buckets)-1)]
}

// has reports whether a version is of this key.
func (sh *versionShard) has(v *former, hash uint64, own string) bool {
	return v.hash == hash && sh.own(v) == own
}

// own returns the key's own bytes, valid while the lock is held.
func (sh *versionShard) own(v *former) string {
	b := sh.keys[v.key:]
	length, n := binary.Uvarint(b)
	return view(b[n : n+int(length)])
}

// newest returns the last noted version of a key, or nil.
func (sh *versionShard) newest(hash uint64, own string) *former {
	if len(sh.list) == 0 {
		return nil
	}
	for i := *sh.bucket(hash); i != 0; i = sh.list[i-1].before {
		if v := &sh.list[i-1]; sh.has(v, hash, own) {
			return v
		}
	}
	return nil
}

// add appends a version. last is the one before of the same key, or nil.
func (sh *versionShard) add(v former, last *former, own string) {
	if last != nil {
		v.key = last.key
	} else {
		v.key = uint32(len(sh.keys))
		sh.keys = append(binary.AppendUvarint(sh.keys, uint64(len(own))), own...)
	}
	if len(sh.list) == len(sh.buckets) {
		sh.rebucket(max(2*len(sh.buckets), 8))
	}
	sh.put(v)
}

// put appends a version, which needs buckets.
func (sh *versionShard) put(v former) {
	b := sh.bucket(v.hash)
	v.before = *b
	sh.list = append(sh.list, v)
	*b = int32(len(sh.list))
}

// rebucket makes n buckets, a power of two.
func (sh *versionShard) rebucket(n int) {
	sh.buckets = make([]int32, n)
	for i := range sh.list {
		v := &sh.list[i]
		b := sh.bucket(v.hash)
		v.before, *b = *b, int32(i+1)
	}
}

// at returns the record of a key in a view, if the key has changed since that was opened.
func (sh *versionShard) at(hash uint64, own string, view *View) (a seglog.Address, changed bool) {
	if sh == nil || len(sh.list) == 0 {
		return 0, false
	}
	for i := *sh.bucket(hash); i != 0; i = sh.list[i-1].before {
		v := &sh.list[i-1]
		if !view.sees(v) { // nor those before
			break
		}
		if sh.has(v, hash, own) {
			a, changed = v.address, true
		}
	}
	return a, changed
}

// since yields the former entry of each key that has changed since the view was opened, until yield returns false.
func (sh *versionShard) since(view *View, yield func(v *former) bool) {
	if sh == nil {
		return
	}
	for i := sort.Search(len(sh.list), func(i int) bool { return view.sees(&sh.list[i]) }); i < len(sh.list); i++ {
		v := &sh.list[i]
		if before := sh.predecessor(v); (before == nil || !view.sees(before)) && !yield(v) {
			return
		}
	}
}

// predecessor returns the version before of the same key, or nil.
func (sh *versionShard) predecessor(v *former) *former {
	for i := v.before; i != 0; i = sh.list[i-1].before {
		if p := &sh.list[i-1]; p.hash == v.hash && sh.own(p) == sh.own(v) {
			return p
		}
	}
	return nil
}

// sweep removes the versions that no open view needs: those that the same views see as the version before.
func (sh *versionShard) sweep(open []*View) {
	old := *sh
	sh.list, sh.keys = nil, nil
	var kept []former
	for i := range old.list {
		v := old.list[i]
		if watchers(open, &v) > watchers(open, old.predecessor(&v)) {
			kept = append(kept, v)
		}
	}
	n := 8
	for n < len(kept) {
		n *= 2
	}
	sh.list = make([]former, 0, n)
	sh.rebucket(n)
	for _, v := range kept {
		own := old.own(&v)
		sh.add(v, sh.newest(v.hash, own), own)
	}
	sh.kept = len(sh.list)
}

// watchers returns the number of views that see a version: the first of open. No view sees nil.
func watchers(open []*View, f *former) int {
	if f == nil {
		return 0
	}
	return sort.Search(len(open), func(i int) bool { return !open[i].sees(f) })
}

// count adds the memory of the shard to the views' total.
func (sh *versionShard) count(views *views) {
	bytes := int64(cap(sh.list))*int64(unsafe.Sizeof(former{})) + int64(len(sh.buckets))*4 + int64(cap(sh.keys))
	if bytes != sh.counted {
		views.take(bytes - sh.counted)
		sh.counted = bytes
	}
}

// changedLocked reports whether the entry of a key has changed since the view was opened. An
// asynchronous write that is still dirty is a change, too. The caller holds the key's lock.
func (v *View) changedLocked(t *Table, hash uint64, own string) bool {
	if c := t.cells.Load(); c != nil {
		if cell := c.table.Find(hash, own); cell != nil && cell.Dirty {
			return true
		}
	}
	_, changed := t.versionShard(int(hash%cache.Shards)).at(hash, own, v)
	return changed
}

// anyChangedLocked is changedLocked for all keys under one lock that match; with nil all do.
func (v *View) anyChangedLocked(t *Table, shard int, match func(own string) bool) (changed bool) {
	if c := t.cells.Load(); c != nil {
		for _, d := range c.table.DirtyIn(shard) {
			if match == nil || match(d.Cell.Key()) {
				return true
			}
		}
	}
	sh := t.versionShard(shard)
	sh.since(v, func(f *former) bool {
		changed = match == nil || match(sh.own(f))
		return !changed
	})
	return changed
}

// membersChangedLocked reports whether an element of a collection has come or gone since the view was opened. The
// caller holds the lock of the elements.
func (v *View) membersChangedLocked(t *Table, id uint64) (changed bool) {
	prefix := string(collection.AppendElement(nil, id, nil))
	shard := t.versionShard(int(t.hash([]byte(prefix)) % cache.Shards))
	shard.since(v, func(f *former) bool {
		own := shard.own(f)
		if !strings.HasPrefix(own, prefix) {
			return true
		}
		if changed = f.address == 0; !changed { // it may still exist
			now, err := t.find(f.hash, []byte(own))
			changed = err != nil || now.address == 0
		}
		return !changed
	})
	return changed
}

// carryVersions moves the versions of keys with the prefix of another table to that table. The caller excludes
// all others.
func (t *Table) carryVersions(to *Table, prefix string) {
	all, views := t.versions.Load(), &t.store.views
	type carried struct {
		own   string
		place int
		former
	}
	var list []*carried
	for n := range all.shards {
		sh := t.versionShard(n)
		if sh == nil {
			continue
		}
		old := *sh
		sh.list, sh.buckets, sh.keys, sh.kept = nil, nil, nil, 0
		for _, v := range old.list {
			own := old.own(&v)
			if len(own) < len(prefix) || own[:len(prefix)] != prefix {
				sh.add(v, sh.newest(v.hash, own), own)
				continue
			}
			own = own[len(prefix):]
			v.hash = t.store.Hash(own)
			list = append(list, &carried{own, len(list), v})
		}
		sh.count(views)
	}
	slices.SortFunc(list, func(a, b *carried) int {
		return cmp.Or(cmp.Compare(a.replaced, b.replaced), cmp.Compare(a.opened, b.opened), a.place-b.place)
	})
	for _, c := range list {
		there := to.noted()
		sh := &there.shards[c.hash%cache.Shards]
		sh.enter(views.epoch.Load())
		sh.add(c.former, sh.newest(c.hash, c.own), c.own)
		sh.count(views)
	}
}
