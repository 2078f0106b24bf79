package codec

import (
	"fmt"
	"reflect"
)

// Bytes keeps []byte, named byte slices and string types unchanged, of any bytes and any length,
// without a schema. It does not call methods such as MarshalText.
//
// A nil slice is stored as the empty one, and comes back empty and not nil: a raw record is nothing
// but its bytes, and has no room for the difference. Nil is not refused, because it is the usual
// way to write an empty value.
var Bytes Codec = bytesCodec{}

type bytesCodec struct{}

func (bytesCodec) Name() string { return "bytes" }

func (bytesCodec) Compile(t reflect.Type) (Type, error) {
	switch {
	case t == nil:
		return nil, fmt.Errorf("%w as bytes: no type", ErrType)
	case t.Kind() == reflect.String:
		return stringType{}, nil
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return bytesType{}, nil
	}
	return nil, fmt.Errorf("%w as bytes: %v is neither a byte slice nor a string", ErrType, t)
}

// raw is the common part of the two compiled types: bytes without a schema.
type raw struct{}

func (raw) Schema() string { return "" }

func (raw) check(schema string) error {
	if schema != "" {
		return fmt.Errorf("%w: bytes have no schema, but this is one: %q", ErrType, schema)
	}
	return nil
}

type bytesType struct{ raw }

func (bytesType) Append(dst []byte, v any) ([]byte, error) {
	if p, ok := v.(*[]byte); ok {
		return append(dst, *p...), nil
	}
	return append(dst, reflect.ValueOf(v).Elem().Bytes()...), nil
}

func (t bytesType) Decoder(schema string) (Decoder, error) { return t, t.check(schema) }

func (bytesType) Decode(src []byte, v any) error {
	b := append(make([]byte, 0, len(src)), src...)
	if p, ok := v.(*[]byte); ok {
		*p = b
	} else {
		reflect.ValueOf(v).Elem().SetBytes(b)
	}
	return nil
}

type stringType struct{ raw }

func (stringType) Append(dst []byte, v any) ([]byte, error) {
	if p, ok := v.(*string); ok {
		return append(dst, *p...), nil
	}
	return append(dst, reflect.ValueOf(v).Elem().String()...), nil
}

func (t stringType) Decoder(schema string) (Decoder, error) { return t, t.check(schema) }

func (stringType) Decode(src []byte, v any) error {
	if p, ok := v.(*string); ok {
		*p = string(src)
	} else {
		reflect.ValueOf(v).Elem().SetString(string(src))
	}
	return nil
}
