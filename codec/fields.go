package codec

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// field is a stored field of a struct, its own or one of a struct that it embeds.
type field struct {
	name      string // as stored
	path      string // in Go, for errors
	index     []int
	node      *node
	omitEmpty bool
	omitZero  bool
	quoted    bool // tagged ",string" with effect
}

// written reports whether the field is part of every encoded struct.
func (f field) written() bool { return !f.omitEmpty && !f.omitZero }

// fieldsOf returns the fields of t that encoding/json stores, in its order. It
// refuses those that it would leave out without being asked to.
func (p *planner) fieldsOf(t reflect.Type, addr bool, path string) ([]field, error) {
	c := fieldCollector{planner: p, path: path}
	if err := c.collect(t, addr, nil, ""); err != nil {
		return nil, err
	}
	seen := map[string]field{}
	for _, f := range c.fields {
		if other, ok := seen[f.name]; ok {
			return nil, refuse(path+f.path, fmt.Sprintf(
				"it is stored as %q, and so is %s; give one of them another name by its tag", f.name, path+other.path))
		}
		seen[f.name] = f
	}
	return c.fields, nil
}

type fieldCollector struct {
	*planner
	path      string         // of the outermost struct
	fields    []field        // so far
	embedding []reflect.Type // the structs that are being collected, outermost first
}

// collect adds the fields of the struct t, embedded at index and path.
func (c *fieldCollector) collect(t reflect.Type, addr bool, index []int, path string) error {
	if slices.Contains(c.embedding, t) {
		return refuse(c.path+path, fmt.Sprintf("%v embeds itself; name the field", t))
	}
	c.embedding = append(c.embedding, t)
	defer func() { c.embedding = c.embedding[:len(c.embedding)-1] }()
	for i := range t.NumField() {
		sf := t.Field(i)
		if skipped(sf) {
			continue
		}
		fieldPath := path + "." + sf.Name
		fieldIndex := append(slices.Clone(index), i)
		var err error
		if target := embeddedStruct(sf); target != nil {
			err = c.collectEmbedded(sf, target, addr, fieldIndex, fieldPath)
		} else {
			err = c.add(sf, addr, fieldIndex, fieldPath)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// skipped reports whether encoding/json is not asked to store the field: it is tagged
// "-", or neither exported nor an embedded struct that may have exported fields.
func skipped(sf reflect.StructField) bool {
	if sf.Tag.Get("json") == "-" {
		return true
	}
	return !sf.IsExported() && (!sf.Anonymous || structBehind(sf.Type) == nil)
}

// embeddedStruct returns the struct whose fields are stored in place of the embedded field sf, or
// nil if sf is stored under a name of its own.
func embeddedStruct(sf reflect.StructField) reflect.Type {
	if name, _ := parseTag(sf); !sf.Anonymous || name != "" {
		return nil
	}
	return structBehind(sf.Type)
}

// structBehind returns the struct that t is or points to, or nil.
func structBehind(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	return t
}

// collectEmbedded adds the fields of an embedded struct. One embedded as a pointer must have a
// field that is always written, else a pointer to its zero value is read back as nil.
func (c *fieldCollector) collectEmbedded(sf reflect.StructField, target reflect.Type, addr bool, index []int, path string) error {
	if methodsOf(target).any() {
		return refuse(c.path+path, fmt.Sprintf("the methods of %v are not called where it is embedded; name the field", target))
	}
	if sf.Type.Kind() != reflect.Pointer {
		return c.collect(target, addr, index, path)
	}
	if !sf.IsExported() {
		return refuse(c.path+path, "an embedded pointer to an unexported struct cannot be read back; name the field")
	}
	first := len(c.fields)
	if err := c.collect(target, true, index, path); err != nil {
		return err
	}
	for _, f := range c.fields[first:] {
		if f.written() && !c.behindPointer(target, f.index[len(index):]) {
			return nil
		}
	}
	return refuse(c.path+path, "an embedded pointer to a struct without a field that is always written "+
		"would be nil again when read; name the field")
}

// behindPointer reports whether the way from t to the field at index leads through an embedded pointer.
func (c *fieldCollector) behindPointer(t reflect.Type, index []int) bool {
	for _, i := range index[:len(index)-1] {
		t = t.Field(i).Type
		if t.Kind() == reflect.Pointer {
			return true
		}
	}
	return false
}

// add adds a field that is stored under a name.
func (c *fieldCollector) add(sf reflect.StructField, addr bool, index []int, path string) error {
	if !sf.IsExported() {
		return refuse(c.path+path, "an embedded unexported struct has a name in its tag; name the field in Go")
	}
	name, options := parseTag(sf)
	f := field{name: name, path: path, index: index,
		omitEmpty: slices.Contains(options, "omitempty"), omitZero: slices.Contains(options, "omitzero")}
	if f.name == "" {
		f.name = sf.Name
	}
	if slices.Contains(options, "string") {
		var err error
		if f.quoted, err = c.quotes(sf.Type, path); err != nil {
			return err
		}
	}
	var err error
	f.node, err = c.build(sf.Type, addr, c.path+path)
	c.fields = append(c.fields, f)
	return err
}

// quotes reports whether the option ",string" has an effect on t: on strings, numbers, bools
// and pointers to them. It is refused for those that write themselves, which
// encoding/json does not read back.
func (c *fieldCollector) quotes(t reflect.Type, path string) (bool, error) {
	if t.Name() == "" && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		if methodsOf(t).any() {
			return false, refuse(c.path+path, fmt.Sprintf("%v writes itself, which does not go with the tag ,string", t))
		}
		return true, nil
	}
	return false, nil
}

// parseTag returns the name in the json tag, or "" if there is none that
// encoding/json takes, and the options.
func parseTag(sf reflect.StructField) (name string, options []string) {
	parts := strings.Split(sf.Tag.Get("json"), ",")
	if validName(parts[0]) {
		name = parts[0]
	}
	return name, parts[1:]
}

// validName is the rule of encoding/json for names in tags.
func validName(s string) bool {
	for _, c := range s {
		if !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", c) && !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			return false
		}
	}
	return s != ""
}
