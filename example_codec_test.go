package copal_test

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"io"
	"log"
	"reflect"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

// gobCodec keeps values as encoding/gob writes them. Each value is a stream of its own, with the
// definitions of its types in front: it is read without any other value, and is larger and slower
// for it. Gob changes some values without a word, as codecs of copal do not: an empty slice comes
// back as nil, and so does a pointer to a zero.
type gobCodec struct{}

func (gobCodec) Name() string { return "gob" }

// Compile refuses what gob cannot write at all.
func (gobCodec) Compile(t reflect.Type) (codec.Type, error) {
	if err := gob.NewEncoder(io.Discard).EncodeValue(reflect.New(t)); err != nil {
		return nil, fmt.Errorf("%w as gob: %w", codec.ErrType, err)
	}
	return gobType{}, nil
}

type gobType struct{}

// Schema names the form of the bytes. It is the same for every type, as each value describes its
// own; so it is a read, and not OpenMap, that tells of a value that does not fit.
func (gobType) Schema() string { return "stream" }

func (gobType) Append(dst []byte, v any) ([]byte, error) {
	buf := bytes.NewBuffer(dst)
	if err := gob.NewEncoder(buf).Encode(v); err != nil {
		return dst, fmt.Errorf("%w as gob: %w", codec.ErrValue, err)
	}
	return buf.Bytes(), nil
}

func (t gobType) Decoder(schema string) (codec.Decoder, error) {
	if schema != t.Schema() {
		return nil, fmt.Errorf("%w as gob: it was stored as %s", codec.ErrType, schema)
	}
	return t, nil
}

func (gobType) Decode(src []byte, v any) error {
	if err := gob.NewDecoder(bytes.NewReader(src)).Decode(v); err != nil {
		return fmt.Errorf("%w as gob: %w", codec.ErrData, err)
	}
	return nil
}

// A codec of one's own has a name that no other has, and is given wherever its maps are opened: a
// store that is opened without it says that it does not know the codec.
func ExampleWithCodec_own() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	type book struct {
		Title string
		Year  int
	}
	books, err := copal.OpenMap[string, book](db, "books", copal.WithCodec(gobCodec{}))
	if err != nil {
		log.Fatal(err)
	}
	books.Set("gopl", book{"The Go Programming Language", 2015})

	fmt.Println(books.Load("gopl"))
	_, err = copal.OpenMap[string, chan int](db, "channels", copal.WithCodec(gobCodec{}))
	fmt.Println(err != nil)
	// Output:
	// {The Go Programming Language 2015} <nil>
	// true
}
