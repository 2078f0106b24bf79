package index

import (
	"encoding/binary"
	"errors"
)

// Part is the content of a shard: its entries in their order, SlotBytes each, and the number of
// entries of each schema.
//
// An entry is three numbers of four bytes, low byte first: the part of the hash by which entries are
// ordered, the offset of the address, and the upper half of the address above 12 more bits of the hash.
type Part struct {
	Entries []byte
	Schemas []SchemaCount
}

// Count is the announced content of a part that has yet to be brought in.
type Count struct {
	Entries int64
	Schemas []SchemaCount
}

// ErrPart: the bytes of a Part are invalid.
var ErrPart = errors.New("not the entries of a part of the index")

// Defer leaves the entries of an empty table where they are until they are asked for. counts says
// how many each of the Shards has, and load gets them. load is called for one shard at a time. It
// holds no lock of the table, except one that keeps others from bringing in the same shard. A
// look-up that brings in a shard returns its error, and the next one tries again.
func (t *Table) Defer(counts *[Shards]Count, load func(n int) (Part, error)) {
	t.load = load
	total := int64(0)
	for n := range counts {
		if c := &counts[n]; c.Entries > 0 {
			s := t.made(n)
			s.deferred, s.schemas = true, c.Schemas
			total += c.Entries
		}
	}
	t.count.Store(total)
}

// Deferred reports whether a shard has yet to be brought in.
func (t *Table) Deferred(n int) bool {
	s := t.shard(n)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.deferred
}

// reading returns a shard, brought in and locked for reading.
func (t *Table) reading(n int) (*shard, error) {
	s := t.shard(n)
	s.mu.RLock()
	for s.deferred {
		s.mu.RUnlock()
		if err := t.bringIn(n); err != nil {
			return nil, err
		}
		s.mu.RLock()
	}
	return s, nil
}

// writing locks a shard, which has been read before.
func (s *shard) writing() *shard {
	s.mu.Lock()
	if s.deferred {
		s.mu.Unlock()
		panic("index: a change of what was never looked for")
	}
	return s
}

// bringIn loads a shard, unless another has done it since.
func (t *Table) bringIn(n int) error {
	s := t.shard(n)
	s.loading.Lock()
	defer s.loading.Unlock()
	if !t.Deferred(n) {
		return nil
	}
	p, err := t.load(n)
	if err != nil || !t.Deferred(n) {
		return err
	}
	return t.Fill(n, p)
}

// Fill puts the entries of a part in the place of those that were deferred. In a shard that was brought in
// already it does nothing.
func (t *Table) Fill(n int, p Part) error {
	if err := p.Check(); err != nil {
		return err
	}
	s := t.shard(n)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.deferred {
		return nil
	}
	counted := int64(0)
	for _, c := range s.schemas {
		counted += c.Entries
	}
	entries := p.slots()
	s.homes = len(entries) + len(entries)/7
	if len(entries) > 0 {
		s.growFromLocked(entries)
	}
	t.grew(int64(len(s.slots)) * SlotBytes)
	s.used, s.schemas, s.deferred = len(entries), p.Schemas, false
	t.count.Add(int64(len(entries)) - counted)
	return nil
}

// Check returns ErrPart if no table holds such entries.
func (p *Part) Check() error {
	if len(p.Entries)%SlotBytes != 0 {
		return ErrPart
	}
	last := uint32(0)
	for i := 0; i < len(p.Entries); i += SlotBytes {
		order, offset := binary.LittleEndian.Uint32(p.Entries[i:]), binary.LittleEndian.Uint32(p.Entries[i+4:])
		if offset == 0 || order < last {
			return ErrPart
		}
		last = order
	}
	return nil
}

// slots decodes the entries.
func (p *Part) slots() []slot {
	list := make([]slot, len(p.Entries)/SlotBytes)
	for i := range list {
		b := p.Entries[i*SlotBytes:]
		list[i] = slot{binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:])}
	}
	return list
}

// Part appends to dst the entries of a shard that is not deferred.
func (t *Table) Part(dst []byte, n int) Part {
	s := t.shard(n)
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, e := range s.slots {
		if e.offset != 0 {
			dst = binary.LittleEndian.AppendUint32(dst, e.order)
			dst = binary.LittleEndian.AppendUint32(dst, e.offset)
			dst = binary.LittleEndian.AppendUint32(dst, e.rest)
		}
	}
	return Part{Entries: dst, Schemas: append([]SchemaCount(nil), s.schemas...)}
}

// Translate puts b in the place of the address of each entry, where each(a) is b, and reports false as soon as ok is.
func (p *Part) Translate(each func(a Address) (b Address, ok bool)) bool {
	for i := 0; i+SlotBytes <= len(p.Entries); i += SlotBytes {
		offset, rest := p.Entries[i+4:i+8], p.Entries[i+8:i+12]
		r := binary.LittleEndian.Uint32(rest)
		b, ok := each(Address(r>>12)<<32 | Address(binary.LittleEndian.Uint32(offset)))
		if !ok {
			return false
		}
		binary.LittleEndian.PutUint32(offset, uint32(b))
		binary.LittleEndian.PutUint32(rest, uint32(b>>32)<<12|r&0xfff)
	}
	return true
}
