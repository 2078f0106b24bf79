package table

import (
	"bytes"
	"testing"

	"github.com/copaldb/copal/internal/bench/rivals"
)

// A benchmark that would time wrong results is worth nothing: sides that lose or mix up writes must
// fail their run.

// forgetful is a map that does not take writes after the first of a key.
type forgetful[V any] struct{ m map[string]V }

func (f forgetful[V]) Get(key string) (V, bool) { v, ok := f.m[key]; return v, ok }

func (f forgetful[V]) Set(key string, v V) error {
	if _, ok := f.m[key]; !ok {
		f.m[key] = v
	}
	return nil
}

// mixedUp answers once with the value of another key, so that looking again finds nothing wrong.
type mixedUp[V any] struct {
	forgetful[V]
	done *bool
}

func (m mixedUp[V]) Get(key string) (V, bool) {
	if key == "user-00000003" && !*m.done {
		*m.done = true
		key = "user-00000004"
	}
	return m.forgetful.Get(key)
}

func TestMapSidesNoticeLostWrites(t *testing.T) {
	keys, order := makeKeys(10), shuffled(10, 20)
	people := forgetful[Person]{map[string]Person{}}
	items := forgetful[item]{map[string]item{}}
	if err := fill(keys, personOf, people); err != nil {
		t.Fatal(err)
	}
	if err := fill(keys, itemOf, items); err != nil {
		t.Fatal(err)
	}
	mixed := []int32{1, ^2, 3}
	for _, c := range []struct {
		work  string
		side  side
		round int // 0 is the round that the maps were filled with
	}{
		{"set", setSide("forgetful", people, keys, order, 1), 1},
		{"mix", mixSide("forgetful", items, keys, mixed, nil), 1},
		{"read", getSide("mixed up", mixedUp[Person]{people, new(bool)}, keys, order, 1), 0},
		{"mix, read", mixSide("mixed up", mixedUp[item]{items, new(bool)}, keys, mixed, nil), 0},
		{"allocs", allocSide("mixed up", mixedUp[Person]{people, new(bool)}, keys), 1},
	} {
		if _, err := c.side.measure(c.round); err == nil {
			t.Errorf("%s: nobody notices", c.work)
		}
	}
	for name, s := range map[string]side{
		"read": getSide("forgetful", people, keys, order, 2),
		"mix":  mixSide("forgetful", items, keys, mixed, nil),
		"set":  setSide("forgetful", people, keys, order, 2),
	} {
		if _, err := s.measure(0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// byteMap is a store that keeps the result of damaged in place of a value.
type byteMap struct {
	rivals.Store
	m       map[string][]byte
	damaged func(value []byte) []byte
}

func (b byteMap) Get(key []byte) ([]byte, error) { return b.m[string(key)], nil }

func (b byteMap) Put(key, value []byte) error {
	b.m[string(key)] = b.damaged(bytes.Clone(value))
	return nil
}

func (b byteMap) Batch(n int, entry func(i int) (key, value []byte)) error {
	for i := range n {
		if err := b.Put(entry(i)); err != nil {
			return err
		}
	}
	return nil
}

func TestRawSidesNoticeDamage(t *testing.T) {
	const size = 64
	keys, order := asBytes(makeKeys(10)), shuffled(10, 10)
	for name, damaged := range map[string]func([]byte) []byte{
		"whole": func(v []byte) []byte { return v },
		"last byte": func(v []byte) []byte {
			v[size-1]++
			return v
		},
		"short": func(v []byte) []byte { return v[:size-1] },
		"key": func(v []byte) []byte {
			v[0]++
			return v
		},
		"lost": func([]byte) []byte { return nil },
	} {
		s := byteMap{m: map[string][]byte{}, damaged: damaged}
		if err := fillBlobs(s, keys, size); err != nil {
			t.Fatal(err)
		}
		for _, side := range []side{
			rawGetSide("get", s, keys, size, order), rawPutSide("put", s, keys, size, order),
		} {
			_, err := side.measure(0)
			if noticed := err != nil; noticed != (name != "whole") {
				t.Errorf("%s, %s: %v", name, side.name, err)
			}
		}
	}
}

// A walk that leaves out a pair, or has them in another order, fails.
func TestWalksNoticeDamage(t *testing.T) {
	const size = 64
	keys, value := prefixedKeys(40, "user"), newBlob(size)
	for name, order := range map[string][]int{"whole": {3, 19, 35}, "first": {19, 35}, "last": {3, 19}, "middle": {3, 35}, "turned": {19, 3, 35}, "twice": {3, 3, 19, 35}, "none": nil} {
		side := scanSide(name, keys, size, 1, func(from, to []byte, f visit) error {
			if string(from) != "group-03/" || string(to) != "group-030" {
				t.Errorf("from %s to %s", from, to)
			}
			for _, i := range order {
				value.mark(int32(i), 0)
				if err := f(keys[i], value); err != nil {
					return err
				}
			}
			return nil
		})
		if _, err := side.measure(3); (err != nil) != (name != "whole") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
