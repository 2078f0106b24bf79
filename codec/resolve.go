package codec

import "fmt"

// resolver finds the way from the shape that was stored to the form of today: fields by
// name, numbers by value. It is done once per schema.
type resolver struct {
	programs map[resolved]*program
	skippers map[*Shape]*skipper
}

type resolved struct {
	shape *Shape
	form  *form
}

// resolve returns the program that decodes values of s into f, which is at path.
func (r *resolver) resolve(s *Shape, f *form, path string) (*program, error) {
	id := resolved{s, f}
	if p, ok := r.programs[id]; ok {
		return p, nil
	}
	p := new(program)
	r.programs[id] = p
	err := r.emit(p, s, f, path)
	return p, err
}

// emit adds the steps from s to f.
func (r *resolver) emit(p *program, s *Shape, f *form, path string) (err error) {
	st := step{form: f, inKey: f.inKey, from: s.Kind, fixed: -1}
	switch {
	case f.kind == KindPointer && s.Kind == KindPointer:
		st.code = stepPointer
		st.elem, err = r.resolve(s.Elem, f.elem, path)
	case f.kind == KindPointer:
		st.code = stepWrap
		st.elem, err = r.resolve(s, f.elem, path)
	case s.Kind == KindPointer:
		st.code = stepUnwrap
		p.steps = append(p.steps, st)
		return r.emit(p, s.Elem, f, path)
	case f.kind == KindStruct && s.Kind == KindStruct:
		return r.emitStruct(p, s, f, path)
	case f.kind == KindMap && s.Kind == KindMap:
		err = r.mapStep(&st, s, path)
	case isList(f.kind) && isList(s.Kind) && !(f.kind == KindBytes && s.Kind == KindBytes):
		return r.emitList(p, st, s, path)
	case isComplex(f.kind) && isComplex(s.Kind):
		r.emitComplex(p, st, s.Kind)
		return nil
	default:
		err = r.leafStep(&st, s.Kind, path, s)
	}
	p.steps = append(p.steps, st)
	return err
}

// leafStep fills in the step for a value that contains no others.
func (r *resolver) leafStep(st *step, stored Kind, path string, s *Shape) error {
	k := st.form.kind
	switch {
	case k == stored && isOwn(k):
		st.code = stepOwn
	case k == stored:
		st.code = st.form.leafCode()
	case isReal(k) && isReal(stored):
		st.code = stepConvert
	case k == KindString && stored == KindBytes:
		st.code = stepText
	case k == KindBytes && stored == KindString:
		st.code = stepBlob
	case k == KindText && stored == KindString:
		st.code = stepOwn
	case k == KindString && stored == KindText:
		st.code = stepString
	default:
		return misfit(path, s, st.form.typ.String())
	}
	return nil
}

// strangers is the error of a struct at path that has none of the fields that were stored. It would
// be read as zero, and written so: such a type is taken by mistake.
func strangers(path string, s *Shape) error {
	return fmt.Errorf("%s has no field in common with what was stored, %.64s", partAt(path), s.String())
}

// partAt names the part of a value at a path, such as .A[].B.
func partAt(path string) string {
	switch {
	case path == "":
		return "it"
	case path[0] == '.':
		return "its field " + path
	}
	return "its part " + path
}

// misfit returns the error of a part at path that was stored as s, and is now something else.
func misfit(path string, s *Shape, now string) error {
	if path == "" {
		return fmt.Errorf("it was stored as %.64s", s.String())
	}
	return fmt.Errorf("%s is %.64s, but was stored as %.64s", partAt(path), now, s.String())
}

func misfitNames(path, name, a, b string) error {
	return fmt.Errorf("%s was stored twice, as %q and as %q", partAt(path+"."+name), a, b)
}

func isList(k Kind) bool { return k == KindSlice || k == KindArray || k == KindBytes }

func isComplex(k Kind) bool { return k == KindComplex64 || k == KindComplex128 }

func isOwn(k Kind) bool { return k == KindBinary || k == KindText || k == KindJSON }

func isReal(k Kind) bool { return isSigned(k) || isUnsigned(k) || isFloat(k) }

func isFloat(k Kind) bool { return k == KindFloat32 || k == KindFloat64 }

func isSigned(k Kind) bool {
	switch k {
	case KindInt, KindInt8, KindInt16, KindInt32, KindInt64:
		return true
	}
	return false
}

func isUnsigned(k Kind) bool {
	switch k {
	case KindUint, KindUint8, KindUint16, KindUint32, KindUint64, KindUintptr:
		return true
	}
	return false
}

// leafCode returns the step for a value that is stored as the form encodes it.
func (f *form) leafCode() stepcode {
	switch f.kind {
	case KindBool:
		return stepBool
	case KindString:
		return stepString
	case KindBytes:
		return stepBytes
	case KindTime:
		return stepTime
	}
	return map[opcode]stepcode{
		opByte: stepByte, opInt16: stepInt16, opInt32: stepInt32, opInt64: stepInt64,
		opUint16: stepUint16, opUint32: stepUint32, opUint64: stepUint64,
		opFixed32: stepFixed32, opFixed64: stepFixed64, opKeyFloat32: stepFixed32, opKeyFloat64: stepFixed64,
	}[f.opcode()]
}

func (r *resolver) emitComplex(p *program, st step, stored Kind) {
	half := st.form.typ.Size() / 2
	st.from = KindFloat64
	if stored == KindComplex64 {
		st.from = KindFloat32
	}
	switch {
	case stored != st.form.kind:
		st.code = stepConvert
	case half == 4:
		st.code = stepFixed32
	default:
		st.code = stepFixed64
	}
	imaginary := st
	imaginary.offset = half
	p.steps = append(p.steps, st, imaginary)
}

func (r *resolver) mapStep(st *step, s *Shape, path string) (err error) {
	st.code = stepMap
	if st.key, err = r.resolve(s.Key, st.form.key, path+"[key]"); err != nil {
		return err
	}
	if st.elem, err = r.resolve(s.Elem, st.form.elem, path+"[]"); err != nil {
		return err
	}
	if st.elemSkip, err = r.skipper(s.Key); err == nil && st.elemSkip.width == 0 {
		st.elemSkip = &skipper{} // there is but one such key, which mapping finds out
	}
	return err
}

// emitList is for slices, arrays and bytes from any of them. Bytes are a list of uint8.
func (r *resolver) emitList(p *program, st step, s *Shape, path string) (err error) {
	elem := s.Elem
	if s.Kind == KindBytes {
		elem = &Shape{Kind: KindUint8}
	}
	if s.Kind == KindArray {
		st.fixed = s.Len
	}
	if st.elemSkip, err = r.skipper(elem); err != nil {
		return err
	}
	if st.elem, err = r.resolve(elem, st.form.elem, path+"[]"); err != nil {
		return err
	}
	bare := st.elemSkip.width == 0
	if bare && st.form.kind == KindSlice && st.form.elem.typ.Size() > 0 {
		return fmt.Errorf("%s has elements that were stored without any field", partAt(path))
	}
	if bare && s.Kind == KindArray && st.form.kind == KindArray && len(st.elem.steps) == 0 {
		return nil
	}
	st.code = stepList
	if st.form.kind == KindArray && s.Kind == KindArray && s.Len == st.form.typ.Len() &&
		elem.Kind == KindUint8 && st.form.elem.kind == KindUint8 {
		st.code = stepRaw
	}
	p.steps = append(p.steps, st)
	return nil
}

// emitStruct adds the steps of the fields stored, in their order.
func (r *resolver) emitStruct(p *program, s *Shape, f *form, path string) error {
	byName := map[string]member{}
	for _, m := range f.members {
		byName[m.name] = m
	}
	known := 0
	for _, field := range s.Fields {
		m, kept := byName[field.Name]
		if kept {
			known++
		} else {
			if err := r.emitSkip(p, field, path); err != nil {
				return err
			}
			continue
		}
		sub, err := r.resolveField(field.Shape, m.form, path+m.path)
		if err != nil {
			return err
		}
		for _, st := range sub.steps {
			st.offset += m.offset
			st.path = m.path + st.path
			p.steps = append(p.steps, st)
		}
	}
	if known == 0 && len(s.Fields) > 0 && len(f.members) > 0 {
		return strangers(path, s)
	}
	return nil
}

// resolveField returns the steps of a field of any kind; resolve knows only structs.
func (r *resolver) resolveField(s *Shape, f *form, path string) (*program, error) {
	if f.kind == KindStruct && s.Kind == KindStruct {
		return r.resolve(s, f, path)
	}
	p := new(program)
	err := r.emit(p, s, f, path)
	return p, err
}

func (r *resolver) emitSkip(p *program, field ShapeField, path string) error {
	k, err := r.skipper(field.Shape)
	if err != nil {
		return fmt.Errorf("%s: %w", partAt(path+"."+field.Name), err)
	}
	if k.width > 0 {
		p.steps = append(p.steps, step{code: stepSkip, path: "." + field.Name, elemSkip: k})
	}
	return nil
}
