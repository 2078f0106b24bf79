package codec_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/copaldb/copal/codec"
)

// Fixed is a codec for float64 only: 8 bytes each, and 4 under an older schema.
type Fixed struct{}

func (Fixed) Name() string { return "fixed" }

func (Fixed) Compile(t reflect.Type) (codec.Type, error) {
	if t != reflect.TypeFor[float64]() {
		return nil, fmt.Errorf("%w as fixed: %v", codec.ErrType, t)
	}
	return fixedType{}, nil
}

type fixedType struct{}

func (fixedType) Schema() string { return "float64" }

func (fixedType) Append(dst []byte, v any) ([]byte, error) {
	return binary.BigEndian.AppendUint64(dst, math.Float64bits(*v.(*float64))), nil
}

func (fixedType) Decoder(schema string) (codec.Decoder, error) {
	switch schema {
	case "float64":
		return fixedDecoder(8), nil
	case "float32":
		return fixedDecoder(4), nil
	}
	return nil, fmt.Errorf("%w as fixed: it was stored as %s", codec.ErrType, schema)
}

// fixedDecoder is the number of bytes that a value has.
type fixedDecoder int

func (n fixedDecoder) Decode(src []byte, v any) error {
	if len(src) != int(n) {
		return fmt.Errorf("%w as fixed: %d bytes", codec.ErrData, len(src))
	}
	if n == 4 {
		*v.(*float64) = float64(math.Float32frombits(binary.BigEndian.Uint32(src)))
	} else {
		*v.(*float64) = math.Float64frombits(binary.BigEndian.Uint64(src))
	}
	return nil
}

// A codec of one's own is a Codec with a name that no other has.
func Example_ownCodec() {
	var c codec.Codec = Fixed{}
	typ, err := c.Compile(reflect.TypeFor[float64]())
	if err != nil {
		fmt.Println(err)
		return
	}
	v := 1.5
	src, _ := typ.Append(nil, &v)
	fmt.Printf("%s %s %x\n", c.Name(), typ.Schema(), src)

	var back float64
	d, _ := typ.Decoder("float32")
	fmt.Println(d.Decode([]byte{0x3f, 0xc0, 0, 0}, &back), back)
	// Output:
	// fixed float64 3ff8000000000000
	// <nil> 1.5
}

func TestOwnCodec(t *testing.T) {
	if _, err := (Fixed{}).Compile(reflect.TypeFor[string]()); !errors.Is(err, codec.ErrType) {
		t.Error(err)
	}
	typ := compileWith[float64](t, Fixed{})
	if _, err := typ.Decoder("string"); !errors.Is(err, codec.ErrType) {
		t.Error(err)
	}
	v, err := decodeAs[float64](t, Fixed{}, "float64", []byte{1})
	if !errors.Is(err, codec.ErrData) {
		t.Error(v, err)
	}
}
