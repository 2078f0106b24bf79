package kit

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"reflect"
	"sync"

	"github.com/copaldb/copal/codec"
)

// Pattern is n bytes, up to some MiB, of which no two parts look alike.
func Pattern(n int) []byte {
	from := n % 4093
	return bytes.Clone(noise()[from : from+n])
}

var noise = sync.OnceValue(func() []byte {
	b := make([]byte, 4<<20)
	rand.NewChaCha8([32]byte{}).Read(b)
	return b
})

type User struct {
	Name string
	Age  int
}

// HexCodec is a codec of the tests alone: JSON in hexadecimal digits.
type HexCodec struct{}

type hexType struct{ codec.Type }

type hexDecoder struct{ codec.Decoder }

func (HexCodec) Name() string { return "hex" }

func (HexCodec) Compile(t reflect.Type) (codec.Type, error) {
	plan, err := codec.JSON.Compile(t)
	return hexType{plan}, err
}

func (h hexType) Append(dst []byte, v any) ([]byte, error) {
	text, err := h.Type.Append(nil, v)
	return hex.AppendEncode(dst, text), err
}

func (h hexType) Decoder(schema string) (codec.Decoder, error) {
	d, err := h.Type.Decoder(schema)
	return hexDecoder{d}, err
}

func (h hexDecoder) Decode(src []byte, v any) error {
	text, err := hex.AppendDecode(nil, src)
	if err != nil {
		return err
	}
	return h.Decoder.Decode(text, v)
}
