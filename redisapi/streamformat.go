package redisapi

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"strconv"

	"github.com/copaldb/copal"
)

// A stream is a collection of type stream, whose elements are told by the first byte of their names:
//
//	e id                        an entry: its fields and values
//	m                           what the entries do not tell: streamHead
//	g group                     the place of a group of consumers: groupState
//	c <group> consumer          a consumer: consumerState
//	p <group> id                a pending entry of the group: pendingEntry
//	d <group> <consumer> id     the same by its consumer; empty
//
// Names in <> stand behind their lengths, so that none is the beginning of another. An id is 16 bytes, the most
// significant first. So entries, and what is pending, stand in the order of ids, and the order of the elements
// counts them and finds them. Numbers are base 128, low digits first, as in encoding/binary.

// streamID is the name of an entry: milliseconds since 1970, and a number among those of one millisecond.
type streamID struct{ ms, seq uint64 }

var lastStreamID = streamID{math.MaxUint64, math.MaxUint64}

func (id streamID) less(o streamID) bool { return id.ms < o.ms || id.ms == o.ms && id.seq < o.seq }

func (id streamID) isZero() bool { return id == streamID{} }

// next is the id that follows. ok is false behind the last.
func (id streamID) next() (after streamID, ok bool) {
	if id.seq++; id.seq == 0 {
		id.ms++
	}
	return id, !id.isZero()
}

// previous is the id before. ok is false for the first.
func (id streamID) previous() (before streamID, ok bool) {
	if id.seq--; id.seq == math.MaxUint64 {
		id.ms--
	}
	return id, id != lastStreamID
}

func (id streamID) append(dst []byte) []byte {
	return strconv.AppendUint(append(strconv.AppendUint(dst, id.ms, 10), '-'), id.seq, 10)
}

func (id streamID) bytes() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, id.ms), id.seq)
}

// maxID is the higher of two.
func maxID(a, b streamID) streamID {
	if a.less(b) {
		return b
	}
	return a
}

// idOf reads the id that ends the name of an element.
func idOf(name string) (id streamID, ok bool) {
	if len(name) < 16 {
		return id, false
	}
	b := []byte(name[len(name)-16:])
	return streamID{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}, true
}

// The names of elements, or the beginnings of them.

const headName = "m"

func entryName(id streamID) string    { return "e" + string(id.bytes()) }
func groupName(group string) string   { return "g" + group }
func consumersOf(group string) string { return "c" + withLength(group) }
func pendingOf(group string) string   { return "p" + withLength(group) }

func consumerName(group, consumer string) string { return consumersOf(group) + consumer }

func pendingName(group string, id streamID) string { return pendingOf(group) + string(id.bytes()) }

func deliveredTo(group, consumer string) string {
	return "d" + withLength(group) + withLength(consumer)
}

func deliveredName(group, consumer string, id streamID) string {
	return deliveredTo(group, consumer) + string(id.bytes())
}

// withLength is a name behind its length.
func withLength(name string) string {
	return string(append(binary.AppendUvarint(nil, uint64(len(name))), name...))
}

// ending is behind all names that begin so.
func ending(prefix string) string {
	b := []byte(prefix)
	for len(b) > 0 && b[len(b)-1] == 0xff {
		b = b[:len(b)-1]
	}
	b[len(b)-1]++
	return string(b)
}

// The values of elements.

// streamHead is what the entries of a stream do not tell. It is written by what takes entries out, and not by what
// adds one.
type streamHead struct {
	last       streamID // the last id that was ever given; the id of the last entry if that is higher
	maxDeleted streamID // the highest that XDEL has deleted
	gone       int64    // entries that were added and are not there
	by         headBy   // what has written it, for those who watch
}

type headBy uint64

const (
	byMaking headBy = iota
	bySetting
	byTrimming
	byDeleting
)

func (h *streamHead) value() []byte {
	value := binary.AppendVarint(append(h.last.bytes(), h.maxDeleted.bytes()...), h.gone)
	return binary.AppendUvarint(value, uint64(h.by))
}

// groupState is the place of a group in its stream.
type groupState struct {
	last streamID // that was delivered
	read int64    // how many entries were read up to there, negative if that is not known
	sets uint64   // how often the place was set since the group was made
}

const readUnknown = -1

func (g *groupState) value() []byte {
	return binary.AppendUvarint(binary.AppendVarint(g.last.bytes(), g.read), g.sets)
}

// consumerState is what is known of a consumer, in milliseconds since 1970.
type consumerState struct {
	made   int64 // when it came to be
	seen   int64 // when it last tried to get entries
	active int64 // when it last got any, -1 for never
}

func (s *consumerState) value() []byte {
	return binary.AppendVarint(binary.AppendVarint(binary.AppendVarint(nil, s.made), s.seen), s.active)
}

// pendingEntry is an entry that a consumer has got and not acknowledged.
type pendingEntry struct {
	id       streamID
	at       int64  // when it was delivered, in milliseconds since 1970
	times    int64  // that it was delivered
	consumer string // to which
}

func (p *pendingEntry) value() []byte {
	return append(binary.AppendVarint(binary.AppendVarint(nil, p.at), p.times), p.consumer...)
}

// appendFields appends the fields and values of an entry.
func appendFields(dst []byte, list [][]byte) []byte {
	for _, each := range list {
		dst = append(binary.AppendUvarint(dst, uint64(len(each))), each...)
	}
	return dst
}

// fieldsOf reads what appendFields writes.
func fieldsOf(value []byte) (list [][]byte, ok bool) {
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

func (r *numberReader) id() streamID {
	id, ok := idOf(string(r.left[:min(16, len(r.left))]))
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

// noStream is the error of an element that is none of a stream.
func noStream(name string) error {
	return fmt.Errorf("an element of the stream, %q, has been written by other means, and makes no sense", name)
}

func parseHead(value []byte) (h streamHead, ok bool) {
	r := numberReader{left: value}
	h = streamHead{r.id(), r.id(), r.number(), headBy(r.count())}
	return h, !r.bad
}

func parseGroup(value []byte) (g groupState, ok bool) {
	r := numberReader{left: value}
	g = groupState{r.id(), r.number(), r.count()}
	return g, !r.bad
}

func parseConsumer(value []byte) (s consumerState, ok bool) {
	r := numberReader{left: value}
	s = consumerState{r.number(), r.number(), r.number()}
	return s, !r.bad
}

func parsePending(name string, value []byte) (p pendingEntry, ok bool) {
	r := numberReader{left: value}
	p.id, ok = idOf(name)
	p.at, p.times = r.number(), r.number()
	p.consumer = string(r.left)
	return p, ok && !r.bad
}

// stream reads and writes the stream under a key, in a transaction. head, which is kept, is read first.
type stream struct {
	of   *copal.HashOf[string, []byte]
	head streamHead
}

// stream is that under a key. ok is false if there is none, and of another type there is an error.
func (c *call) stream(key []byte) (s *stream, ok bool, err error) {
	ok, err = c.exists(key, "stream")
	if err != nil {
		return nil, false, err
	}
	s = &stream{of: c.raw.Stream(key)}
	if ok {
		err = s.readHead()
	}
	return s, ok, err
}

func (s *stream) readHead() error {
	value, err := s.of.Load(headName)
	switch {
	case missing(err):
	case err != nil:
		return err
	default:
		var ok bool
		if s.head, ok = parseHead(value); !ok {
			return noStream(headName)
		}
	}
	if id, ok := s.edge(true); ok {
		s.head.last = maxID(s.head.last, id)
	}
	return nil
}

func (s *stream) writeHead(by headBy) error {
	s.head.by = by
	return s.of.Set(headName, s.head.value())
}

// edge is the id of the first or the last entry. ok is false if there is none.
func (s *stream) edge(last bool) (id streamID, ok bool) {
	of := s.of
	if last {
		of = of.Backward()
	}
	for name := range of.KeysBetween("e", "f") {
		return idOf(name)
	}
	return id, false
}

func (s *stream) length() int { return s.of.Count("e", "f") }

func (s *stream) has(id streamID) bool { return s.of.Has(entryName(id)) }

// streamSpan are ids from one to another, that included.
type streamSpan struct{ from, to streamID }

func (sp streamSpan) names(prefix string) (from, to string) {
	from = prefix + string(sp.from.bytes())
	if behind, ok := sp.to.next(); ok {
		return from, prefix + string(behind.bytes())
	}
	return from, ending(prefix)
}

// streamEntry is one of a stream: fields and values in turn.
type streamEntry struct {
	id     streamID
	fields [][]byte
}

// entries are up to so many of a span, 0 for all, in order or the other way round.
func (s *stream) entries(sp streamSpan, count int64, backward bool) (list []streamEntry, err error) {
	of := s.of
	if backward {
		of = of.Backward()
	}
	for name, value := range of.Between(sp.names("e")) {
		id, ok := idOf(name)
		fields, whole := fieldsOf(value)
		if !ok || !whole {
			return nil, noStream(name)
		}
		list = append(list, streamEntry{id, fields})
		if int64(len(list)) == count {
			break
		}
	}
	return list, nil
}

// load is an entry. ok is false if it is not there.
func (s *stream) load(id streamID) (fields [][]byte, ok bool, err error) {
	value, err := s.of.Load(entryName(id))
	switch {
	case missing(err):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	if fields, ok = fieldsOf(value); !ok {
		err = noStream(entryName(id))
	}
	return fields, ok, err
}

// drop takes entries out, and returns how many there were.
func (s *stream) drop(ids iter.Seq[streamID], by headBy) (n int, err error) {
	var names []string
	for id := range ids {
		names = append(names, entryName(id))
	}
	if n, err = s.of.Delete(names...); n == 0 || err != nil {
		return 0, err
	}
	s.head.gone += int64(n)
	return n, s.writeHead(by)
}

// valueOf reads an element that parse understands. ok is false if it is not there.
func valueOf[T any](s *stream, name string, parse func([]byte) (T, bool)) (v T, ok bool, err error) {
	value, err := s.of.Load(name)
	switch {
	case missing(err):
		return v, false, nil
	case err != nil:
		return v, false, err
	}
	if v, ok = parse(value); !ok {
		err = noStream(name)
	}
	return v, ok, err
}
