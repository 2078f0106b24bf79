package redisstream

import (
	"encoding/binary"
	"math"
	"strconv"
)

// A stream is a collection of type stream, whose elements are identified by the first byte of their
// names:
//
//	e id                        an entry: its fields and values
//	m                           facts that are not in the entries: Head
//	g group                     the place of a group of consumers: Group
//	c <group> consumer          a consumer: Consumer
//	p <group> id                a pending entry of the group: Pending
//	d <group> <consumer> id     the same by its consumer; empty
//
// Names in <> follow their lengths, so that none is the beginning of another. An id is 16 bytes,
// the most significant first. So entries, and pending ones, are in the order of ids, and the order
// of the elements counts them and finds them. Numbers are base 128, low digits first, as in
// encoding/binary.

// ID is the name of an entry: milliseconds since 1970, and a number among those of one millisecond.
type ID struct{ MS, Seq uint64 }

// LastID is the highest.
var LastID = ID{math.MaxUint64, math.MaxUint64}

// Less reports whether the id is before another.
func (id ID) Less(o ID) bool { return id.MS < o.MS || id.MS == o.MS && id.Seq < o.Seq }

// IsZero reports whether it is 0-0, which no entry has.
func (id ID) IsZero() bool { return id == ID{} }

// Next returns the id that follows. ok is false after the last.
func (id ID) Next() (after ID, ok bool) {
	if id.Seq++; id.Seq == 0 {
		id.MS++
	}
	return id, !id.IsZero()
}

// Previous is the id before. ok is false for the first.
func (id ID) Previous() (before ID, ok bool) {
	if id.Seq--; id.Seq == math.MaxUint64 {
		id.MS--
	}
	return id, id != LastID
}

// Append appends the text of the id.
func (id ID) Append(dst []byte) []byte {
	return strconv.AppendUint(append(strconv.AppendUint(dst, id.MS, 10), '-'), id.Seq, 10)
}

// Bytes are the 16 bytes of the id in names.
func (id ID) Bytes() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, id.MS), id.Seq)
}

// MaxID is the higher of two.
func MaxID(a, b ID) ID {
	if a.Less(b) {
		return b
	}
	return a
}

// IDOf reads the id that ends the name of an element.
func IDOf(name string) (id ID, ok bool) {
	if len(name) < 16 {
		return id, false
	}
	b := []byte(name[len(name)-16:])
	return ID{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}, true
}

// The names of elements, or the beginnings of them.

// HeadName is the name of the Head.
const HeadName = "m"

// EntryName is the name of an entry.
func EntryName(id ID) string { return "e" + string(id.Bytes()) }

// GroupName is the name of a Group.
func GroupName(group string) string { return "g" + group }

// ConsumersOf returns the prefix of the names of a group's consumers.
func ConsumersOf(group string) string { return "c" + withLength(group) }

// PendingOf returns the prefix of the names of a group's pending entries.
func PendingOf(group string) string { return "p" + withLength(group) }

// ConsumerName is the name of a Consumer.
func ConsumerName(group, consumer string) string { return ConsumersOf(group) + consumer }

// PendingName is the name of a Pending.
func PendingName(group string, id ID) string { return PendingOf(group) + string(id.Bytes()) }

// DeliveredOf returns the prefix of the names of a group's pending entries by their consumers.
func DeliveredOf(group string) string { return "d" + withLength(group) }

// DeliveredTo returns the prefix of the names of a consumer's pending entries.
func DeliveredTo(group, consumer string) string { return DeliveredOf(group) + withLength(consumer) }

// DeliveredName is the name of a pending entry by its consumer.
func DeliveredName(group, consumer string, id ID) string {
	return DeliveredTo(group, consumer) + string(id.Bytes())
}

// withLength returns a name after its length.
func withLength(name string) string {
	return string(append(binary.AppendUvarint(nil, uint64(len(name))), name...))
}

// Split reads the rest of a name after its first byte: a name after its length, and the rest.
func Split(name string) (first, rest string, ok bool) {
	n, width := binary.Uvarint([]byte(name[:min(len(name), binary.MaxVarintLen64)]))
	if width <= 0 || n > uint64(len(name)-width) {
		return "", "", false
	}
	return name[width : width+int(n)], name[width+int(n):], true
}

// Ending returns a name after all names that begin so.
func Ending(prefix string) string {
	b := []byte(prefix)
	for len(b) > 0 && b[len(b)-1] == 0xff {
		b = b[:len(b)-1]
	}
	b[len(b)-1]++
	return string(b)
}

// The values of elements.

// Head is the facts about a stream that are not in its entries. It is written by removals of
// entries, and not by additions.
type Head struct {
	Last       ID    // the last id that was ever given; the id of the last entry if that is higher
	MaxDeleted ID    // the highest that XDEL has deleted
	Gone       int64 // entries that were added and are not there
	By         By    // the kind of its writer, for watches
}

// By is the kind of the writer of a Head.
type By uint64

// The kinds of writers.
const (
	Making By = iota
	Setting
	Trimming
	Deleting
)

// Value is the value of the element.
func (h *Head) Value() []byte {
	value := binary.AppendVarint(append(h.Last.Bytes(), h.MaxDeleted.Bytes()...), h.Gone)
	return binary.AppendUvarint(value, uint64(h.By))
}

// Group is the place of a group in its stream.
type Group struct {
	Last ID     // that was delivered
	Read int64  // how many entries were read up to there, negative if that is not known
	Sets uint64 // how often the place was set since the group was made
}

// ReadUnknown is the Read that is not known.
const ReadUnknown = -1

// Value is the value of the element.
func (g *Group) Value() []byte {
	return binary.AppendUvarint(binary.AppendVarint(g.Last.Bytes(), g.Read), g.Sets)
}

// Consumer has the times of a consumer, in milliseconds since 1970.
type Consumer struct {
	Made   int64 // when it came to be
	Seen   int64 // when it last tried to get entries
	Active int64 // when it last got any, -1 for never
}

// Value is the value of the element.
func (c *Consumer) Value() []byte {
	return binary.AppendVarint(binary.AppendVarint(binary.AppendVarint(nil, c.Made), c.Seen), c.Active)
}

// Pending is an entry that a consumer has got and not acknowledged.
type Pending struct {
	ID       ID
	At       int64  // when it was delivered, in milliseconds since 1970
	Times    int64  // that it was delivered
	Consumer string // to which
}

// Value is the value of the element.
func (p *Pending) Value() []byte {
	return append(binary.AppendVarint(binary.AppendVarint(nil, p.At), p.Times), p.Consumer...)
}

// AppendFields appends the fields and values of an entry.
func AppendFields(dst []byte, list [][]byte) []byte {
	for _, each := range list {
		dst = append(binary.AppendUvarint(dst, uint64(len(each))), each...)
	}
	return dst
}

// FieldsOf parses the result of AppendFields.
func FieldsOf(value []byte) (list [][]byte, ok bool) {
	for len(value) > 0 {
		n, width := binary.Uvarint(value)
		if width <= 0 || n > uint64(len(value)-width) {
			return nil, false
		}
		list = append(list, value[width:width+int(n)])
		value = value[width+int(n):]
	}
	return list, len(list)%2 == 0
}

// numberReader reads numbers and ids, and notes when there are none.
type numberReader struct {
	left []byte
	bad  bool
}

func (r *numberReader) id() ID {
	id, ok := IDOf(string(r.left[:min(16, len(r.left))]))
	if !ok {
		r.bad = true
		return id
	}
	r.left = r.left[16:]
	return id
}

func (r *numberReader) number() int64 {
	n, width := binary.Varint(r.left)
	if width <= 0 {
		r.bad = true
		return 0
	}
	r.left = r.left[width:]
	return n
}

func (r *numberReader) count() uint64 {
	n, width := binary.Uvarint(r.left)
	if width <= 0 {
		r.bad = true
		return 0
	}
	r.left = r.left[width:]
	return n
}

// ParseHead reads the value of a Head. ok is false if it is none.
func ParseHead(value []byte) (h Head, ok bool) {
	r := numberReader{left: value}
	h = Head{r.id(), r.id(), r.number(), By(r.count())}
	return h, !r.bad
}

// ParseGroup reads the value of a Group. ok is false if it is none.
func ParseGroup(value []byte) (g Group, ok bool) {
	r := numberReader{left: value}
	g = Group{r.id(), r.number(), r.count()}
	return g, !r.bad
}

// ParseConsumer reads the value of a Consumer. ok is false if it is none.
func ParseConsumer(value []byte) (c Consumer, ok bool) {
	r := numberReader{left: value}
	c = Consumer{r.number(), r.number(), r.number()}
	return c, !r.bad
}

// ParsePending reads the name and the value of a Pending. ok is false if it is none.
func ParsePending(name string, value []byte) (p Pending, ok bool) {
	r := numberReader{left: value}
	p.ID, ok = IDOf(name)
	p.At, p.Times = r.number(), r.number()
	p.Consumer = string(r.left)
	return p, ok && !r.bad
}

// Figures are the numbers by which the places of groups are counted.
type Figures struct {
	First, Last, MaxDeleted ID
	Length, Added           int64
}

// HolesBehind reports whether XDEL has, or may have, taken out entries from an id on.
func (f *Figures) HolesBehind(id ID) bool {
	return f.Length > 0 && !f.MaxDeleted.IsZero() && !f.MaxDeleted.Less(f.First) && !f.MaxDeleted.Less(id)
}

// Place is how many entries have been added up to an id, as far as Redis would know it: ReadUnknown if it does not.
func (f *Figures) Place(id ID) int64 {
	switch {
	case f.Added == 0:
		return 0
	case f.Length == 0 && !f.Last.Less(id):
		return f.Added
	case id == f.Last:
		return f.Added
	case f.Last.Less(id):
		return ReadUnknown
	case !f.MaxDeleted.IsZero() && !f.MaxDeleted.Less(f.First):
		return ReadUnknown
	case id.Less(f.First):
		return f.Added - f.Length
	case id == f.First:
		return f.Added - f.Length + 1
	}
	return ReadUnknown
}

// Lag is how many entries a group has not got yet. ok is false if that is not known.
func (f *Figures) Lag(g *Group) (n int64, ok bool) {
	if f.Added == 0 {
		return 0, true
	}
	if g.Read >= 0 && !f.HolesBehind(g.Last) {
		return f.Added - g.Read, true
	}
	place := f.Place(g.Last)
	return f.Added - place, place >= 0
}
