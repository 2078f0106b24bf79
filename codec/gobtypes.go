package codec

import (
	"bytes"
	"encoding/gob"
)

// The numbers of gob's own types.
const (
	gobBool    = 1
	gobInt     = 2
	gobUintID  = 3
	gobFloat   = 4
	gobBytes   = 5
	gobString  = 6
	gobComplex = 7
	gobFirst   = 65 // of those that a stream defines
)

// gobDefinitions returns the messages that define the types of a schema in a stream of
// gobs, and the number of the outermost.
//
// They are made from the schema because those that gob writes have numbers that depend
// on which types a process met before: as part of a schema, they would make it another
// schema in each order of opening maps.
func gobDefinitions(s *Shape) (messages []byte, id int) {
	d := gobDefiner{ids: map[string]int{}}
	id = d.id(s)
	return d.messages, id
}

type gobDefiner struct {
	ids      map[string]int // by schema: gob wants one number for one type
	messages []byte
}

// The types that follow are those of package gob by which it describes types.
type (
	gobCommon struct {
		Name string
		ID   int
	}
	gobArray struct {
		Common gobCommon
		Elem   int
		Len    int
	}
	gobSlice struct {
		Common gobCommon
		Elem   int
	}
	gobField struct {
		Name string
		ID   int
	}
	gobStruct struct {
		Common gobCommon
		Field  []gobField
	}
	gobMap struct {
		Common gobCommon
		Key    int
		Elem   int
	}
	gobOwn struct {
		Common gobCommon
	}
	gobDefinition struct {
		Array   *gobArray
		Slice   *gobSlice
		Struct  *gobStruct
		Map     *gobMap
		Encoder *gobOwn
		Binary  *gobOwn
		Text    *gobOwn
	}
)

// id returns the number of the type of s, and defines it first.
func (d *gobDefiner) id(s *Shape) int {
	switch k := s.Kind; {
	case k == KindPointer:
		return d.id(s.Elem)
	case k == KindBool:
		return gobBool
	case isSigned(k):
		return gobInt
	case isUnsigned(k):
		return gobUintID
	case isFloat(k):
		return gobFloat
	case isComplex(k):
		return gobComplex
	case k == KindBytes:
		return gobBytes
	case k == KindString:
		return gobString
	}
	text := s.String()
	if id, ok := d.ids[text]; ok {
		return id
	}
	id := gobFirst + len(d.ids)
	d.ids[text] = id
	d.define(id, d.definition(s, gobCommon{ID: id}))
	return id
}

func (d *gobDefiner) definition(s *Shape, c gobCommon) gobDefinition {
	switch s.Kind {
	case KindSlice:
		return gobDefinition{Slice: &gobSlice{c, d.id(s.Elem)}}
	case KindArray:
		return gobDefinition{Array: &gobArray{c, d.id(s.Elem), s.Len}}
	case KindMap:
		return gobDefinition{Map: &gobMap{c, d.id(s.Key), d.id(s.Elem)}}
	case KindStruct:
		def := &gobStruct{Common: c}
		for _, f := range s.Fields {
			def.Field = append(def.Field, gobField{f.Name, d.id(f.Shape)})
		}
		return gobDefinition{Struct: def}
	case KindBinary:
		return gobDefinition{Binary: &gobOwn{c}}
	}
	return gobDefinition{Encoder: &gobOwn{c}}
}

// define writes a definition as gob does: the number negated, and the description as
// the value of a struct.
func (d *gobDefiner) define(id int, def gobDefinition) {
	var stream bytes.Buffer
	err := gob.NewEncoder(&stream).Encode(def)
	value, err2 := gobValue(stream.Bytes())
	if err != nil || err2 != nil {
		panic("codec: encoding/gob does not write a struct of structs and strings")
	}
	message := appendGobUint(nil, uint64(^-id)<<1|1)
	message = append(message, value...)
	d.messages = appendGobUint(d.messages, uint64(len(message)))
	d.messages = append(d.messages, message...)
}
