package compaction

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// partPlace is the place of a part of a value.
type partPlace struct {
	segment record.SegmentID
	offset  int64
}

// largeList is the list of parts of one value.
type largeList struct {
	address seglog.Address
	places  map[partPlace]bool
}

// record copies a record if it counts. The caller is inside the gate.
func (c *compaction) record(seg *seglog.Segment, at int64, e seglog.Record) error {
	if len(c.waiting) > 0 && c.waiting[0].Group != e.Group {
		c.giveUpGroup()
	}
	switch {
	case e.Op == record.Commit:
		return c.commit(e)
	case e.Group != 0:
		return c.member(seglog.AddressOf(seg.Slot, at), e)
	case e.Op == record.Part:
		return c.part(partPlace{seg.ID, at}, e)
	}
	return c.single(seglog.AddressOf(seg.Slot, at), e)
}

// single copies a record that is neither part nor commit.
func (c *compaction) single(a seglog.Address, e seglog.Record) error {
	if e.Kind == record.Schema || e.Kind == record.System {
		return c.put(&e, 0)
	}
	t := c.store.TableOf(e.Space, e.Kind, e.Key)
	switch {
	case e.Op == record.Range:
		return c.tombstone(a, &e)
	case t == nil:
		return fmt.Errorf("%w: nothing is known of key space %d", errLeft, e.Space)
	}
	live, gone, err := c.standing(t, &e, a)
	switch {
	case err != nil:
		return err
	case live && e.Large > 0:
		if e.Value, err = c.rewritten(&e); err != nil {
			return err
		}
		return c.put(&e, a)
	case live:
		return c.put(&e, a)
	case gone:
		return c.tombstone(a, &e)
	}
	return nil
}

// tombstone copies a deletion or an expired record, unless no older segment can have a record of
// its entry. The copy is a deletion.
//
// An expired entry left the index at a time without a sequence number, so an index snapshot that
// covers its record may still have it. The copy is a deletion with a deadline then, until there is
// a snapshot that was begun after it was written: one that names its segment.
func (c *compaction) tombstone(a seglog.Address, e *seglog.Record) error {
	slot, _ := seglog.SplitAddress(a)
	_, snapshot := c.log.SnapshotSeq()
	known := e.Expiry != 0 && e.Op != record.Expire && snapshot && (e.Op == record.Set || !c.log.SnapshotNames(c.log.Segment(slot).ID))
	if e.Counts() <= c.clean && !known {
		return nil
	}
	if e.Op == record.Set {
		e.Head = record.Head{Op: record.Delete, Kind: e.Kind, Space: e.Space, Seq: e.Seq, Expiry: e.Expiry, Group: e.Group}
		e.Value = nil
	}
	return c.put(e, 0)
}

// part copies a part of a value if the newest record of its key lists it.
func (c *compaction) part(at partPlace, e seglog.Record) error {
	if c.past != nil {
		return c.pastPart(at, &e)
	}
	t := c.store.TableOf(e.Space, e.Kind, e.Key)
	if t == nil {
		return nil
	}
	owner, err := c.owner(c.store, t, e.Key, &c.lists[0])
	if err != nil || owner == 0 || !c.lists[0].places[at] {
		return err
	}
	slot, _ := seglog.SplitAddress(owner)
	seg := c.log.Segment(slot)
	if !c.has(seg) {
		return c.rewrite(t, e.Key, owner)
	}
	return c.putPart(at, &e)
}

// putPart copies a part, and notes the place of the copy.
func (c *compaction) putPart(at partPlace, e *seglog.Record) error {
	if err := c.put(e, 0); err != nil {
		return err
	}
	o := c.outputs[len(c.outputs)-1]
	c.places[at] = o.Seg.ID.String() + "." + strconv.FormatInt(o.last, 16)
	return nil
}

// rewrite writes a large value anew at the end of the log, because its parts begin in the run and the record
// that lists them is beyond it. A longer run would not help: if such values follow each other, there is one
// across the end of every segment, up to the tail.
func (c *compaction) rewrite(t *engine.Table, key []byte, owner seglog.Address) error {
	c.lists[0] = largeList{}
	return t.Rewrite(key, owner)
}

func (c *compaction) has(seg *seglog.Segment) bool {
	for _, s := range c.run {
		if s == seg {
			return true
		}
	}
	return false
}

// owner returns the address of a key's newest record in a store, if that lists parts, and reads the list. It
// returns 0 for none.
func (c *compaction) owner(s *engine.Store, t *engine.Table, key []byte, list *largeList) (seglog.Address, error) {
	now, err := t.AddressOf(key)
	if err != nil || now == list.address || now == 0 {
		return now, err
	}
	slot, at := seglog.SplitAddress(now)
	seg := s.Log().Segment(slot)
	e, err := seg.Read(at, nil)
	if err != nil {
		return 0, err
	}
	*list = largeList{address: now, places: map[partPlace]bool{}}
	if e.Large == 0 {
		return 0, nil
	}
	return now, c.addPlaces(list.places, &e, seg)
}

// addPlaces adds the places of the parts that a record lists.
func (c *compaction) addPlaces(places map[partPlace]bool, e *seglog.Record, seg *seglog.Segment) error {
	for _, word := range strings.Split(string(e.Value), " ")[1:] {
		id, offset, err := seglog.ParsePlace(word)
		if err != nil {
			return seglog.FormatError(seg.Path, 0, fmt.Errorf("record %d: %w", e.Seq, err))
		}
		places[partPlace{id, offset}] = true
	}
	return nil
}

// rewritten returns the list of a large value with the new places of the copied parts.
func (c *compaction) rewritten(e *seglog.Record) ([]byte, error) {
	words := strings.Split(string(e.Value), " ")
	for i, word := range words[1:] {
		id, offset, err := seglog.ParsePlace(word)
		if err != nil {
			return nil, &seglog.CorruptError{File: c.log.Dir, Reason: fmt.Sprintf("record %d: %v", e.Seq, err)}
		}
		now, ok := c.places[partPlace{id, offset}]
		switch {
		case ok:
			words[i+1] = now
			delete(c.places, partPlace{id, offset})
		case c.log.ByID(id) == nil || c.has(c.log.ByID(id)):
			return nil, &seglog.CorruptError{File: c.log.Dir, Reason: fmt.Sprintf("record %d lists a part at %s, and there is none", e.Seq, word)}
		}
	}
	return []byte(strings.Join(words, " ")), nil
}

// output is a new segment that is being written.
type output struct {
	seglog.SegmentCopy
	note  *note            // of the segment
	last  int64            // offset of the last record
	group uint64           // of that, 0 for none
	from  []seglog.Address // the previous addresses of the entries, in their order
}

// put appends a record to the new segments. from is the old address of an entry, or 0.
func (c *compaction) put(e *seglog.Record, from seglog.Address) error {
	o, err := c.output(e.Group)
	if err != nil {
		return err
	}
	h := e.Head
	h.Time = e.Written - c.header.Start
	o.last = o.End
	n := o.Add(&h, e.Key, e.Value)
	if o.End > seglog.MaxSegmentBytes {
		return fmt.Errorf("%w: it does not fit", errLeft)
	}
	switch {
	case from != 0:
		o.from = append(o.from, from)
	case h.Kind == record.System: // it stays for ever
	case h.IsDeletion() || h.Op == record.Range:
		o.Seg.Dead.Add(int64(n))
		from := &o.note.keptFrom
		if h.Expiry != 0 && h.Op != record.Expire {
			from = &o.note.datedFrom
		}
		if number := e.Counts(); *from == 0 || number < *from {
			*from = number
		}
		o.note.kept += int64(n)
	}
	if o.group = h.Group; c.spread[h.Group] != nil && h.Op != record.Commit {
		if c.members[h.Group] == nil {
			c.members[h.Group] = map[record.SegmentID]bool{}
		}
		c.members[h.Group][o.Seg.ID] = true
	}
	if o.Full() {
		c.keeper.written.Add(int64(len(o.Buf)))
		return o.Write()
	}
	return nil
}

// output returns the segment for the next record, which is of this group. There are at most as many as the run has
// names for. A group that was one append stays in one.
func (c *compaction) output(group uint64) (*output, error) {
	n := len(c.outputs)
	if n > 0 {
		o := c.outputs[n-1]
		together := group != 0 && group == o.group && c.spread[group] == nil
		if o.End < c.target || together || c.header.ID.Order() >= c.header.Through {
			return o, nil
		}
		if err := o.Finish(); err != nil {
			return nil, seglog.NoSpace(err)
		}
		c.header.ID = record.NewSegmentID(c.header.ID.Order()+1, c.header.ID.Generation())
	}
	made, err := c.log.CreateCopy(&c.header)
	if err != nil {
		return nil, err
	}
	o := &output{SegmentCopy: made, note: &note{}}
	c.outputs = append(c.outputs, o)
	return o, nil
}
