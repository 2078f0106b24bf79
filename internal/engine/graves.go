package engine

import (
	"sync/atomic"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// graves remember of a segment which short records are dead for good: neither the index nor a cell has their
// address. Compaction need not look for those in index and cells, which is most of its work if entries are
// overwritten again and again.
//
// There is a bit for every graveBytes of the file, less than the shortest record is long, in chunks that are
// made when needed. Others are looked up: records that were dead when the store was opened, and those whose
// address the index gets later.
//
// Their use: a Compact that leaves a tenth of the log takes a fifth to a quarter more of the processors' time
// without them. docs/design/compaction.md has the figures, and the cases without a gain.
type graves struct {
	budget *cache.Budget // to which the chunks are charged
	chunks [graveChunks]atomic.Pointer[graveChunk]
}

type graveChunk [graveChunkBytes / graveBytes / 32]atomic.Uint32

const (
	graveBytes      = 16
	graveChunkBytes = 256 << 10 // of the file
	graveChunks     = 256
	graveChunkCost  = graveChunkBytes / graveBytes / 8
	longestGrave    = 256 // longest record that is remembered: a chunk has many of these, or the bits would not be worth their memory
)

// place returns the chunk and the bit for a record at offset.
func (g *graves) place(offset int64) (chunk *atomic.Pointer[graveChunk], word int64, bit uint32) {
	at := offset % graveChunkBytes / graveBytes
	return &g.chunks[offset/graveChunkBytes], at / 32, 1 << (at % 32)
}

// forgetRecord remembers that neither the index nor a cell has the address of a record any more. The caller holds the
// key's lock, or is recovery. Recovery remembers nothing, as it may find a dead record once more; nor does a
// read-only store, which compacts nothing.
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

// Forgotten reports whether the record at offset in a segment is remembered as dead, and is of a kind that
// needs no other check. The segment is readable.
func (s *Store) Forgotten(seg *seglog.Segment, offset int64, h *record.Head) bool {
	return s.notes.of(seg).forgotten(offset, h)
}

// forgotten is Forgotten with the note of the segment.
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
