package keycodec

import (
	"fmt"
	"reflect"
)

// TypeCodec is a codec of composite keys of a type that is known at run time alone.
type TypeCodec struct {
	shape
	typ reflect.Type
}

func ForType(t reflect.Type) (*TypeCodec, error) {
	s, why := shapeOf(t, "")
	if why != "" {
		return nil, refuse(t, why)
	}
	return &TypeCodec{s, t}, nil
}

func (c *TypeCodec) Order() Order {
	_, name := c.names()
	o, _ := OrderNamed(name)
	return o
}

func (c *TypeCodec) Append(dst []byte, v reflect.Value) ([]byte, error) {
	return appendParts(dst, v.Addr().UnsafePointer(), c.parts)
}

func (c *TypeCodec) Decode(b []byte) (reflect.Value, error) {
	v := reflect.New(c.typ).Elem()
	if err := parseKeyParts(string(b), v.Addr().UnsafePointer(), c.parts); err != nil {
		return v, err
	}
	if again, err := c.Append(nil, v); err != nil || string(again) != string(b) {
		return v, fmt.Errorf("%q is spelled %q, %v", b, again, err)
	}
	return v, nil
}

func (c *TypeCodec) Compare(v, w reflect.Value) int {
	return compareParts(v.Addr().UnsafePointer(), w.Addr().UnsafePointer(), c.parts)
}
