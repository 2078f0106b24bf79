package killtest

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
)

// kind is the kind of an operation, and its durability when acknowledged.
type kind uint8

const (
	set kind = iota
	setFSync
	setAsync
	updateAsync // that sets
	remove
	removeFSync
	removeAsync
	syncMap // Map.Sync
	syncAll // DB.Sync
	aStep   // of a shape: Writer is which of the shapes' writers, Count which of its steps
	kinds
)

func (k kind) String() string {
	return [...]string{"Set", "SetFSync", "SetAsync", "UpdateAsync", "Delete", "DeleteFSync", "DeleteAsync", "Map.Sync", "Sync", "step"}[k]
}

func (k kind) sets() bool    { return k <= updateAsync }
func (k kind) removes() bool { return k >= remove && k <= removeAsync }
func (k kind) syncs() bool   { return k == syncMap || k == syncAll }
func (k kind) async() bool   { return k == setAsync || k == updateAsync || k == removeAsync }

// onShelf returns the kind for a shelf that lacks this one: a shelf that is no map has only Set,
// Delete and Sync.
func (k kind) onShelf(n uint8) kind {
	switch {
	case n < mapShelves:
		return k
	case k.sets():
		return set
	case k.removes():
		return remove
	}
	return syncAll
}

// slot is a key: of one shelf, owned by one writer.
type slot struct {
	Shelf, Writer uint8
	Key           uint16
}

func (s slot) String() string {
	if int(s.Shelf) >= len(shelfNames) {
		return fmt.Sprintf("w%d.%d", s.Writer, s.Key) // of a shape
	}
	return fmt.Sprintf("%s/w%d/k%d", shelfNames[s.Shelf], s.Writer, s.Key)
}

// unsynced returns the kind of the same verb that does not wait for the disk.
func (k kind) unsynced() kind {
	switch {
	case k.sets() && !k.async(), k.syncs():
		return set
	case k.removes() && !k.async():
		return remove
	}
	return k
}

// op is an operation on a slot, or, with the same fields, a sync of its shelf or of all. The value
// of a set is a function of the op.
type op struct {
	slot
	Kind  kind
	Count uint64 // grows with each operation of a writer, over all cycles
	Size  uint32 // of the value, about
}

func (o op) String() string {
	if o.Kind.sets() {
		return fmt.Sprintf("%v %v count %d.%d, %d bytes", o.Kind, o.slot, o.Count>>32, o.Count&(1<<32-1), o.Size)
	}
	return fmt.Sprintf("%v %v count %d.%d", o.Kind, o.slot, o.Count>>32, o.Count&(1<<32-1))
}

// planner draws the operations of one writer in one cycle.
type planner struct {
	rng    *rand.Rand
	writer uint8
	count  uint64
	lazy   bool
}

const (
	writers     = 6
	keysOfShelf = 10 // for each writer
)

func newPlanner(seed, cycle uint64, writer uint8) *planner {
	return &planner{rng: rand.New(rand.NewPCG(seed, cycle<<8|uint64(writer))), writer: writer, count: cycle << 32}
}

func (p *planner) next() op {
	p.count++
	at := slot{Shelf: uint8(p.rng.IntN(len(shelfNames))), Writer: p.writer, Key: uint16(p.rng.IntN(keysOfShelf))}
	k := p.kind().onShelf(at.Shelf)
	if p.lazy {
		k = k.unsynced()
	}
	return op{
		slot:  at,
		Kind:  k,
		Count: p.count,
		Size:  p.size(),
	}
}

func (p *planner) kind() kind {
	n := p.rng.IntN(100)
	for k, share := range [kinds]int{set: 38, setFSync: 7, setAsync: 23, updateAsync: 5, remove: 12, removeFSync: 3, removeAsync: 7, syncMap: 3, syncAll: 2} {
		if n -= share; n < 0 {
			return kind(k)
		}
	}
	panic("the shares do not add up to 100")
}

// size draws from nothing to 2 MiB: most values are small, most bytes in large ones.
func (p *planner) size() uint32 {
	between := func(low, high int) uint32 { return uint32(low + p.rng.IntN(high-low)) }
	switch n := p.rng.IntN(1000); {
	case n < 50:
		return between(0, 2)
	case n < 750:
		return between(2, 200)
	case n < 950:
		return between(200, 4<<10)
	case n < 990:
		return between(4<<10, 64<<10)
	case n < 998:
		return between(64<<10, 400<<10)
	}
	return between(1<<20, 2<<20)
}

// The meaning of a frame on the pipe.
type what uint8

const (
	hello     what = iota // the process runs; it opens the store next
	opened                // the store is open, for the first time or again
	closing               // the child begins to close it
	closed                // the store was closed, and nothing written since
	shrinking             // a compaction begins
	announced             // an operation begins
	acked                 // it was acknowledged
	refused               // it returned ErrClosed: it has not happened
	finished              // the child has done enough, and waits to be killed
)

// frame is one message on the pipe.
type frame struct {
	What    what
	Existed bool // acked Delete: its result
	Op      op
}

const frameBytes = 20

// append encodes the frame:
//
//	0     1     2       3      4    6        7  8      16
//	what  kind  writer  shelf  key  existed  0  count  size
func (f frame) append(b []byte) []byte {
	existed := byte(0)
	if f.Existed {
		existed = 1
	}
	b = append(b, byte(f.What), byte(f.Op.Kind), f.Op.Writer, f.Op.Shelf)
	b = binary.LittleEndian.AppendUint16(b, f.Op.Key)
	b = append(b, existed, 0)
	b = binary.LittleEndian.AppendUint64(b, f.Op.Count)
	return binary.LittleEndian.AppendUint32(b, f.Op.Size)
}

// readFrame returns io.EOF at the end of the pipe. A frame is written in one piece
// shorter than PIPE_BUF, so none is ever cut.
func readFrame(r io.Reader) (frame, error) {
	var b [frameBytes]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return frame{}, err
	}
	return frame{
		What: what(b[0]), Existed: b[6] == 1,
		Op: op{
			Kind: kind(b[1]), slot: slot{Writer: b[2], Shelf: b[3], Key: binary.LittleEndian.Uint16(b[4:])},
			Count: binary.LittleEndian.Uint64(b[8:]), Size: binary.LittleEndian.Uint32(b[16:]),
		},
	}, nil
}

func TestFrame(t *testing.T) {
	p := newPlanner(1, 2, 3)
	for i := range 1000 {
		want := frame{What: what(i % 9), Existed: i%2 == 0, Op: p.next()}
		r, w := io.Pipe()
		go func() { w.Write(want.append(nil)); w.Close() }()
		got, err := readFrame(r)
		if err != nil || got != want {
			t.Fatalf("%+v came back as %+v, %v", want, got, err)
		}
		if _, err := readFrame(r); err != io.EOF {
			t.Fatalf("a frame has bytes left over: %v", err)
		}
	}
}
