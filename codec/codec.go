package codec

import "reflect"

// Codec is a way to encode values: JSON, Binary, Bytes, or one of the caller's own, as in the
// example of copal.WithCodec. Implementations are safe for concurrent use.
type Codec interface {
	// Name is recorded in the log beside every schema, and finds the codec again when its records
	// are read. It is one lower-case word. Codecs that write different bytes have different names.
	Name() string
	// Compile prepares the codec for values of type t. If t cannot be kept, the error gives the
	// reason.
	Compile(t reflect.Type) (Type, error)
}

// Type is a codec compiled for one Go type T. It is safe for concurrent use.
type Type interface {
	// Schema describes the shape of the encoded values, in the grammar of docs/format.md. Two types
	// with the same schema are encoded alike. The empty schema means that the stored bytes are raw:
	// no schema is recorded.
	Schema() string
	// Append encodes the value that v, a *T, points to, appends it to dst, and returns the extended
	// slice. It keeps neither v nor dst, which the caller uses again for other values. When it
	// returns an error, dst may have been overwritten past its length.
	Append(dst []byte, v any) ([]byte, error)
	// Decoder returns a decoder for values that the same codec wrote under the given schema. If the
	// schema does not fit T, the error names the part that does not. A map with values of such a
	// schema cannot be opened as T, so misfits that depend on a single value are left to Decode.
	Decoder(schema string) (Decoder, error)
}

// Decoder decodes values of one schema into one Go type T. It is safe for concurrent use.
type Decoder interface {
	// Decode decodes src into the zero T that v, a *T, points to. The result shares no memory with
	// src, which the caller uses again for other values. Decode does not keep v.
	Decode(src []byte, v any) error
}
