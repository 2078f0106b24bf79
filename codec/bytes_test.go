package codec_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/copaldb/copal/codec"
)

type (
	blob     []byte
	octet    byte
	octets   []octet
	fileName string
)

// keepsBytes checks that v is stored as want, copied both ways, and comes back.
func keepsBytes[T any](t *testing.T, v T, want string) {
	t.Helper()
	typ, err := codec.Bytes.Compile(reflect.TypeFor[T]())
	if err != nil {
		t.Fatal(err)
	}
	if typ.Schema() != "" {
		t.Errorf("schema %q", typ.Schema())
	}
	out, err := typ.Append([]byte("dst"), &v)
	if err != nil || string(out) != "dst"+want {
		t.Errorf("Append(%#v) = %q, %v, want %q", v, out, err, "dst"+want)
	}
	d, err := typ.Decoder("")
	if err != nil {
		t.Fatal(err)
	}
	var back T
	src := []byte(want)
	if err := d.Decode(src, &back); err != nil {
		t.Fatal(err)
	}
	clear(src)
	if !reflect.DeepEqual(back, v) {
		t.Errorf("%#v comes back as %#v", v, back)
	}
}

func TestBytes(t *testing.T) {
	const any = "\x00\xff\r\n\"\\"
	keepsBytes(t, []byte(any), any)
	keepsBytes(t, []byte{}, "")
	keepsBytes(t, blob(any), any)
	keepsBytes(t, octets{1, 2}, "\x01\x02")
	keepsBytes(t, any, any)
	keepsBytes(t, "", "")
	keepsBytes(t, fileName(any), any)
	keepsBytes(t, json.RawMessage("not JSON"), "not JSON")
	keepsBytes(t, textOf("text"), "text")
}

func TestBytesNilComesBackEmpty(t *testing.T) {
	typ, err := codec.Bytes.Compile(reflect.TypeFor[[]byte]())
	if err != nil {
		t.Fatal(err)
	}
	var v []byte
	out, err := typ.Append(nil, &v)
	if err != nil || len(out) != 0 {
		t.Fatalf("%q, %v", out, err)
	}
	d, _ := typ.Decoder("")
	if err := d.Decode(nil, &v); err != nil || v == nil || len(v) != 0 {
		t.Fatalf("%#v, %v", v, err)
	}
}

func TestBytesAppendCopies(t *testing.T) {
	typ, _ := codec.Bytes.Compile(reflect.TypeFor[[]byte]())
	v := []byte("abc")
	out, _ := typ.Append(nil, &v)
	v[0] = 'X'
	if !bytes.Equal(out, []byte("abc")) {
		t.Errorf("%q", out)
	}
}

func TestBytesRefuses(t *testing.T) {
	for _, typ := range []reflect.Type{nil, reflect.TypeFor[int](), reflect.TypeFor[[4]byte](), reflect.TypeFor[[]int8](),
		reflect.TypeFor[*[]byte](), reflect.TypeFor[*string](), reflect.TypeFor[any](), reflect.TypeFor[user]()} {
		if _, err := codec.Bytes.Compile(typ); !errors.Is(err, codec.ErrType) {
			t.Errorf("%v: %v", typ, err)
		}
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[[]byte](), reflect.TypeFor[string]()} {
		compiled, _ := codec.Bytes.Compile(typ)
		if _, err := compiled.Decoder("int"); !errors.Is(err, codec.ErrType) {
			t.Errorf("%v: %v", typ, err)
		}
	}
}

func TestNames(t *testing.T) {
	if codec.JSON.Name() != "json" || codec.Bytes.Name() != "bytes" {
		t.Error("names are part of the file format", codec.JSON.Name(), codec.Bytes.Name())
	}
}
