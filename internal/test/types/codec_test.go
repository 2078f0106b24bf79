package types

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/vfs"
)

type order struct {
	ID     int
	Name   string
	Lines  []string
	Placed time.Time
	Next   *order
	Prices map[string]float64
}

var someOrder = order{
	ID: -7, Name: "first", Lines: []string{"a", ""}, Placed: time.Date(2026, 11, 21, 6, 45, 0, 123456789, time.UTC),
	Next: &order{ID: 8, Name: "second"}, Prices: map[string]float64{"x": 1.5},
}

// TestCodecs keeps values with every codec, and reads them with every other open.
func TestCodecs(t *testing.T) {
	codecs := []codec.Codec{codec.JSON, codec.Binary}
	mem := vfs.NewMem()
	db := kit.OpenOn(t, mem)
	for _, c := range codecs {
		m, err := copal.OpenMap[string, order](db, "orders", copal.WithCodec(c))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(m.Set(c.Name(), someOrder), m.Set(c.Name()+" zero", order{})); err != nil {
			t.Fatalf("%s: %v", c.Name(), err)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	check := func(db *copal.DB) {
		t.Helper()
		for _, open := range codecs {
			m, err := copal.OpenMap[string, order](db, "orders", copal.WithCodec(open))
			if err != nil {
				t.Fatal(err)
			}
			for _, wrote := range codecs {
				if v, err := m.Load(wrote.Name()); err != nil || !reflect.DeepEqual(v, someOrder) {
					t.Errorf("written as %s, read with %s open: %+v, %v", wrote.Name(), open.Name(), v, err)
				}
				if v, err := m.Load(wrote.Name() + " zero"); err != nil || !reflect.DeepEqual(v, order{}) {
					t.Errorf("written as %s, read with %s open: %+v, %v", wrote.Name(), open.Name(), v, err)
				}
			}
			if m.Len() != 2*len(codecs) {
				t.Errorf("%d entries", m.Len())
			}
			m.Close()
		}
	}
	check(db)
	kit.MustClose(t, db)
	check(kit.OpenOn(t, mem))
}

// borrowed is a codec for []byte that returns the value itself instead of appending it.
type borrowed struct{}

func (borrowed) Name() string                                 { return "borrowed" }
func (borrowed) Compile(reflect.Type) (codec.Type, error)     { return borrowed{}, nil }
func (borrowed) Schema() string                               { return "bytes" }
func (borrowed) Append(dst []byte, v any) ([]byte, error)     { return *v.(*[]byte), nil }
func (borrowed) Decoder(schema string) (codec.Decoder, error) { return borrowed{}, nil }
func (borrowed) Decode(src []byte, v any) error               { *v.(*[]byte) = bytes.Clone(src); return nil }

// TestCodecThatBorrows: the bytes that a codec returns are never written to, though buffers are
// used again.
func TestCodecThatBorrows(t *testing.T) {
	db := kit.OpenOn(t, vfs.NewMem())
	m, other := kit.MapOf[int, []byte](t, db, "m", copal.WithCodec(borrowed{})), kit.MapOf[int, string](t, db, "other")
	var given [50][]byte
	for i := range given {
		given[i] = []byte(strings.Repeat("given", 10))
		kit.MustSet(t, m, i, given[i])
		kit.MustSet(t, other, i, strings.Repeat("other", 9))
		if v, err := other.Load(i); err != nil || v != strings.Repeat("other", 9) {
			t.Fatal(v, err)
		}
	}
	for i, v := range given {
		if stored, err := m.Load(i); string(v) != strings.Repeat("given", 10) || !bytes.Equal(stored, v) || err != nil {
			t.Fatalf("%d: what was given is %q, and stored %q, %v", i, v, stored, err)
		}
	}
}

// TestNoPartOfAValue: no read returns a value that does not decode to its end.
func TestNoPartOfAValue(t *testing.T) {
	type pair struct{ A, B int }
	db := kit.OpenOn(t, vfs.NewMem())
	m, h := kit.MapOf[string, pair](t, db, "m"), kit.OpenHash[string, pair](t, db, "h")
	kit.MustPut(t, db, "m:k", `{"A":1,"B":"two"}`)
	if err := db.Raw().Hash([]byte("h")).Set("k", []byte(`{"A":1,"B":"two"}`)); err != nil {
		t.Fatal(err)
	}
	if v, err := m.Load("k"); v != (pair{}) || !errors.Is(err, copal.ErrType) {
		t.Error(v, err)
	}
	if v, err := h.Load("k"); v != (pair{}) || !errors.Is(err, copal.ErrType) {
		t.Error(v, err)
	}
	if v, err := copal.Load[pair](db, "m:k"); v != (pair{}) || !errors.Is(err, copal.ErrType) {
		t.Error(v, err)
	}
}

// A map of an unknown codec does not open without it, and keeps its records.
// namesake is a codec of a program's own that is called as one of package codec.
type namesake struct{ codec.Codec }

// A codec that would be taken for another when its values are read is refused.
func TestCodecWithTheNameOfAnother(t *testing.T) {
	db := kit.OpenOn(t, vfs.NewMem())
	defer db.Close()
	_, err := copal.OpenMap[string, int](db, "m", copal.WithCodec(namesake{codec.JSON}))
	if err == nil || !strings.Contains(err.Error(), "the name json") {
		t.Error(err)
	}
}

func TestUnknownCodec(t *testing.T) {
	kit.Lives(t, func(t *testing.T, db *copal.DB) {
		kit.MustSet(t, kit.MapOf[string, kit.User](t, db, "users", copal.WithCodec(kit.HexCodec{})), "alice", kit.User{Name: "Alice", Age: 28})
	}, func(t *testing.T, db *copal.DB) {
		for _, c := range []codec.Codec{codec.JSON, codec.Binary} {
			_, err := copal.OpenMap[string, kit.User](db, "users", copal.WithCodec(c))
			kit.WantErr(t, "OpenMap", err, copal.ErrType)
			if err != nil && !strings.Contains(err.Error(), `codec "hex" is not known here`) {
				t.Errorf("the error does not name the codec: %v", err)
			}
		}
		kit.WantLoad(t, kit.MapOf[string, kit.User](t, db, "users", copal.WithCodec(kit.HexCodec{})), "alice", kit.User{Name: "Alice", Age: 28})
	})
}
