package order

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/copaldb/copal/internal/record"
)

// Run is a layer in a file, or in memory. The first look-up reads the list of blocks, which stays in memory, and each
// look-up the blocks that it needs. The last blocks in which a look-up began stay, too: each change of a collection
// looks up its beginning and its end. It is safe for concurrent use.
//
// Errors that wrap one of package record mean that the bytes differ from the written run.
type Run struct {
	title Title
	in    io.ReaderAt
	size  int64

	mu     sync.Mutex
	blocks []blockRef // guarded by mu until loaded
	loaded bool
	recent [2]atomic.Pointer[recentBlock] // each by its place
}

// recentBlock is a block that stays decoded. It does not change.
type recentBlock struct {
	place int
	block
}

// blockRef is the entry of a block in the list.
type blockRef struct {
	offset int64
	bytes  int
	marks  int
	crc    uint32
	first  []byte
	adds   int64 // by its marks to the number of keys that the layers below show
	before int64 // by the marks of the blocks before
}

// Open reads the first line of the run with the given number and store, size bytes long, and returns the run.
func Open(in io.ReaderAt, size int64, store, run uint64) (*Run, error) {
	b := make([]byte, titleBytes)
	if n, err := in.ReadAt(b, 0); n < len(b) {
		return nil, short(err)
	}
	h, err := parseTitle(b)
	if err != nil {
		return nil, err
	}
	if h.Store != store || h.Run != run || h.List+h.Length != size {
		return nil, fmt.Errorf("%w: it is run %016x of store %016x, and should be %d bytes long", record.ErrSyntax, h.Run, h.Store, h.List+h.Length)
	}
	return &Run{title: h, in: in, size: size}, nil
}

// short distinguishes a file that ends too early from one that cannot be read.
func short(err error) error {
	if err == nil || err == io.EOF {
		return record.ErrShort
	}
	return err
}

// Title returns the run's first line.
func (r *Run) Title() Title { return r.title }

// Keys returns the number of marks.
func (r *Run) Keys() int64 { return r.title.Keys }

// Bytes returns the length of the run.
func (r *Run) Bytes() int64 { return r.size }

// Memory returns the approximate memory of the list of blocks and of the blocks that stay, once they are read.
func (r *Run) Memory() int64 {
	t := &r.title
	return t.Length + t.Blocks*64 + min(t.Blocks, int64(len(r.recent)))*min(t.Keys/max(t.Blocks, 1)*keyMemory, recentBytes)
}

// keyMemory is the approximate memory of a key in a decoded block.
const keyMemory = 24

// recentBytes is the length of the keys in the longest block that stays.
const recentBytes = 2 * blockBytes

// list reads the list of blocks, once it succeeds.
func (r *Run) list() ([]blockRef, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loaded {
		return r.blocks, nil
	}
	b := make([]byte, r.title.Length)
	if n, err := r.in.ReadAt(b, r.title.List); n < len(b) {
		return nil, short(err)
	}
	if crc32.Checksum(b, castagnoli) != r.title.CRC {
		return nil, record.ErrChecksum
	}
	blocks, err := parseList(b, &r.title)
	if err == nil {
		r.blocks, r.loaded = blocks, true
	}
	return blocks, err
}

func parseList(b []byte, h *Title) ([]blockRef, error) {
	blocks := make([]blockRef, 0, min(h.Blocks, int64(len(b))))
	at, keys, added := int64(titleBytes), int64(0), int64(0)
	bad := fmt.Errorf("%w: the list of blocks", record.ErrSyntax)
	for len(b) > 0 {
		size, n := uvarint(b)
		marks, m := uvarint(b[n:])
		if n == 0 || m == 0 {
			return nil, bad
		}
		sum, k := varint(b[n+m:])
		if k == 0 || len(b) < n+m+k+4 {
			return nil, bad
		}
		b = b[n+m+k:]
		crc := binary.LittleEndian.Uint32(b)
		length, n := uvarint(b[4:])
		if n == 0 || length > MaxKeyBytes || uint64(len(b)-4-n) < length || size == 0 || size > maxBlock || marks == 0 || marks > size || sum > int64(marks) || -sum > int64(marks) {
			return nil, bad
		}
		first := b[4+n : 4+n+int(length) : 4+n+int(length)]
		b = b[4+n+int(length):]
		if i := len(blocks); i > 0 && bytes.Compare(blocks[i-1].first, first) >= 0 {
			return nil, bad
		}
		blocks = append(blocks, blockRef{at, int(size), int(marks), crc, first, sum, added})
		at += int64(size)
		keys += int64(marks)
		added += sum
	}
	if int64(len(blocks)) != h.Blocks || at != h.List || keys != h.Keys {
		return nil, bad
	}
	return blocks, nil
}

// read verifies and decodes the i-th block of the list, with the given bytes.
func read(list []blockRef, i int, in []byte, b *block) error {
	ref := &list[i]
	if crc32.Checksum(in, castagnoli) != ref.crc {
		return record.ErrChecksum
	}
	if b.ends == nil {
		b.keys = make([]byte, 0, ref.marks*(len(ref.first)+4))
		b.ends, b.gone, b.fresh = make([]uint32, 0, ref.marks), make([]bool, 0, ref.marks), make([]bool, 0, ref.marks)
	}
	if err := b.decode(in); err != nil {
		return err
	}
	if b.len() != ref.marks || b.adds(b.len()) != ref.adds || !bytes.Equal(b.key(0), ref.first) || i+1 < len(list) && bytes.Compare(b.key(b.len()-1), list[i+1].first) >= 0 {
		return fmt.Errorf("%w: a block differs from the list of blocks", record.ErrSyntax)
	}
	return nil
}

// Sure is Layer.Sure.
func (r *Run) Sure() bool { return r.title.Sure }

// Middle is Layer.Middle.
func (r *Run) Middle(low, high []byte) ([]byte, error) {
	list, err := r.list()
	from := sort.Search(len(list), func(i int) bool { return bytes.Compare(list[i].first, low) > 0 })
	to := sort.Search(len(list), func(i int) bool { return bytes.Compare(list[i].first, high) >= 0 })
	if err != nil || from >= to {
		return nil, err
	}
	return list[(from+to)/2].first, nil
}

// Before is Layer.Before.
func (r *Run) Before(key []byte) (adds int64, err error) {
	list, err := r.list()
	i := sort.Search(len(list), func(i int) bool { return bytes.Compare(list[i].first, key) >= 0 }) - 1
	if err != nil || i < 0 {
		return 0, err
	}
	c := &runCursor{run: r, list: list, next: i}
	if !c.load() {
		return 0, c.err
	}
	return list[i].before + c.block.adds(c.block.search(key)), nil
}

// Walk is Layer.Walk.
func (r *Run) Walk(from []byte, down bool) Cursor {
	c := &runCursor{run: r, down: down}
	var list []blockRef
	if list, c.err = r.list(); c.err != nil || len(list) == 0 {
		return c
	}
	c.list = list
	switch {
	case from != nil: // in the last block that does not begin after it, or at the beginning of the next
		c.next = sort.Search(len(list), func(i int) bool { return bytes.Compare(list[i].first, from) > 0 }) - 1
		if c.next < 0 {
			if down {
				c.list = nil
				return c
			}
			c.next = 0
		}
		if !c.load() {
			return c
		}
		i := c.block.search(from)
		if c.i = i - 1; down {
			if c.i = i; i < c.block.len() && bytes.Equal(c.block.key(i), from) {
				c.i++
			}
		}
	case down:
		c.next = len(list) - 1
	}
	return c
}

// runCursor walks through a run.
type runCursor struct {
	run   *Run
	list  []blockRef
	down  bool
	next  int // block to read next
	block block
	begun bool   // it has a block
	lent  bool   // the block is one that stays
	chunk []byte // of the file, some blocks
	start int64  // of the chunk in the file
	ahead int    // bytes to read at once
	i     int    // in block, of the current mark
	err   error
}

// load reads the next block.
func (c *runCursor) load() bool {
	if c.err != nil || c.next < 0 || c.next >= len(c.list) {
		return false
	}
	if c.err = c.decode(); c.err != nil {
		return false
	}
	if c.down {
		c.next--
		c.i = c.block.len()
	} else {
		c.next++
		c.i = -1
	}
	return true
}

// decode decodes the next block, which stays if the walk begins there.
func (c *runCursor) decode() error {
	stays := &c.run.recent[c.next%len(c.run.recent)]
	if known := stays.Load(); !c.begun && known != nil && known.place == c.next {
		c.block, c.begun, c.lent = known.block, true, true
		return nil
	}
	if c.lent {
		c.block, c.lent = block{}, false
	}
	in, err := c.bytes(&c.list[c.next])
	if err == nil {
		err = read(c.list, c.next, in, &c.block)
	}
	if err == nil && !c.begun && len(c.block.keys) <= recentBytes {
		stays.Store(&recentBlock{c.next, c.block})
		c.lent = true
	}
	c.begun = true
	return err
}

// aheadBytes is the length read at once on a long walk.
const aheadBytes = 32 << 10

// bytes returns the bytes of a block. The longer the walk, the more following blocks are read with
// it.
func (c *runCursor) bytes(ref *blockRef) ([]byte, error) {
	if at := ref.offset - c.start; at >= 0 && at+int64(ref.bytes) <= int64(len(c.chunk)) {
		return c.chunk[at : at+int64(ref.bytes)], nil
	}
	from, end := ref.offset, ref.offset+int64(ref.bytes)
	if c.down {
		from = max(min(from, end-int64(c.ahead)), titleBytes)
	} else {
		end = min(max(end, from+int64(c.ahead)), c.run.title.List)
	}
	c.ahead = min(max(4*c.ahead, blockBytes), aheadBytes)
	if n := int(end - from); cap(c.chunk) < n {
		c.chunk = make([]byte, n)
	}
	c.chunk, c.start = c.chunk[:end-from], from
	if n, err := c.run.in.ReadAt(c.chunk, from); n < len(c.chunk) {
		c.chunk = c.chunk[:0]
		return nil, short(err)
	}
	at := ref.offset - from
	return c.chunk[at : at+int64(ref.bytes)], nil
}

func (c *runCursor) Next() bool {
	if c.down {
		c.i--
	} else {
		c.i++
	}
	if c.i >= 0 && c.i < c.block.len() {
		return true
	}
	if !c.load() { // and so it stays
		c.block.ends, c.next = nil, -1
		return false
	}
	return c.Next()
}

func (c *runCursor) Key() []byte { return c.block.key(c.i) }
func (c *runCursor) Gone() bool  { return c.block.gone[c.i] }
func (c *runCursor) Fresh() bool { return c.block.fresh[c.i] }
func (c *runCursor) Err() error  { return c.err }
