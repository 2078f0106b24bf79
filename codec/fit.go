package codec

import "strings"

// fitter compares the shape of what was stored with that of today where a library
// decodes, and knows by itself how.
type fitter struct {
	leaf     func(stored, now *Shape) bool // for all that is not two lists, maps or structs
	pointers bool                          // a T and a pointer to T fit
	lists    bool                          // slices and arrays of any length fit
	fold     bool                          // names that differ in letter case only fit
	share    bool                          // structs must have a field in common

	doubt bool // whether some values fit must be found out one by one
	seen  map[[2]*Shape]bool
}

// fit reports where what was stored as s does not fit now.
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
	case sp && f.pointers:
		f.doubt = f.doubt || !nilable(now.Kind)
		return f.fit(s.Elem, now, path)
	case np && f.pointers:
		return f.fit(s, now.Elem, path)
	case s.Kind == KindStruct && now.Kind == KindStruct:
		return f.fitStruct(s, now, path)
	case s.Kind == KindMap && now.Kind == KindMap:
		if err := f.fit(s.Key, now.Key, path+"[key]"); err != nil {
			return err
		}
		return f.fit(s.Elem, now.Elem, path+"[]")
	case f.sameList(s, now):
		f.doubt = f.doubt || now.Kind == KindArray
		return f.fit(s.Elem, now.Elem, path+"[]")
	case f.leaf(s, now):
		return nil
	}
	return misfit(path, s, now.String())
}

func (f *fitter) sameList(s, now *Shape) bool {
	if f.lists {
		return (s.Kind == KindSlice || s.Kind == KindArray) && (now.Kind == KindSlice || now.Kind == KindArray)
	}
	return (s.Kind == KindSlice || s.Kind == KindArray) && s.Kind == now.Kind && s.Len == now.Len
}

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
		to := now.field(field.Name, f.fold)
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
	if f.share && len(taken) == 0 && len(s.Fields) > 0 {
		return misfit(path, s, now.String())
	}
	return nil
}

// field returns the field under a name, or nil.
func (s *Shape) field(name string, fold bool) *ShapeField {
	for i := range s.Fields {
		if s.Fields[i].Name == name {
			return &s.Fields[i]
		}
	}
	for i := range s.Fields {
		if fold && strings.EqualFold(s.Fields[i].Name, name) {
			return &s.Fields[i]
		}
	}
	return nil
}
