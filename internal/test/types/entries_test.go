package types

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/vfs"
)

type parcel struct {
	Name string
	Tags []string
	At   time.Time
}

// The entries of a snapshot, put into another store, are the same there by every reader: of each
// codec, with deadlines, raw.
func TestEntriesMove(t *testing.T) {
	from := kit.OpenOn(t, vfs.NewMem())
	codecs := []codec.Codec{codec.JSON, codec.Binary}
	want := map[string]parcel{}
	for i, c := range codecs {
		m := kit.MapOf[string, parcel](t, from, c.Name(), copal.WithCodec(c))
		for _, key := range []string{"", "a", "\xff\x00:"} {
			want[key] = parcel{"name", []string{"x", "y\n"}, time.Date(2026, 1, 2, 3, 4, 5, i, time.UTC)}
			if err := m.SetTTL(key, want[key], time.Hour); err != nil {
				t.Fatal(err)
			}
		}
	}
	kit.MustPut(t, from, "raw", "\x00\xff")
	kit.MustPut(t, from, "empty", "")
	large := bytes.Repeat([]byte("0123456789abcdef"), 200_000) // in parts
	if err := from.Raw().Set([]byte("large"), large); err != nil {
		t.Fatal(err)
	}
	to := kit.OpenOn(t, vfs.NewMem())
	s, err := from.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	kit.MustPut(t, from, "later", "is not in it")
	var keys []string
	var together []*admin.Entry
	for e, err := range admin.Entries(s, nil, nil) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, string(e.Key))
		if e.Seq == 0 || e.Seq > s.Seq() || e.Time.IsZero() {
			t.Errorf("%q: number %d of %d, time %v", e.Key, e.Seq, s.Seq(), e.Time)
		}
		if len(keys)%2 == 0 {
			together = append(together, &e)
		} else {
			err = admin.Put(to, &e)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := admin.Put(to, together...); err != nil {
		t.Fatal(err)
	}
	if len(keys) != 9 || !slices.IsSorted(keys) {
		t.Errorf("keys %q", keys)
	}
	if got, err := to.Raw().Load([]byte("large")); err != nil || !bytes.Equal(got, large) {
		t.Errorf("large: %d bytes, %v", len(got), err)
	}
	kit.WantRaw(t, to, "raw", "\x00\xff")
	kit.WantRaw(t, to, "empty", "")
	for i, c := range codecs {
		m := kit.MapOf[string, parcel](t, to, c.Name(), copal.WithCodec(c))
		for key, v := range want {
			v.At = time.Date(2026, 1, 2, 3, 4, 5, i, time.UTC)
			got, err := m.Load(key)
			if err != nil || got.Name != v.Name || !reflect.DeepEqual(got.Tags, v.Tags) || !got.At.Equal(v.At) {
				t.Errorf("%s %q = %v, %v; want %v", c.Name(), key, got, err, v)
			}
		}
	}
	again, err := to.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if a, b := entriesOf(t, s), entriesOf(t, again); !reflect.DeepEqual(a, b) {
		t.Errorf("%v\n%v", a, b)
	}
}

// entriesOf returns the parts of entries that do not depend on the store.
func entriesOf(t *testing.T, s *copal.Snapshot) (list []admin.Entry) {
	t.Helper()
	for e, err := range admin.Entries(s, nil, nil) {
		if err != nil {
			t.Fatal(err)
		}
		e.Seq, e.Time = 0, time.Time{}
		list = append(list, e)
	}
	return list
}

func TestEntriesInARange(t *testing.T) {
	db := kit.OpenOn(t, vfs.NewMem())
	for _, key := range []string{"", "a", "b", "b\x00", "c"} {
		kit.MustPut(t, db, key, "")
	}
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		from, to []byte
		want     []string
	}{
		{nil, nil, []string{"", "a", "b", "b\x00", "c"}},
		{[]byte("b"), nil, []string{"b", "b\x00", "c"}},
		{[]byte("b\x00"), []byte("c"), []string{"b\x00"}},
		{nil, []byte("b"), []string{"", "a"}},
	} {
		var got []string
		for e, err := range admin.Entries(s, test.from, test.to) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(e.Key))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("from %q to %q: %q", test.from, test.to, got)
		}
	}
	s.Close()
	var last error
	for _, err := range admin.Entries(s, nil, nil) {
		last = err
	}
	if !errors.Is(last, copal.ErrClosed) {
		t.Errorf("of a closed snapshot: %v", last)
	}
}

func TestPutEntryRefuses(t *testing.T) {
	db := kit.OpenOn(t, vfs.NewMem())
	for _, e := range []admin.Entry{{Codec: "No word"}, {Schema: "int"}} {
		if err := admin.Put(db, &e); err == nil || errors.Is(err, copal.ErrType) {
			t.Errorf("%+v: %v", e, err)
		}
		if err := admin.Put(db, &admin.Entry{Key: []byte("k")}, &e); err == nil || errors.Is(err, copal.ErrType) || db.Raw().Len() != 0 {
			t.Errorf("%+v behind another: %v, %d entries", e, err, db.Raw().Len())
		}
	}
	kit.MustPut(t, db, "k", "old")
	if err := admin.Put(db, &admin.Entry{Key: []byte("k"), Value: []byte("v"), Expires: time.UnixMilli(-5)}); err != nil {
		t.Fatal(err)
	}
	if has, err := kit.Has(db.Raw(), []byte("k")); has || err != nil {
		t.Errorf("what has expired is there: %v, %v", has, err)
	}
	if err := admin.DeclareMap(db, ""); err == nil || errors.Is(err, copal.ErrType) {
		t.Errorf("a map without a name: %v", err)
	}
}

func TestPutElements(t *testing.T) {
	db := kit.OpenOn(t, vfs.NewMem())
	field := func(name, value string) admin.Element {
		return admin.Element{Name: []byte(name), Value: []byte(value), Codec: "json", Schema: "int"}
	}
	e := admin.Entry{Key: []byte("h"), Collection: "hash", Expires: time.Now().Add(time.Hour).Truncate(time.Millisecond)}
	kit.MustPut(t, db, "h", "a value")
	if err := admin.PutElements(db, &e, []admin.Element{field("a", "1")}, false); !errors.Is(err, copal.ErrType) {
		t.Errorf("elements beside a value: %v", err)
	}
	for _, err := range []error{
		admin.PutElements(db, &e, []admin.Element{field("a", "1"), field("b", "2")}, true),
		admin.PutElements(db, &e, []admin.Element{field("b", "3"), field("c", "4")}, false),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	h, err := copal.OpenHash[string, int](db, "h")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"a": 1, "b": 3, "c": 4}
	for name, n := range want {
		if got, err := h.Load(name); got != n || err != nil {
			t.Errorf("field %s is %d, %v; want %d", name, got, err, n)
		}
	}
	if left, err := db.Raw().TTL([]byte("h")); h.Len() != 3 || left <= 0 || left > time.Hour || err != nil {
		t.Errorf("%d fields, %v left, %v", h.Len(), left, err)
	}
	e.Expires = time.Time{}
	if err := admin.PutElements(db, &e, []admin.Element{field("z", "9")}, true); err != nil {
		t.Fatal(err)
	}
	if left, err := db.Raw().TTL([]byte("h")); h.Len() != 1 || left != 0 || err != nil {
		t.Errorf("anew: %d fields, %v left, %v", h.Len(), left, err)
	}
	if err := admin.Put(db, &e); !errors.Is(err, copal.ErrType) {
		t.Errorf("a collection as an entry: %v", err)
	}
	if err := admin.PutElements(db, &admin.Entry{Key: []byte("k"), Collection: "no word"}, []admin.Element{field("a", "1")}, true); !errors.Is(err, copal.ErrType) {
		t.Errorf("a type that is no word: %v", err)
	}
}
