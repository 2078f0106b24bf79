package engine

import "bytes"

// Arena keeps copies of bytes until all of them are dropped. Small ones share memory: each takes its length.
type Arena struct {
	room  []byte
	taken int
}

const (
	arenaRoom = 64 << 10       // taken at a time
	arenaOwn  = arenaRoom / 4  // copies of this length and more have memory of their own
	arenaKept = 16 * arenaRoom // memory that an empty arena keeps at most
)

// Copy returns a copy of p.
func (a *Arena) Copy(p []byte) []byte {
	if len(p) == 0 {
		return bytes.Clone(p)
	}
	a.taken += len(p)
	if len(p) > cap(a.room)-len(a.room) {
		if len(p) >= arenaOwn {
			return append([]byte{}, p...)
		}
		a.room = make([]byte, 0, min(max(4*a.taken, 64), arenaRoom))
	}
	start := len(a.room)
	a.room = append(a.room, p...)
	return a.room[start:len(a.room):len(a.room)]
}

// Empty drops the copies, which must be unused, and keeps some of their memory.
func (a *Arena) Empty() {
	a.room = a.room[:0]
	if a.taken > cap(a.room) && a.taken <= arenaKept {
		a.room = make([]byte, 0, a.taken) // as much will be copied the next time
	}
	a.taken = 0
}
