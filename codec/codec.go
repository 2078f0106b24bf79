// Package codec turns Go values into the bytes of a record and back.
//
// A codec is compiled once per Go type; what it cannot keep exactly it refuses
// then, or, when only the value shows it, at the write. It never stores a value
// that would be read back as another.
package codec

import "reflect"

// Codec is a way to encode values: JSON, Binary, Bytes, or one of the caller's own, as in the
// example of copal.WithCodec. Implementations are safe for concurrent use.
type Codec interface {
	// Name is recorded in the log beside every schema, and finds the codec again
	// when its records are read. It is one lower-case word, and that of no codec that
	// writes other bytes.
	Name() string
	// Compile prepares the codec for values of type t, or says why t cannot be kept.
	Compile(t reflect.Type) (Type, error)
}

// Type is a codec compiled for one Go type T. It is safe for concurrent use.
type Type interface {
	// Schema describes the shape of the encoded values, in the grammar of
	// docs/format.md. Two types with the same schema are encoded alike.
	// The empty schema says that the stored bytes are raw: no schema is recorded.
	Schema() string
	// Append encodes the value that v, a *T, points to, appends it to dst, and returns the
	// extended slice. It keeps neither dst, which is used for other values next, nor v. When it
	// returns an error, dst may have been overwritten past its length.
	Append(dst []byte, v any) ([]byte, error)
	// Decoder returns a decoder of what was written under the given schema of the
	// same codec, or says which part of it does not fit T. A map is not opened as T
	// while it has values of such a schema; so what depends on the value is left to Decode.
	Decoder(schema string) (Decoder, error)
}

// Decoder decodes values of one schema into one Go type T. It is safe for concurrent use.
type Decoder interface {
	// Decode decodes src into the zero T that v, a *T, points to. The result
	// shares no memory with src, which is used for other values next, and v is not kept.
	Decode(src []byte, v any) error
}
