package codec

import "strings"

// fitter compares the shape that was stored as JSON with the present one, as encoding/json decodes:
// a T and a pointer to T fit, slices and arrays of any length, and names that differ in letter case
// only.
type fitter struct {
	leaf func(stored, now *Shape) bool // for all that is not two lists, maps or structs

	doubt bool // whether some values fit must be found out one by one
	seen  map[[2]*Shape]bool
}

// fit returns an error that names the part of s that does not fit now.
func (f *fitter) fit(s, now *Shape, path string) error {
	if pair := [2]*Shape{s, now}; f.seen[pair] {
		return nil
	} else {
		f.seen[pair] = true
	}
	sp, np := s.Kind == KindPointer, now.Kind == KindPointer
	switch {
	case sp && np:
		return f.fit(s.Elem, now.Elem, path)
	case sp:
		f.doubt = f.doubt || !nilable(now.Kind)
		return f.fit(s.Elem, now, path)
	case np:
		return f.fit(s, now.Elem, path)
	case s.Kind == KindStruct && now.Kind == KindStruct:
		return f.fitStruct(s, now, path)
	case s.Kind == KindMap && now.Kind == KindMap:
		if err := f.fit(s.Key, now.Key, path+"[key]"); err != nil {
			return err
		}
		return f.fit(s.Elem, now.Elem, path+"[]")
	case hasElems(s.Kind) && hasElems(now.Kind):
		f.doubt = f.doubt || now.Kind == KindArray
		return f.fit(s.Elem, now.Elem, path+"[]")
	case f.leaf(s, now):
		return nil
	}
	return misfit(path, s, now.String())
}

// hasElems reports whether k is a list of elements. Bytes are none: they are a string in JSON.
func hasElems(k Kind) bool { return k == KindSlice || k == KindArray }

// nilable reports whether a nil that was stored is nil in every value of kind k.
func nilable(k Kind) bool {
	switch k {
	case KindPointer, KindSlice, KindBytes, KindMap, KindAny:
		return true
	}
	return false
}

func (f *fitter) fitStruct(s, now *Shape, path string) error {
	taken := map[string]string{}
	for _, field := range s.Fields {
		to := now.field(field.Name)
		if to == nil {
			continue
		}
		if other, ok := taken[to.Name]; ok {
			return misfitNames(path, to.Name, other, field.Name)
		}
		taken[to.Name] = field.Name
		if err := f.fit(field.Shape, to.Shape, path+"."+to.Name); err != nil {
			return err
		}
	}
	if len(taken) == 0 && len(s.Fields) > 0 && len(now.Fields) > 0 {
		return strangers(path, s)
	}
	return nil
}

// field returns the field under a name, or else one whose name differs in letter case only, or
// nil.
func (s *Shape) field(name string) *ShapeField {
	for i := range s.Fields {
		if s.Fields[i].Name == name {
			return &s.Fields[i]
		}
	}
	for i := range s.Fields {
		if strings.EqualFold(s.Fields[i].Name, name) {
			return &s.Fields[i]
		}
	}
	return nil
}
