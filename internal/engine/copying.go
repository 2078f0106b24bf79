package engine

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// partPlace is where a part of a value stands.
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
	switch {
	case e.Op == record.Commit && c.spread[e.Group] == nil:
		return c.commit(e)
	case e.Op == record.Commit && c.keepsCommit(e.Group):
		return c.put(&e, 0)
	case e.Op == record.Commit:
		return nil
	case c.spread[e.Group] != nil:
		return c.single(seglog.AddressOf(seg.Slot, at), e)
	case e.Group != 0: // it counts as newer than all before the commit, and goes where that is
		e.Key, e.Value = append([]byte(nil), e.Key...), append([]byte(nil), e.Value...)
		c.groups[e.Group] = append(c.groups[e.Group], seglog.Member{Record: e, Address: seglog.AddressOf(seg.Slot, at)})
		return nil
	case e.Op == record.Part:
		return c.part(partPlace{seg.ID, at}, e)
	}
	return c.single(seglog.AddressOf(seg.Slot, at), e)
}

// commit copies the members of a group as records that count by themselves.
func (c *compaction) commit(e seglog.Record) error {
	if c.givenUp[e.Group] {
		return fmt.Errorf("%w: group %x has a commit in another segment, and is not known to", errLeft, e.Group)
	}
	members := c.groups[e.Group]
	delete(c.groups, e.Group)
	for _, m := range members {
		m.Group, m.Seq = 0, e.Seq
		if err := c.single(m.Address, m.Record); err != nil {
			return err
		}
	}
	return nil
}

// single copies a record that is neither part nor commit.
func (c *compaction) single(a seglog.Address, e seglog.Record) error {
	if e.Kind == record.Schema || e.Kind == record.System {
		return c.put(&e, 0)
	}
	var t *Table
	if sp := c.store.spaces[e.Space]; sp != nil {
		t = sp.route(e.Kind, e.Key)
	}
	switch {
	case e.Op == record.Range:
		return c.tombstone(a, &e)
	case t == nil:
		return fmt.Errorf("%w: nothing is known of key space %d", errLeft, e.Space)
	}
	tells := e.Op == record.Delete || e.Expiry > 0 // that it has expired says that older ones are gone
	live, gone, err := c.store.standing(t, e.Key, a, tells)
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

// standing reports whether the record at a is the newest of its key, and, if ask is true, whether the key has no entry. What the
// index would have to be told of the record later, it is told now, so that it has no address of a dead record.
func (s *Store) standing(t *Table, key []byte, a seglog.Address, ask bool) (live, gone bool, err error) {
	hash := t.hash(key)
	mu := s.lockOf(hash)
	mu.Lock()
	defer mu.Unlock()
	if c := t.cells.Load(); c != nil {
		if cell := c.table.Find(hash, view(key[t.prefix:])); cell != nil {
			if cell.Stale == a {
				t.settle(cell)
				cell.Stale = 0
			}
			return cell.Address == a, ask && cell.Address == 0, nil
		}
	}
	if live, err = t.index.Has(hash, a); live || err != nil || !ask {
		return live, false, err
	}
	h, err := t.find(hash, key)
	return false, h.address == 0, err
}

// tombstone copies a record that says that something is gone, unless nothing of that can be in an older segment.
// It becomes a deletion, if it is not one.
//
// What has expired left the index at a time that no number tells, so an index snapshot may have it that covers
// its record. It is a deletion with a deadline then, until there is a snapshot that was begun
// after that was written: one that names its segment.
func (c *compaction) tombstone(a seglog.Address, e *seglog.Record) error {
	slot, _ := seglog.SplitAddress(a)
	_, snapshot := c.log.SnapshotSeq()
	known := e.Expiry != 0 && snapshot && (e.Op == record.Set || !c.log.SnapshotNames(c.log.Segment(slot).ID))
	if c.numberOf(&e.Head) <= c.clean && !known {
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
	sp := c.store.spaces[e.Space]
	if sp == nil {
		return nil
	}
	owner, err := c.owner(sp.route(e.Kind, e.Key), e.Key)
	if err != nil || owner == 0 || !c.large.places[at] {
		return err
	}
	slot, _ := seglog.SplitAddress(owner)
	seg := c.log.Segment(slot)
	if !c.has(seg) {
		return c.rewrite(sp.route(e.Kind, e.Key), e.Key, owner)
	}
	if err := c.put(&e, 0); err != nil {
		return err
	}
	o := c.outputs[len(c.outputs)-1]
	c.places[at] = o.Seg.ID.String() + "." + strconv.FormatInt(o.last, 16)
	return nil
}

// rewrite writes a large value anew at the end of the log, with another number and time, because its parts begin in the run and the record that
// lists them is beyond it. To make the run longer would not do: where such values follow on each other, there
// is one across the end of every segment, up to the tail. An entry that is written meanwhile stays as it is then.
func (c *compaction) rewrite(t *Table, key []byte, owner seglog.Address) error {
	s, l := c.store, c.log
	e, err := s.readAt(owner, nil)
	if err == nil {
		err = l.Reserve(int64(e.Large))
	}
	if err != nil {
		return err
	}
	under := l.BeginParts()
	defer l.EndParts(under)
	now := seglog.Pending{Head: e.Head, Key: e.Key}
	now.Group = 0
	now.SetMoved(e.Seq)
	if now.Value, err = c.rewriteParts(&e); err != nil {
		return err
	}
	c.large = largeList{}
	hash := t.hash(key)
	mu := s.lockOf(hash)
	mu.Lock()
	defer mu.Unlock()
	var st state
	if err := s.stateLocked(&st, t, hash, key); err != nil || st.address != owner {
		return err
	}
	if err := s.appendFor(t, &now); err != nil {
		return err
	}
	s.renumbered(&now)
	h := hitOf(now.Address, &now.Head, now.Bytes)
	t.moveLocked(hash, key, owner, &h)
	s.revive(&h)
	s.bury(&st.hit)
	return nil
}

// rewriteParts writes the parts of a value anew, one at a time, and returns the list.
func (c *compaction) rewriteParts(e *seglog.Record) ([]byte, error) {
	return c.store.copyParts(e, func(p *seglog.Pending) error {
		err := c.log.Append(p)
		if err == nil {
			c.store.renumbered(p)
		}
		return err
	})
}

// copyParts gives the parts of a value to put, one at a time, which appends them, and returns the list of the copies.
func (s *Store) copyParts(e *seglog.Record, put func(*seglog.Pending) error) ([]byte, error) {
	words, piece, err := s.log.PartList(e)
	if err != nil {
		return nil, err
	}
	list := []byte(record.Hex(piece))
	buf := make([]byte, piece+record.MaxHeadBytes+uint64(len(e.Key))+2)
	p := seglog.Pending{Head: record.Head{Op: record.Part, Kind: e.Kind, Space: e.Space, Schema: e.Schema}, Key: e.Key}
	for i, word := range words {
		old, err := s.readPart(word, buf)
		if err != nil {
			return nil, err
		}
		if !old.IsPart(e, i, 0) {
			return nil, s.log.BadParts(e, "%s is not its part %d", word, i)
		}
		p.Index, p.Value = uint64(i), old.Value
		p.KeyBytes, p.ValueBytes = len(p.Key), len(p.Value)
		if err := put(&p); err != nil {
			return nil, err
		}
		list = p.AppendPlace(list)
		partCopied()
	}
	return list, nil
}

// partCopied is called when a part of a large value has been written anew. It is a variable for the sake of tests.
var partCopied = func() {}

// renumbered notes that a record says what counts since before it.
func (s *Store) renumbered(p *seglog.Pending) {
	slot, _ := seglog.SplitAddress(p.Address)
	s.notes.of(s.log.Segment(slot)).renumbered.Store(true)
}

func (c *compaction) has(seg *seglog.Segment) bool {
	for _, s := range c.run {
		if s == seg {
			return true
		}
	}
	return false
}

// owner finds the newest record of a key, if it lists parts, and reads the list. It returns 0 when there is none.
func (c *compaction) owner(t *Table, key []byte) (seglog.Address, error) {
	s := c.store
	hash := t.hash(key)
	mu := s.lockOf(hash)
	mu.Lock()
	defer mu.Unlock()
	var now state
	if err := s.stateLocked(&now, t, hash, key); err != nil {
		return 0, err
	}
	if now.address == c.large.address || now.address == 0 {
		return now.address, nil
	}
	e, err := s.readAt(now.address, nil)
	if err != nil {
		return 0, err
	}
	c.large = largeList{address: now.address, places: map[partPlace]bool{}}
	if e.Large == 0 {
		return 0, nil
	}
	for _, word := range strings.Split(string(e.Value), " ")[1:] {
		id, offset, err := seglog.ParsePlace(word)
		if err != nil {
			slot, at := seglog.SplitAddress(now.address)
			return 0, seglog.FormatError(s.log.Segment(slot).Path, at, err)
		}
		c.large.places[partPlace{id, offset}] = true
	}
	return now.address, nil
}

// rewritten is the list of a large value with the new places of the parts that were copied.
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
	note *note            // of the segment
	last int64            // offset of the last record
	from []seglog.Address // where the entries stood before, in their order
}

// put appends a record to the new segments. from is the old address of an entry, or 0.
func (c *compaction) put(e *seglog.Record, from seglog.Address) error {
	o, err := c.output()
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
	case h.Op == record.Delete || h.Op == record.Range:
		o.Seg.Dead.Add(int64(n))
		from := &o.note.keptFrom
		if h.Expiry != 0 {
			from = &o.note.datedFrom
		}
		if number := c.numberOf(&h); *from == 0 || number < *from {
			*from = number
		}
		o.note.kept += int64(n)
	}
	if h.Group != 0 && h.Op != record.Commit {
		c.regrouped(h.Group, o.Seg.ID)
	}
	if o.Full() {
		c.store.house.written.Add(int64(len(o.Buf)))
		return o.Write()
	}
	return nil
}

// output is the segment for the next record. As many are made as the run may have names for.
func (c *compaction) output() (*output, error) {
	n := len(c.outputs)
	if n > 0 {
		o := c.outputs[n-1]
		if o.End < c.target || c.header.ID.Order() >= c.header.Through {
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
	o := &output{SegmentCopy: made, note: &note{of: made.Seg}}
	c.outputs = append(c.outputs, o)
	return o, nil
}
