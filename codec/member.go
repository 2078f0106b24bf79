package codec

import (
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"
)

// member is a field of a struct that codec Binary stores.
type member struct {
	name   string // as stored
	path   string // in Go, for errors
	offset uintptr
	form   *form
}

// membersOf returns the stored fields of t. An embedded struct is a field of its own under
// the name of its type, so that no field hides another or is lost between two.
func (b *former) membersOf(t reflect.Type, inKey bool, path string) ([]member, error) {
	var members []member
	seen := map[string]string{}
	for i := range t.NumField() {
		sf := t.Field(i)
		at := path + "." + sf.Name
		name, stored, err := storedName(sf)
		if err != nil {
			return nil, refuseBinary(at, err.Error())
		}
		if !stored {
			continue
		}
		if other, ok := seen[name]; ok {
			return nil, refuseBinary(at, fmt.Sprintf("it is stored as %q, and so is %s; give one of them another name by its tag", name, other))
		}
		seen[name] = at
		f, err := b.build(sf.Type, inKey, at)
		if err != nil {
			return nil, err
		}
		members = append(members, member{name, "." + sf.Name, sf.Offset, f})
	}
	return members, nil
}

// storedName returns the name under which a field is stored: the name in its copal tag, else the
// one in its json tag, else its own. Not stored are fields tagged "-" and unexported ones, except
// embedded structs with exported fields.
func storedName(sf reflect.StructField) (name string, stored bool, err error) {
	tag := sf.Tag.Get("copal")
	if tag == "-" || tag == "" && sf.Tag.Get("json") == "-" {
		return "", false, nil
	}
	if strings.Contains(tag, ",") || !utf8.ValidString(tag) {
		return "", false, fmt.Errorf("%q is no name; the tag copal takes a name without options, or -", tag)
	}
	if !sf.IsExported() {
		if stored, err = storedUnexported(sf); err != nil || !stored {
			if tag != "" && err == nil {
				err = fmt.Errorf("it has a name in its tag, but is not exported")
			}
			return "", false, err
		}
	}
	if tag == "" {
		tag, _ = parseTag(sf)
	}
	if tag == "" {
		tag = sf.Name
	}
	return tag, true, nil
}

func storedUnexported(sf reflect.StructField) (bool, error) {
	target := structBehind(sf.Type)
	if !sf.Anonymous || target == nil {
		return false, nil
	}
	if o, err := ownOf(target, ownBinary, ownText, ownJSON); err != nil || o.kind != "" {
		return false, fmt.Errorf("%v writes itself, but is embedded and not exported; name the field", target)
	}
	return reaches(target, map[reflect.Type]bool{}), nil
}

// reaches reports whether a field of the struct t is stored.
func reaches(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	for i := range t.NumField() {
		sf := t.Field(i)
		if sf.Tag.Get("copal") == "-" || sf.Tag.Get("copal") == "" && sf.Tag.Get("json") == "-" {
			continue
		}
		target := structBehind(sf.Type)
		if sf.IsExported() || sf.Anonymous && target != nil && reaches(target, seen) {
			return true
		}
	}
	return false
}
