package codec

import "fmt"

// skipper skips stored values that are not kept.
type skipper struct {
	kind   Kind
	width  int // the fewest bytes of a value, may be 0, at most maxWidth
	fixed  int // length of an array
	key    *skipper
	elem   *skipper
	fields []*skipper
}

const maxWidth = 1 << 20

// skipper returns the skipper of s, which was stored by codec Binary.
func (r *resolver) skipper(s *Shape) (*skipper, error) {
	if k, ok := r.skippers[s]; ok {
		return k, nil
	}
	k := &skipper{kind: s.Kind, width: 1, fixed: s.Len}
	r.skippers[s] = k
	var err error
	if s.Key != nil {
		if k.key, err = r.skipper(s.Key); err != nil {
			return nil, err
		}
	}
	if s.Elem != nil {
		if k.elem, err = r.skipper(s.Elem); err != nil {
			return nil, err
		}
	}
	switch s.Kind {
	case KindFloat32:
		k.width = 4
	case KindFloat64, KindComplex64:
		k.width = 8
	case KindComplex128:
		k.width = 16
	case KindTime:
		k.width = 3
	case KindArray:
		k.width = min(maxWidth, k.elem.width*min(s.Len, maxWidth))
	case KindStruct:
		err = r.skipFields(k, s)
	case KindAny, KindNumber:
		err = fmt.Errorf("codec binary stores no %q", s.Kind)
	}
	return k, err
}

// skipFields leaves out fields without bytes, of which a schema may name very many.
func (r *resolver) skipFields(k *skipper, s *Shape) error {
	k.width = 0
	for _, f := range s.Fields {
		field, err := r.skipper(f.Shape)
		if err != nil {
			return err
		}
		if field.width > 0 {
			k.fields = append(k.fields, field)
			k.width = min(maxWidth, k.width+field.width)
		}
	}
	return nil
}

// skip reads a value that is within depth others, and checks no more of it than it must
// to find the end.
func (r *binaryReader) skip(k *skipper, depth int) (err error) {
	if depth > maxBinaryDepth {
		return fmt.Errorf("nested deeper than %d levels", maxBinaryDepth)
	}
	switch k.kind {
	case KindBool, KindInt8, KindUint8, KindFloat32, KindFloat64, KindComplex64, KindComplex128:
		_, err = r.take(uint64(k.width))
	case KindInt, KindInt16, KindInt32, KindInt64, KindUint, KindUint16, KindUint32, KindUint64, KindUintptr:
		_, err = r.uvarint()
	case KindTime:
		for range 3 {
			if _, err = r.uvarint(); err != nil {
				return err
			}
		}
	case KindString, KindText, KindJSON, KindBinary:
		err = r.skipBytes(0)
	case KindBytes:
		err = r.skipBytes(1)
	case KindPointer:
		var present bool
		if present, err = r.flag(); present {
			err = r.skip(k.elem, depth+1)
		}
	case KindArray:
		err = r.skipElems(k, uint64(k.fixed), depth)
	case KindSlice, KindMap:
		err = r.skipList(k, depth)
	case KindStruct:
		for _, f := range k.fields {
			if err = r.skip(f, depth+1); err != nil {
				return err
			}
		}
	}
	return err
}

// skipBytes skips bytes that follow their length plus more; 0 is nil if more is 1.
func (r *binaryReader) skipBytes(more uint64) error {
	n, err := r.uvarint()
	if err != nil || n < more {
		return err
	}
	_, err = r.take(n - more)
	return err
}

func (r *binaryReader) skipList(k *skipper, depth int) error {
	n, err := r.uvarint()
	if err != nil || n == 0 {
		return err
	}
	return r.skipElems(k, n-1, depth)
}

// skipElems skips n elements, each after its key if there are keys.
func (r *binaryReader) skipElems(k *skipper, n uint64, depth int) error {
	width := k.elem.width
	if k.key != nil {
		width += k.key.width
	}
	if width == 0 {
		return nil
	}
	for range n {
		if k.key != nil {
			if err := r.skip(k.key, depth+1); err != nil {
				return err
			}
		}
		if err := r.skip(k.elem, depth+1); err != nil {
			return err
		}
	}
	return nil
}
