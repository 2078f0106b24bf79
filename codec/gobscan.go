package codec

import "errors"

var errGob = errors.New("it is no gob of its schema")

// gobScanner reads the value part of a gob by its schema, and keeps nothing of it. A
// gob.Decoder does not ask whether a value ends where its message does, and makes room for as
// many map entries as a record claims.
type gobScanner struct{ left []byte }

// scanGob reports whether src is one whole value.
func scanGob(s *Shape, src []byte) error {
	g := gobScanner{src}
	if !g.scanFirst(s) || len(g.left) > 0 {
		return errGob
	}
	return nil
}

// scanFirst reads the outermost value. One that is no struct stands behind a zero.
func (g *gobScanner) scanFirst(s *Shape) bool {
	for s.Kind == KindPointer {
		s = s.Elem
	}
	if s.Kind != KindStruct {
		if n, ok := g.uint(); !ok || n != 0 {
			return false
		}
	}
	return g.scan(s, 0)
}

func (g *gobScanner) uint() (n uint64, ok bool) {
	n, g.left, ok = gobUint(g.left)
	return n, ok
}

func (g *gobScanner) scan(s *Shape, depth int) bool {
	if depth > 2*maxBinaryDepth {
		return false
	}
	switch k := s.Kind; {
	case k == KindPointer:
		return g.scan(s.Elem, depth+1)
	case k == KindStruct:
		return g.scanStruct(s, depth)
	case k == KindSlice || k == KindArray || k == KindMap:
		return g.scanElems(s, depth)
	case isComplex(k):
		_, ok := g.uint()
		_, ok2 := g.uint()
		return ok && ok2
	case isReal(k) || k == KindBool:
		_, ok := g.uint()
		return ok
	}
	n, ok := g.uint()
	if !ok || n > uint64(len(g.left)) {
		return false
	}
	g.left = g.left[n:]
	return true
}

// scanStruct reads fields, each behind its distance from the one before, up to a zero.
func (g *gobScanner) scanStruct(s *Shape, depth int) bool {
	for at := -1; ; {
		delta, ok := g.uint()
		if !ok || delta == 0 {
			return ok
		}
		if delta >= uint64(len(s.Fields)-at) {
			return false
		}
		at += int(delta)
		if !g.scan(s.Fields[at].Shape, depth+1) {
			return false
		}
	}
}

// scanElems reads a number of elements, which are a byte at least.
func (g *gobScanner) scanElems(s *Shape, depth int) bool {
	n, ok := g.uint()
	if !ok || n > uint64(len(g.left)) || s.Kind == KindArray && n != uint64(s.Len) {
		return false
	}
	for range n {
		if s.Key != nil && !g.scan(s.Key, depth+1) {
			return false
		}
		if !g.scan(s.Elem, depth+1) {
			return false
		}
	}
	return true
}
