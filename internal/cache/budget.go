package cache

import "sync/atomic"

// Budget is the memory that the cells of some tables may take together.
type Budget struct {
	limit  atomic.Int64
	used   atomic.Int64
	pinned atomic.Int64           // of used: by cells that cannot be evicted
	asked  [1 << 12]atomic.Uint32 // a trace of the hash that was last refused, by another part of it
}

// SetLimit changes the limit, in bytes. The next writes and reads evict the excess.
func (b *Budget) SetLimit(bytes int64) { b.limit.Store(bytes) }

// Leave takes bytes off the limit, for something else.
func (b *Budget) Leave(bytes int64) { b.limit.Add(-bytes) }

// Used is the memory of all cells in bytes, those included that cannot be evicted.
func (b *Budget) Used() int64 { return b.used.Load() }

// Over reports whether cells have to go.
func (b *Budget) Over() bool { return b.used.Load() > b.limit.Load() }

// Evictable is the memory of the cells that can go.
func (b *Budget) Evictable() int64 { return b.used.Load() - b.pinned.Load() }

// take changes the used and pinned bytes by the cost of a cell that is added, or removed if sign is
// -1.
func (b *Budget) take(c *Cell, sign int64) {
	if c == nil {
		return
	}
	b.used.Add(sign * int64(c.cost))
	if !c.evictable() {
		b.pinned.Add(sign * int64(c.cost))
	}
}

// takeEncoded is take for an encoded value that waits to be written.
func (b *Budget) takeEncoded(e *Encoded, sign int64) {
	if n := e.bytes(); n > 0 {
		b.used.Add(sign * n)
		b.pinned.Add(sign * n)
	}
}

// Admit reports whether a key without a cell should get one of the given cost: when there
// is room, and otherwise when it was asked for lately.
func (b *Budget) Admit(hash uint64, cost int) bool {
	limit := b.limit.Load()
	if b.used.Load()+int64(cost) <= limit {
		return true
	}
	if int64(cost) > limit {
		return false
	}
	trace := &b.asked[hash>>8%uint64(len(b.asked))]
	sign := uint32(hash >> 32)
	if trace.Load() == sign {
		return true
	}
	trace.Store(sign)
	return false
}
