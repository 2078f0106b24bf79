package feed

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/copaldb/copal/internal/collection"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keyrange"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// A Feed yields changes, by reading the log after the writers. No writer sends it anything or waits
// for it: a writer only checks whether a feed has asked to be woken. So a feed may be slow, and it
// finds the content of the log: every change of an entry once, in the order of the sequence
// numbers, a group at its commit.
//
//   - Only segments as they were written have every change in order. Compacted ones have the same
//     entries, without their history. So a feed never reads a compacted segment, and a large value
//     that compaction has rewritten in the tail is marked as a copy (attribute m).
//   - The segments that a feed has yet to read stay when compaction has replaced them, up to a
//     limit (engine.Hold). Segments removed before the feed began, or beyond the limit, are lost:
//     the error is seglog.ErrHistoryLost.
//   - The feed yields a change when a read shows it. In the process that writes, a record is in the
//     log a moment before that, under the lock of its key, so the feed passes that lock. A feed of
//     a follower yields the changes that it has replayed.
//   - The members of a group are read when the commit is met, from the first on, twice: the first
//     time to find the last one of each key. Only that is kept of them.
//
// A feed has one window of the log in memory, and is used by one goroutine at a time.
type Feed struct {
	store *engine.Store
	log   *seglog.Log
	hold  *engine.Hold
	of    Of
	at    seglog.Cursor
	reach uint64 // the changes up to this number can be yielded now
	group *group
	open  map[uint64]seglog.Position // where the parts of values begin, and groups, that no record has made count yet; by the number of the first
	wake  chan struct{}
}

// Event is a change of an entry.
type Event struct {
	Op      record.Op // Set, Delete, Expire or Range
	Kind    record.Kind
	Key     []byte // the caller's; for a range the bytes of its record; for an element the key of the collection
	Element []byte // the element of a collection that has changed, by its sub-key or, of a sorted set, the member; nil for the entry itself
	From    []byte // the key that a collection had before, nil if it was not renamed
	Created bool   // the collection is a new one, and nothing of an earlier one is in it
	Drops   bool   // the range is all that was in a map, which is there no more
	Schema  uint64
	Seq     uint64 // by which it counts: for the records of a group the number of the commit
	Time    time.Time
	Expiry  uint64 // Unix milliseconds, 0 for none
	More    bool   // changes follow that count together with this one

	of     engine.CollectionType // of an element
	record []byte                // the key of the element's record
	value  []byte                // or the list of the parts
	large  uint64
	own    uint64 // the record's own number
}

// Of is the set of entries of a feed.
type Of interface {
	Has(key []byte) bool
	Meets(r *engine.Range) bool // whether the range may have keys of these entries
}

// Prefix is Of the entries whose keys begin so.
type Prefix []byte

func (p Prefix) Has(key []byte) bool        { return bytes.HasPrefix(key, p) }
func (p Prefix) Meets(r *engine.Range) bool { return r.Meets(p) }

// Key is Of one entry.
type Key []byte

func (k Key) Has(key []byte) bool        { return bytes.Equal(key, k) }
func (k Key) Meets(r *engine.Range) bool { return r.Has(k) }

// Open begins a feed of some entries, of all with nil, after the record at p: the result of
// Store.Now, or only a number. The caller closes it.
func Open(s *engine.Store, p seglog.Position, of Of) (*Feed, error) {
	if of == nil {
		of = Prefix(nil)
	}
	// The hold is taken before the floor is read, so that later removals are held.
	f := &Feed{store: s, log: s.Log(), hold: s.HoldHistory(), of: of, reach: p.Seq, wake: make(chan struct{}, 1)}
	if err := f.begin(p); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *Feed) begin(p seglog.Position) error {
	now, err := f.store.Now()
	if err == nil && p.Seq > now.Seq { // another process may know it, and a reader not have seen it yet
		err = f.store.Refresh()
	}
	if err != nil {
		return err
	}
	return f.store.Inside(func() error {
		f.open = f.log.MembersBefore(p.Seq + 1) // of groups that are committed after the place
		f.lower(p.Seq + 1)
		if !f.log.TellsAfter(p.Seq) {
			return seglog.ErrHistoryLost
		}
		f.at.Start(f.log, p.Seq+1, p)
		return nil
	})
}

// lower releases the segments before a record, if no open group began there.
func (f *Feed) lower(low uint64) {
	for number := range f.open {
		low = min(low, number)
	}
	f.hold.Raise(low)
}

// Close ends the feed.
func (f *Feed) Close() {
	f.at.Leave()
	if f.group != nil {
		f.group.at.Leave()
	}
	f.hold.End()
}

// Next returns the next change, for which it waits. The error is the context's, ErrClosed,
// seglog.ErrHistoryLost, or one of reading.
func (f *Feed) Next(ctx context.Context) (e Event, err error) {
	return f.NextUntil(ctx, math.MaxUint64)
}

// NextUntil is Next that returns io.EOF when there is no other change up to the record with a number.
func (f *Feed) NextUntil(ctx context.Context, seq uint64) (e Event, err error) {
	for {
		if ctx.Err() != nil {
			return e, context.Cause(ctx)
		}
		if f.group == nil && f.at.Next > seq {
			return e, io.EOF
		}
		told, err := f.step(&e)
		if told || err != nil {
			return e, err
		}
		if !f.atRest() || f.at.Next > seq { // a group may have ended without an event
			continue
		}
		if err := f.await(ctx); err != nil {
			return e, err
		}
	}
}

// await returns when there may be a change.
func (f *Feed) await(ctx context.Context) error {
	for {
		if err := f.look(); err != nil || f.reach >= f.at.Next {
			return err
		}
		asleep, err := f.sleep(f.reach)
		if err != nil {
			return err
		}
		if !asleep {
			continue
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
			f.log.WakeNoMore(f.wake)
			return context.Cause(ctx)
		}
	}
}

// look finds the number up to which changes can be yielded now.
func (f *Feed) look() error {
	end, err := f.end()
	if err != nil {
		return err
	}
	if end+1 < f.at.Next {
		return seglog.ErrHistoryLost // of a follower: that was a write which has failed since
	}
	f.reach = end
	return nil
}

// sleep sees to it that the feed is woken when there is a record with a higher number. It reports
// false when there is one. While a follower begins again it has no number, and keeps others out of
// the gate.
func (f *Feed) sleep(seq uint64) (asleep bool, err error) {
	err = f.store.Inside(func() error {
		asleep = f.log.WakeWhenBeyond(seq, f.wake)
		return nil
	})
	return asleep, err
}

// end returns the number of the last record that can be yielded.
func (f *Feed) end() (uint64, error) {
	last, rest, err := f.store.LastToShow()
	if err == nil && rest && f.at.Next > last {
		clear(f.open) // these groups will not count any more
	}
	return last, err
}

// step reads one record. Nothing is held when it returns.
func (f *Feed) step(e *Event) (told bool, err error) {
	before := f.at.Segment
	err = f.store.Inside(func() (err error) {
		switch {
		case f.group != nil:
			told, err = f.groupStep(e)
		case f.at.Next <= f.reach:
			told, err = f.read(e)
		}
		return err
	})
	if f.at.Segment != before {
		f.store.LetGo()
	}
	return told, err
}

// read reads the next record.
func (f *Feed) read(e *Event) (told bool, err error) {
	before := f.at.Segment
	rec, at, err := f.at.Read()
	if err != nil {
		return false, err
	}
	if f.at.Segment != before {
		f.lower(f.at.Next - 1)
	}
	switch {
	case rec.Op == record.Part:
		if rec.Index == 0 {
			f.remember(rec.Seq, at)
		}
		return false, nil
	case rec.Op == record.Commit:
		return false, f.beginGroup(&rec, at)
	case rec.Group != 0:
		if rec.Group == rec.Seq {
			f.remember(rec.Seq, at)
		}
		return false, nil
	case !f.tells(&rec):
		f.forgetParts(&rec)
		if !isElement(&rec) {
			return false, nil
		}
		return f.tellElement(e, &rec)
	}
	f.tell(e, &rec, rec.Seq)
	return true, nil
}

// tells reports whether a record is a change of an entry of the feed.
func (f *Feed) tells(rec *seglog.Record) bool {
	switch {
	case rec.Op == record.Part || rec.Op == record.Commit || rec.Kind != record.Value && rec.Kind != record.Meta || rec.Space != 0:
		return false
	case rec.Large > 0 && rec.Moved():
		return false
	case rec.Op == record.Range:
		r, err := keyrange.Deleted(rec.Key, rec.Value)
		return err == nil && f.of.Meets(&r)
	}
	return f.of.Has(rec.Key)
}

// e becomes the event of rec, once a read shows it.
func (f *Feed) tell(e *Event, rec *seglog.Record, seq uint64) {
	if rec.Op == record.Range {
		f.store.AwaitAllShown()
	} else {
		f.store.AwaitShown(rec.Kind, rec.Key)
	}
	*e = Event{Op: rec.Op, Kind: rec.Kind, Key: bytes.Clone(rec.Key), Schema: rec.Schema, Seq: seq, Time: unixMilli(rec.Written),
		Expiry: rec.Expiry, value: bytes.Clone(rec.Value), large: rec.Large, own: rec.Seq}
	if e.Collection() != "" {
		e.From = collection.RenamedFrom(e.value)
	}
	f.forgetParts(rec)
}

// Rest is the value of the record of a range deletion, whose key is Key.
func (e *Event) Rest() []byte { return e.value }

// Range returns the range that a range deletion has deleted.
func (e *Event) Range() (engine.Range, error) { return keyrange.Deleted(e.Key, e.value) }

func unixMilli(ms uint64) time.Time { return time.UnixMilli(int64(ms)) }

// fork is another feed that goes on where this one is.
func (f *Feed) fork() *Feed {
	other := *f
	other.hold, other.wake, other.open = f.hold.Fork(), make(chan struct{}, 1), maps.Clone(f.open)
	other.at = f.at.Fork()
	if f.group != nil {
		g := *f.group
		g.at, g.newest = f.group.at.Fork(), maps.Clone(g.newest)
		g.elements, g.owned = maps.Clone(g.elements), slices.Clone(g.owned)
		other.group = &g
	}
	return &other
}

// atRest reports whether the feed has yielded every change up to its reach.
func (f *Feed) atRest() bool { return f.group == nil && f.at.Next > f.reach }

// Value returns the stored value of a change that sets one. It must be called before the next
// change is read. If the value is a large one that was replaced since, and compaction has removed
// parts of it, the error is seglog.ErrHistoryLost, and the feed goes on.
func (f *Feed) Value(e *Event) ([]byte, error) { return Value(f.store, e) }

// Value is Feed.Value, for a caller without a feed.
func Value(s *engine.Store, e *Event) (value []byte, err error) {
	if e.Kind == record.Meta {
		return nil, fmt.Errorf("%w: key %q holds a %s", engine.ErrType, e.Key, e.Collection())
	}
	if e.large == 0 {
		return e.value, nil
	}
	err = s.Inside(func() (err error) {
		value, err = largeValue(s, e)
		return err
	})
	return value, err
}

func largeValue(s *engine.Store, e *Event) ([]byte, error) {
	key, now := e.Key, s.Record
	if e.Element != nil {
		key, now = e.record, s.ElementRecord
	}
	if s.Log().HasParts(e.value) {
		return seglog.ReadParts(s.Log(), seglog.Record{Head: record.Head{Seq: e.own, Large: e.large}, Key: key, Value: e.value})
	}
	// The present value may be the one of then, in another place.
	rec, err := now(key)
	switch {
	case err != nil && err != engine.ErrNotFound:
		return nil, err
	case err == nil && (rec.Seq == e.own || rec.MovedFrom() == e.own):
		return seglog.ReadParts(s.Log(), rec)
	}
	return nil, seglog.ErrHistoryLost
}

// Large is the length of a value that Value has to read, 0 for one that came with the event.
func (e *Event) Large() int64 { return int64(e.large) }

// Collection is the type of the collection of which an element has changed, or the meta has been set; "" if there is
// none.
func (e *Event) Collection() engine.CollectionType {
	if e.Element != nil {
		return e.of
	}
	if e.Kind != record.Meta || e.Op != record.Set {
		return ""
	}
	c, err := collection.ParseMeta(e.value)
	if err != nil {
		return "collection" // by another version
	}
	return c.Type
}

// mostOpen bounds the groups that a feed remembers. It finds others by their numbers, if they still
// exist.
const mostOpen = 1024

func (f *Feed) remember(number uint64, at seglog.Position) {
	if len(f.open) >= mostOpen {
		oldest := number
		for n := range f.open {
			oldest = min(oldest, n)
		}
		delete(f.open, oldest)
	}
	f.open[number] = at
}

// forgetParts forgets where the parts of a value begin, of which this is the record.
func (f *Feed) forgetParts(rec *seglog.Record) {
	if rec.Large == 0 {
		return
	}
	maps.DeleteFunc(f.open, func(_ uint64, p seglog.Position) bool { return p.BeginsParts(rec.Value) })
}

// group is a group whose members are being yielded.
type group struct {
	number, commit uint64
	pass           pass
	members        uint64                       // counted; those that the commit names
	named          uint64                       // by the commit
	newest         map[uint64]uint64            // hash of a key to the number of the last member of that key; nil if each has but one
	seed           maphash.Seed                 // of the hashes
	last           uint64                       // number of the last member with an event that is no element, 0 for none
	lastElement    uint64                       // and of the last element
	elements       map[uint64]changedCollection // by id, those with changes of elements; from the second reading on those with events
	owned          []uint64                     // ids of the collections that got their key
	drops          bool                         // a member takes back that a map was declared
	at             seglog.Cursor
}

// A pass is a reading of all members. The metas of collections come after the elements, and their
// events before them.
type pass int

const (
	counting pass = iota
	tellingEntries
	tellingElements
)

// beginGroup makes the feed yield the members of a group, of which the commit has been read.
func (f *Feed) beginGroup(commit *seglog.Record, at seglog.Position) error {
	named, err := record.ParseHex(string(commit.Value))
	if err != nil {
		return at.Corrupt("a commit that names no number of members")
	}
	g := &group{number: commit.Group, commit: commit.Seq, named: named}
	if commit.Seq-commit.Group != named { // there are others in between, so it was not written at once
		g.newest, g.seed = map[uint64]uint64{}, maphash.MakeSeed()
	}
	f.group = g
	f.rewind()
	return nil
}

// rewind goes to the first member.
func (f *Feed) rewind() {
	g := f.group
	g.at.Start(f.log, g.number, f.open[g.number])
}

// groupStep reads one record of those from the first member to the commit.
func (f *Feed) groupStep(e *Event) (told bool, err error) {
	g := f.group
	if g.at.Next == g.commit {
		return f.groupRead(e)
	}
	rec, _, err := g.at.Read()
	if err != nil || rec.Group != g.number {
		return false, err
	}
	switch g.pass {
	case counting:
		g.count(f, &rec)
	case tellingEntries:
		if f.tells(&rec) && g.isNewest(&rec) {
			f.tell(e, &rec, g.commit)
			g.complete(e)
			e.More = rec.Seq != g.last || g.lastElement > 0
			return true, nil
		}
	case tellingElements:
		if isElement(&rec) && g.isNewest(&rec) && f.tellMember(e, &rec) {
			e.More = rec.Seq != g.lastElement
			return true, nil
		}
	}
	return false, nil
}

// count takes notice of a member, when it is read for the first time.
func (g *group) count(f *Feed, rec *seglog.Record) {
	g.members++
	g.drops = g.drops || engine.UndeclaresMap(rec)
	f.forgetParts(rec) // which stay until the group has been yielded
	switch {
	case f.tells(rec):
		g.last = rec.Seq
	case isElement(rec):
		g.noteElement(rec)
	default:
		return
	}
	if g.newest != nil {
		g.newest[g.hash(rec)] = rec.Seq
	}
}

// hash returns the hash of a key among those of its kind: an element may have the key of a user's
// entry.
func (g *group) hash(rec *seglog.Record) uint64 {
	hash := maphash.Bytes(g.seed, rec.Key)
	if rec.Kind == record.Element {
		hash = ^hash
	}
	return hash
}

// isNewest reports whether the group has no later member of the same key.
func (g *group) isNewest(rec *seglog.Record) bool {
	return g.newest == nil || g.newest[g.hash(rec)] == rec.Seq
}

// complete adds the facts from other members to the event of a member.
func (g *group) complete(e *Event) {
	e.Drops = g.drops && e.Op == record.Range
	if e.Collection() != "" && e.From == nil {
		c, err := collection.ParseMeta(e.value)
		e.Created = err == nil && slices.Contains(g.owned, c.ID)
	}
}

// groupRead is called when the commit has been reached.
func (f *Feed) groupRead(e *Event) (told bool, err error) {
	g := f.group
	if g.pass == counting {
		if g.members != g.named {
			return false, &seglog.CorruptError{File: f.log.Dir, Reason: fmt.Sprintf("group %x has %d members, and its commit, record %d, names %d", g.number, g.members, g.commit, g.named)}
		}
		if err := f.findChanged(); err != nil {
			return false, err
		}
		if g.pass = tellingEntries; g.last > 0 {
			f.rewind()
			return false, nil
		}
	}
	if g.pass == tellingEntries {
		if g.pass = tellingElements; g.lastElement > 0 {
			f.rewind()
			return false, nil
		}
	}
	g.at.Leave()
	delete(f.open, g.number)
	f.group = nil
	return false, nil
}
