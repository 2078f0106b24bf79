package admin_test

import (
	"encoding/json"
	"errors"
	"math/big"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/codec"
)

type base struct{ ID int }

// color is one of three, of which none is "".
type color int

func (c color) MarshalText() ([]byte, error) { return []byte([]string{"red", "green", "blue"}[c]), nil }

func (c *color) UnmarshalText(text []byte) error {
	for i, name := range []string{"red", "green", "blue"} {
		if string(text) == name {
			*c = color(i)
			return nil
		}
	}
	return errors.New("no color")
}

type embedding struct {
	base
	Base2 *struct{ X int }
	Name  string
}

type tagged struct {
	Name   string `json:"name" copal:"n"`
	Secret string `json:"-" copal:"secret"`
}

type recursive struct {
	Name string
	Base base
	Next *recursive
	All  map[string]recursive
}

type odd struct {
	Color color
	Big   *big.Int
	Addr  netip.Addr
	Wide  float64
	Thin  float32
	At    time.Time
}

type oddBinary struct {
	Raw     json.RawMessage
	URL     url.URL
	Flags   map[bool]int
	Complex complex128
	Points  map[[2]int8]string
	Bytes   []byte
}

// The JSON of a value is taken back as that value, whether the map is open or not: a patch of one
// field changes no other.
func TestWhatIsShownFits(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600))
	for _, c := range []codec.Codec{codec.JSON, codec.Binary} {
		t.Run(c.Name(), func(t *testing.T) {
			shownFits(t, c, embedding{base{7}, &struct{ X int }{1}, "x"})
			shownFits(t, c, recursive{"x", base{7}, &recursive{Name: "y"}, map[string]recursive{"z": {Base: base{1}}}})
			shownFits(t, c, odd{2, big.NewInt(5), netip.MustParseAddr("::1"), 1 << 60, 1 << 25, at})
			shownFits(t, c, map[string][]*int8{"a": {nil, new(int8)}, "b": nil})
			if c == codec.Binary {
				shownFits(t, c, tagged{"x", "s3cret"})
				shownFits(t, c, oddBinary{json.RawMessage("[1]"), url.URL{Host: "h", Scheme: "s"}, map[bool]int{true: 1}, complex(1, 2), map[[2]int8]string{{1, -2}: "x"}, []byte{}})
			}
		})
	}
}

func shownFits[V any](t *testing.T, c codec.Codec, v V) {
	t.Helper()
	for _, isOpen := range []bool{true, false} {
		db, err := copal.OpenMemory()
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		open := func() *copal.Map[string, V] {
			m, err := copal.OpenMap[string, V](db, "m", copal.WithCodec(c))
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		m := open()
		if err := m.Set("a", v); err != nil {
			t.Fatal(err)
		}
		if !isOpen {
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
		raw := admin.Raw(db, admin.Values{})
		shown, err := raw.Load([]byte("m:a"))
		if err == nil {
			err = raw.Set([]byte("m:b"), shown)
		}
		if err != nil {
			t.Fatalf("%s, open %v: %v", shown, isOpen, err)
		}
		if !isOpen {
			m = open()
		}
		got, err := m.Load("b")
		want, _ := m.Load("a") // times have another location
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s, open %v: %+v, %v, want %+v", shown, isOpen, got, err, want)
		}
	}
}

// JSON that only the map's own program could judge is refused, and not stored in a form that no
// typed read takes.
func TestFitRefusesWhatIsNotKnown(t *testing.T) {
	for _, isOpen := range []bool{true, false} {
		db, err := copal.OpenMemory()
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		m, err := copal.OpenMap[string, odd](db, "m", copal.WithCodec(codec.Binary))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Set("a", odd{}); err != nil {
			t.Fatal(err)
		}
		if !isOpen {
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for text, says := range map[string]string{
			`{}`: "Color is missing", `{"Color":null,"Addr":""}`: "Color is missing", `{"Color":"red"}`: "Addr is missing",
			`{"Color":"red","Addr":"AAAAAAAAAAAAAAAAAAAAAQ==","Wide":9007199254740993}`: "Wide is 9007199254740993, which", `{"Color":"red","Addr":"AAAAAAAAAAAAAAAAAAAAAQ==","Thin":16777217}`: "Thin is 16777217",
		} {
			if err := fits(db, "m:b", text); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s, open %v: %v", text, isOpen, err)
			}
		}
		if err := fits(db, "m:b", `{"Color":"pink","Addr":"AAAAAAAAAAAAAAAAAAAAAQ=="}`); isOpen && !errors.Is(err, copal.ErrType) {
			t.Errorf("a text that the type does not read: %v", err)
		}
	}
}

// An entry of an earlier version of the program may be changed in part: it keeps its form.
func TestFitEarlierForm(t *testing.T) {
	type first struct{ A, B int }
	type second struct{ A int }
	for _, c := range []codec.Codec{codec.JSON, codec.Binary} {
		db, err := copal.OpenMemory()
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		earlier, err := copal.OpenMap[string, first](db, "m", copal.WithCodec(c))
		if err == nil {
			err = errors.Join(earlier.Set("a", first{1, 2}), earlier.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		m, err := copal.OpenMap[string, second](db, "m", copal.WithCodec(c))
		if err == nil {
			err = m.Set("b", second{3})
		}
		if err != nil {
			t.Fatal(err)
		}
		raw := admin.Raw(db, admin.Values{})
		if err := raw.Set([]byte("m:a"), []byte(`{"A":5,"B":2}`)); err != nil {
			t.Fatal(err)
		}
		v, err := m.Load("a")
		if shown, _ := raw.Get([]byte("m:a")); err != nil || v.A != 5 || string(shown) != `{"A":5,"B":2}` {
			t.Errorf("%v, %v, %s", v, err, shown)
		}
		if err := raw.Set([]byte("m:a"), []byte(`{"C":5}`)); err == nil || !strings.Contains(err.Error(), "C is no field") {
			t.Error(err)
		}
	}
}

// reversed is a codec of a program's own, which no server can write.
type reversed struct{}

func (reversed) Name() string { return "reversed" }

func (reversed) Compile(t reflect.Type) (codec.Type, error) {
	of, err := codec.JSON.Compile(t)
	return reversedType{of}, err
}

type reversedType struct{ codec.Type }

// A map with a codec of its program's own takes JSON as raw bytes, as its type reads them.
func TestFitOwnCodec(t *testing.T) {
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	m, err := copal.OpenMap[netip.Addr, base](db, "m", copal.WithCodec(reversed{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Set(netip.MustParseAddr("::1"), base{1}); err != nil {
		t.Fatal(err)
	}
	isTyped := func() {
		t.Helper()
		if is, err := admin.IsTyped(db, []byte("m:::3")); !is || err != nil {
			t.Errorf("%v, %v", is, err)
		}
	}
	isTyped()
	defer func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		isTyped()
	}()
	for _, c := range []struct {
		key, text string
		fits      bool
	}{{"m:::2", `{"ID":2}`, true}, {"m:::2", `{"ID":"x"}`, false}, {"m:zzz", `{"ID":2}`, false}} {
		e := admin.Entry{Key: []byte(c.key), Value: []byte(c.text)}
		if err := admin.Fit(db, &e); (err == nil) != c.fits || e.Codec != "" || string(e.Value) != c.text {
			t.Errorf("%s %s: %v, %+v", c.key, c.text, err, e)
		}
	}
}
