package laps

import "sort"

// Overlay is the bytes that were in a ring and not in the file to which the ring is drained: pieces
// in the order of their offsets, adjacent ones joined. Recovery finds it, and reads see it over the
// file until it is written there.
type Overlay []Piece

// Piece is some bytes at an offset of the file.
type Piece struct {
	At    int64
	Bytes []byte
}

// Add takes a copy of the bytes at an offset, after those added before.
func (o *Overlay) Add(at int64, b []byte) {
	if n := len(*o); n > 0 && (*o)[n-1].end() == at {
		(*o)[n-1].Bytes = append((*o)[n-1].Bytes, b...)
		return
	}
	*o = append(*o, Piece{at, append([]byte(nil), b...)})
}

func (p Piece) end() int64 { return p.At + int64(len(p.Bytes)) }

// Patch lays the pieces over p, which holds the file's bytes from off on.
func (o Overlay) Patch(p []byte, off int64) {
	to := off + int64(len(p))
	for _, x := range o.behind(off) {
		if x.At >= to {
			return
		}
		from := max(x.At, off)
		copy(p[from-off:], x.Bytes[from-x.At:])
	}
}

// Touches reports whether any piece has some of [from, to).
func (o Overlay) Touches(from, to int64) bool {
	o = o.behind(from)
	return len(o) > 0 && o[0].At < to && from < to
}

// Covers reports whether the pieces have all of [from, to).
func (o Overlay) Covers(from, to int64) bool {
	for _, x := range o.behind(from) {
		if from >= to || x.At > from {
			break
		}
		from = x.end()
	}
	return from >= to
}

// UpTo returns the part before an offset.
func (o Overlay) UpTo(end int64) Overlay {
	n := sort.Search(len(o), func(i int) bool { return o[i].At >= end })
	kept := append(Overlay(nil), o[:n]...)
	if n > 0 {
		x := &kept[n-1]
		x.Bytes = x.Bytes[:min(int64(len(x.Bytes)), end-x.At)]
	}
	return kept
}

// behind returns the pieces that end after an offset.
func (o Overlay) behind(off int64) Overlay {
	return o[sort.Search(len(o), func(i int) bool { return o[i].end() > off }):]
}
