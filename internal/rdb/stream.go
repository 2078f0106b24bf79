package rdb

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/copaldb/copal/internal/redisstream"
)

// A stream has its entries in nodes: listpacks of some entries each, after the id from which ids
// are counted. A node begins with the numbers of its entries and of the deleted ones, the names of
// the fields of its first entry, and 0. An entry is flags, the distance of its id, the names of its
// fields unless they are those of the node, its values, and the number of these elements. After the
// nodes come the figures of the whole, and then groups: entries delivered and not acknowledged, and
// consumers with the ids of theirs.
//
// The result is the elements of internal/redisstream, names and values by turns.

// The flags of an entry.
const (
	flagDeleted = 1
	flagSame    = 2 // the fields are those of the node
)

// stream reads a stream.
func (r *reader) stream(of byte) {
	r.pairs("stream")
	var f redisstream.Figures
	r.times(2, func() {
		base, ok := redisstream.IDOf(string(r.string()))
		r.bad = r.bad || !ok
		r.node(base, &f)
	})
	length := r.plain()
	f.Last = redisstream.MaxID(f.Last, r.plainID())
	f.Added = f.Length
	if of != typeStream {
		r.plainID() // the first one
		f.MaxDeleted = r.plainID()
		f.Added = int64(r.plain())
	}
	r.bad = r.bad || length != uint64(f.Length)
	h := redisstream.Head{Last: f.Last, MaxDeleted: f.MaxDeleted, Gone: f.Added - f.Length}
	r.element(redisstream.HeadName, h.Value())
	names := map[string]bool{}
	r.times(4, func() { r.group(of, &f, names) })
}

// element adds an element of a stream. Those of a dump may be 256 times its length, as compressed
// strings may be: a name occurs there once, and with each element here.
func (r *reader) element(name string, value []byte) {
	r.bad = r.bad || r.to.most > 0 && r.to.held > r.to.most
	r.allows(len(name) + len(value))
	r.add([]byte(name))
	r.add(value)
}

// node reads the entries of a listpack.
func (r *reader) node(base redisstream.ID, f *redisstream.Figures) {
	in := reader{b: r.string()}
	in.take(6)
	in.packNumber()
	in.packNumber()
	var names [][]byte
	for range in.packNumber() {
		if names = append(names, in.packed1()); in.bad {
			break
		}
	}
	in.packNumber()
	for !r.bad && !in.bad && !in.packEnds() {
		flags := in.packNumber()
		id := redisstream.ID{MS: base.MS + uint64(in.packNumber()), Seq: base.Seq + uint64(in.packNumber())}
		var value []byte
		if flags&flagSame != 0 {
			for _, name := range names {
				value = redisstream.AppendFields(value, [][]byte{name, in.packed1()})
			}
		} else {
			for range in.packNumber() {
				if value = redisstream.AppendFields(value, [][]byte{in.packed1(), in.packed1()}); in.bad {
					break
				}
			}
		}
		in.packNumber()
		switch {
		case in.bad || flags&flagDeleted != 0:
			continue
		case !f.Last.Less(id):
			in.bad = true
			continue
		case f.Length == 0:
			f.First = id
		}
		f.Last = id
		f.Length++
		r.element(redisstream.EntryName(id), value)
	}
	r.bad = r.bad || in.bad
}

// group reads a group. Its name is not among those of before, as are those of its consumers.
func (r *reader) group(of byte, f *redisstream.Figures, names map[string]bool) {
	name := string(r.string())
	g := redisstream.Group{Last: r.plainID()}
	if of == typeStream {
		g.Read = f.Place(g.Last)
	} else {
		g.Read = max(int64(r.plain()), redisstream.ReadUnknown)
	}
	r.bad = r.bad || names[name]
	names[name] = true
	r.element(redisstream.GroupName(name), g.Value())
	pending := map[redisstream.ID]redisstream.Pending{}
	r.times(25, func() {
		p := redisstream.Pending{ID: r.id(), At: r.whole(8), Times: int64(r.plain())}
		_, twice := pending[p.ID]
		r.bad = r.bad || twice
		pending[p.ID] = p
	})
	consumers := map[string]bool{}
	r.times(10, func() { r.consumer(of, name, consumers, pending) })
	r.bad = r.bad || len(pending) > 0
}

// consumer reads a consumer, and takes its entries from the pending ones.
func (r *reader) consumer(of byte, group string, names map[string]bool, pending map[redisstream.ID]redisstream.Pending) {
	name := string(r.string())
	c := redisstream.Consumer{Seen: r.whole(8)}
	c.Made = c.Seen - 1 // one that was made when it was seen is new, which a watch reports
	c.Active = c.Seen   // as Redis has it
	if of == typeStream3 {
		c.Active = r.whole(8)
	}
	r.bad = r.bad || names[name]
	names[name] = true
	r.element(redisstream.ConsumerName(group, name), c.Value())
	r.times(16, func() {
		p, ok := pending[r.id()]
		r.bad = r.bad || !ok
		delete(pending, p.ID)
		p.Consumer = name
		r.element(redisstream.PendingName(group, p.ID), p.Value())
		r.element(redisstream.DeliveredName(group, name, p.ID), nil)
	})
}

// id reads the 16 bytes of an id.
func (r *reader) id() redisstream.ID {
	id, _ := redisstream.IDOf(string(r.take(16)))
	return id
}

// plainID reads an id as two lengths.
func (r *reader) plainID() redisstream.ID {
	return redisstream.ID{MS: r.plain(), Seq: r.plain()}
}

// packed1 reads an element of a listpack, which must be there.
func (r *reader) packed1() []byte {
	r.bad = r.bad || r.packEnds()
	return r.packElement()
}

// packNumber reads an element of a listpack that is a number.
func (r *reader) packNumber() int64 {
	n, err := strconv.ParseInt(string(r.packed1()), 10, 64)
	r.bad = r.bad || err != nil
	return n
}

// Streams are written in the form of Redis 7.0.

// dumpedStream is a stream for writing.
type dumpedStream struct {
	redisstream.Figures
	head   redisstream.Head
	nodes  []byte // of which there are as many
	filled int
	last   node // which is not yet among them
	groups map[string]*dumpedGroup
}

type dumpedGroup struct {
	redisstream.Group
	found     bool // not only its parts
	pending   []redisstream.Pending
	consumers map[string]*dumpedConsumer
}

type dumpedConsumer struct {
	redisstream.Consumer
	found   bool
	pending []redisstream.ID
}

// appendStream appends a stream.
func appendStream(dst []byte, elements [][]byte) ([]byte, error) {
	d := dumpedStream{groups: map[string]*dumpedGroup{}}
	for i := 0; i < len(elements); i += 2 {
		if name := string(elements[i]); name == "" || !d.take(name, elements[i+1]) {
			return nil, ErrFormat
		}
	}
	d.fill()
	dst = append(appendLength(dst, uint64(d.filled)), d.nodes...)
	dst = appendID(appendLength(dst, uint64(d.Length)), redisstream.MaxID(d.Last, d.head.Last))
	dst = appendID(appendID(dst, d.First), d.head.MaxDeleted)
	dst = appendLength(dst, uint64(d.Length+d.head.Gone))
	dst = appendLength(dst, uint64(len(d.groups)))
	for _, name := range slices.Sorted(maps.Keys(d.groups)) {
		var ok bool
		if dst, ok = d.groups[name].append(dst, name); !ok {
			return nil, ErrFormat
		}
	}
	return dst, nil
}

// take takes an element. Entries come in order, as do those that are pending in a group.
func (d *dumpedStream) take(name string, value []byte) (ok bool) {
	group, rest, named := redisstream.Split(name[1:])
	switch kind := name[0]; {
	case kind == 'e':
		id, isID := redisstream.IDOf(name)
		fields, whole := redisstream.FieldsOf(value)
		if ok = isID && whole; ok {
			d.add(id, fields)
		}
	case kind == 'm':
		d.head, ok = redisstream.ParseHead(value)
	case kind == 'g':
		g := d.group(name[1:])
		g.Group, ok = redisstream.ParseGroup(value)
		g.found = true
	case kind == 'c' && named:
		c := d.group(group).consumer(rest)
		c.Consumer, ok = redisstream.ParseConsumer(value)
		c.found = true
	case kind == 'p' && named:
		var p redisstream.Pending
		p, ok = redisstream.ParsePending(name, value)
		g := d.group(group)
		g.pending = append(g.pending, p)
		c := g.consumer(p.Consumer)
		c.pending = append(c.pending, p.ID)
	case kind == 'd': // the same once more
		ok = true
	}
	return ok
}

func (d *dumpedStream) add(id redisstream.ID, fields [][]byte) {
	if d.Length == 0 {
		d.First = id
	}
	d.Length++
	d.Last = id
	if d.last.full() {
		d.fill()
	}
	d.last.add(id, fields)
}

// fill puts the last node to the others.
func (d *dumpedStream) fill() {
	if d.last.entries > 0 {
		d.nodes = d.last.appendTo(d.nodes)
		d.filled++
	}
}

func (d *dumpedStream) group(name string) *dumpedGroup {
	if d.groups[name] == nil {
		d.groups[name] = &dumpedGroup{consumers: map[string]*dumpedConsumer{}}
	}
	return d.groups[name]
}

func (g *dumpedGroup) consumer(name string) *dumpedConsumer {
	if g.consumers[name] == nil {
		g.consumers[name] = &dumpedConsumer{}
	}
	return g.consumers[name]
}

func appendID(dst []byte, id redisstream.ID) []byte {
	return appendLength(appendLength(dst, id.MS), id.Seq)
}

// append appends a group. ok is false if there is something of it, or of a consumer, and not that itself.
func (g *dumpedGroup) append(dst []byte, name string) (_ []byte, ok bool) {
	dst = appendID(appendString(dst, []byte(name)), g.Last)
	dst = appendLength(dst, uint64(max(g.Read, redisstream.ReadUnknown))) // the highest number if it is not known
	dst = appendLength(dst, uint64(len(g.pending)))
	for _, p := range g.pending {
		dst = binary.LittleEndian.AppendUint64(append(dst, p.ID.Bytes()...), uint64(p.At))
		dst = appendLength(dst, uint64(p.Times))
	}
	dst = appendLength(dst, uint64(len(g.consumers)))
	for _, name := range slices.Sorted(maps.Keys(g.consumers)) {
		c := g.consumers[name]
		if !c.found {
			return nil, false
		}
		dst = binary.LittleEndian.AppendUint64(appendString(dst, []byte(name)), uint64(c.Seen))
		dst = appendLength(dst, uint64(len(c.pending)))
		for _, id := range c.pending {
			dst = append(dst, id.Bytes()...)
		}
	}
	return dst, g.found
}

// node is one of a stream that is being written.
type node struct {
	base    redisstream.ID
	names   [][]byte
	entries int
	pack    pack
}

// full reports whether Redis would begin another node.
func (n *node) full() bool { return n.entries == 100 || len(n.pack.b) >= 4096 }

func (n *node) add(id redisstream.ID, fields [][]byte) {
	var names, values [][]byte
	for i := 0; i < len(fields); i += 2 {
		names, values = append(names, fields[i]), append(values, fields[i+1])
	}
	if n.entries == 0 {
		n.base, n.names = id, names
	}
	n.entries++
	same := slices.EqualFunc(names, n.names, slices.Equal)
	flags, elements := int64(0), 4+len(fields)
	if same {
		flags, elements = flagSame, 3+len(values)
	}
	n.pack.number(flags)
	n.pack.number(int64(id.MS - n.base.MS))
	n.pack.number(int64(id.Seq - n.base.Seq))
	if !same {
		n.pack.number(int64(len(names)))
		values = fields
	}
	for _, v := range values {
		n.pack.text(v)
	}
	n.pack.number(int64(elements))
}

// appendTo appends the node, which is empty then.
func (n *node) appendTo(dst []byte) []byte {
	var head pack
	head.number(int64(n.entries))
	head.number(0)
	head.number(int64(len(n.names)))
	for _, name := range n.names {
		head.text(name)
	}
	head.number(0)
	list := binary.LittleEndian.AppendUint32(nil, uint32(6+len(head.b)+len(n.pack.b)+1))
	list = binary.LittleEndian.AppendUint16(list, uint16(min(head.n+n.pack.n, math.MaxUint16)))
	list = append(append(append(list, head.b...), n.pack.b...), 0xff)
	dst = appendString(appendString(dst, n.base.Bytes()), list)
	*n = node{}
	return dst
}

// pack are the elements of a listpack that is being written.
type pack struct {
	b []byte
	n int
}

func (p *pack) number(n int64) {
	from := len(p.b)
	if 0 <= n && n < 128 {
		p.b = append(p.b, byte(n))
	} else {
		p.b = binary.LittleEndian.AppendUint64(append(p.b, 0xf4), uint64(n))
	}
	p.ends(from)
}

func (p *pack) text(s []byte) {
	from := len(p.b)
	switch n := len(s); {
	case n < 64:
		p.b = append(p.b, 0x80|byte(n))
	case n < 4096:
		p.b = append(p.b, 0xe0|byte(n>>8), byte(n))
	default:
		p.b = binary.LittleEndian.AppendUint32(append(p.b, 0xf0), uint32(n))
	}
	p.b = append(p.b, s...)
	p.ends(from)
}

// ends appends the length of the element that begins at from, seven bits in each byte, the highest
// first.
func (p *pack) ends(from int) {
	length := len(p.b) - from
	bytes := int(backBytes(length))
	for i := range bytes {
		b := byte(length>>(7*(bytes-1-i))) & 0x7f
		if i > 0 {
			b |= 0x80
		}
		p.b = append(p.b, b)
	}
	p.n++
}
