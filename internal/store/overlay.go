package store

// overlay is what recovery found of a segment in the ring and not in the segment's file,
// in the order of the offsets, adjacent records joined. Reads see it over the file, until
// the first append has written it there.
type overlay []piece

type piece struct {
	at    int64
	bytes []byte
}

// add takes the bytes of a record behind those added before.
func (o *overlay) add(at int64, b []byte) {
	if n := len(*o); n > 0 && (*o)[n-1].at+int64(len((*o)[n-1].bytes)) == at {
		(*o)[n-1].bytes = append((*o)[n-1].bytes, b...)
		return
	}
	*o = append(*o, piece{at, append([]byte(nil), b...)})
}

// patch lays the pieces over p, which holds the file's bytes from off on.
func (o overlay) patch(p []byte, off int64) {
	for _, x := range o {
		if from := max(x.at, off); from < min(x.at+int64(len(x.bytes)), off+int64(len(p))) {
			copy(p[from-off:], x.bytes[from-x.at:])
		}
	}
}

// covers reports whether the pieces have all of [from, to).
func (o overlay) covers(from, to int64) bool {
	for _, x := range o {
		if end := x.at + int64(len(x.bytes)); x.at <= from && from < end {
			from = end
		}
	}
	return from >= to
}
