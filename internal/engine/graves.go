package engine

import (
	"sync/atomic"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// graves remember of a segment which short records are dead for good: the index has not got their address, and
// no cell has. Compaction need not look for those in index and cells, which is most of its work where entries
// are overwritten again and again.
//
// There is a bit for every graveBytes of the file, less than the shortest record is long, in chunks that come
// when they are needed. What is not remembered is asked for: records that were dead when the store was opened,
// and those of which the index is told later.
//
// What they are worth: a Compact that leaves a tenth of the log takes a fifth to a quarter more of the
// processors' time without them. docs/design/compaction.md has the figures, and says where they bring
// nothing.
type graves struct {
	budget *cache.Budget // that the chunks are paid from
	chunks [graveChunks]atomic.Pointer[graveChunk]
}

type graveChunk [graveChunkBytes / graveBytes / 32]atomic.Uint32

const (
	graveBytes      = 16
	graveChunkBytes = 256 << 10 // of the file
	graveChunks     = 256
	graveChunkCost  = graveChunkBytes / graveBytes / 8
	longestGrave    = 256 // of a record that is remembered: in a chunk there are many of these, or the bits were not worth their memory
)

// place returns the chunk and the bit for a record at offset.
func (g *graves) place(offset int64) (chunk *atomic.Pointer[graveChunk], word int64, bit uint32) {
	at := offset % graveChunkBytes / graveBytes
	return &g.chunks[offset/graveChunkBytes], at / 32, 1 << (at % 32)
}

// forgetRecord remembers that nobody knows the address of a record any more. The caller holds the key's lock, or is
// recovery, of which nothing is remembered: a record that it takes for dead may be found once more. Nor is of a store
// that is only read, which compacts nothing.
func (s *Store) forgetRecord(h *hit) {
	if h.bytes > longestGrave || s.shadow || s.reading != nil || s.opts.ReadOnly {
		return
	}
	slot, offset := seglog.SplitAddress(h.address)
	seg := s.log.Segment(slot)
	if offset >= graveChunks*graveChunkBytes {
		return
	}
	n := s.notes.of(seg)
	g := n.graves.Load()
	if g == nil {
		n.graves.CompareAndSwap(nil, &graves{budget: &s.budget})
		g = n.graves.Load()
	}
	at, word, bit := g.place(offset)
	chunk := at.Load()
	if chunk == nil {
		if chunk = new(graveChunk); at.CompareAndSwap(nil, chunk) {
			s.budget.Leave(graveChunkCost)
		} else {
			chunk = at.Load()
		}
	}
	chunk[word].Or(bit)
}

// Forgotten reports of a record that stands in a segment at offset whether it is remembered as dead, and is of
// a kind of which nothing else has to be known. The segment is readable.
func (s *Store) Forgotten(seg *seglog.Segment, offset int64, h *record.Head) bool {
	return s.notes.of(seg).forgotten(offset, h)
}

// forgotten reports whether the record at offset is remembered as dead, and is of a kind of which nothing else
// has to be known.
func (n *note) forgotten(offset int64, h *record.Head) bool {
	if h.Op != record.Set || h.Kind != record.Value || h.Expiry|h.Large != 0 || offset >= graveChunks*graveChunkBytes {
		return false
	}
	g := n.graves.Load()
	if g == nil {
		return false
	}
	at, word, bit := g.place(offset)
	chunk := at.Load()
	return chunk != nil && chunk[word].Load()&bit != 0
}

// close gives the memory back.
func (g *graves) close() {
	if g == nil {
		return
	}
	for i := range g.chunks {
		if g.chunks[i].Load() != nil {
			g.budget.Leave(-graveChunkCost)
		}
	}
}
