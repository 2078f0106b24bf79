package types

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/vfs"
)

// The matrix of typed and raw on one key: for each codec, each way to write after each other, and
// then every way to read, in every life of the store. A model of a few lines has the expected
// results.

// cellState is the state of one key in the model.
type cellState[V any] struct {
	there  bool
	shown  string // to raw reads
	value  V      // to typed reads of the log
	misfit bool   // which it does not fit
	memory *V     // typed reads show it instead
}

// current returns the value that typed reads show.
func (s cellState[V]) current() (v V, there, misfit bool) {
	if s.memory != nil {
		return *s.memory, true, false
	}
	return s.value, s.there, s.there && s.misfit
}

// matrixKind is a codec with the encodings of values.
type matrixKind[V any] struct {
	name     string
	codec    codec.Codec
	values   [4]V
	show     func(v V) string // to raw reads
	raw      [2]string        // of which the second does not fit, unless everything does
	rawValue [2]V
	fits     bool
}

// matrixWay is a way to write. It returns the entry afterwards.
type matrixWay[V any] struct {
	name string
	do   func(db *copal.DB, m *copal.Map[string, V], k string, was cellState[V], kind *matrixKind[V]) (cellState[V], error)
}

func matrixWays[V any]() []matrixWay[V] {
	type (
		dbT   = *copal.DB
		mapT  = *copal.Map[string, V]
		state = cellState[V]
		kindT = *matrixKind[V]
	)
	set := func(kind kindT, v V) state { return state{there: true, shown: kind.show(v), value: v} }
	raw := func(kind kindT, n int) state {
		return state{there: true, shown: kind.raw[n], value: kind.rawValue[n], misfit: n == 1 && !kind.fits}
	}
	key := func(k string) []byte { return []byte("m:" + k) }
	update := func(how func(mapT, string, func(*copal.Entry[V]) error) (V, bool, error)) func(dbT, mapT, string, state, kindT) (state, error) {
		return func(_ dbT, m mapT, k string, was state, kind kindT) (state, error) {
			had, there, misfit := was.current()
			saw, exists := *new(V), false
			v, _, err := how(m, k, func(u *copal.Entry[V]) error { saw, exists, u.Value = u.Value, u.Exists, kind.values[2]; return nil })
			if misfit {
				if !errors.Is(err, copal.ErrType) {
					return was, fmt.Errorf("Update of what does not fit: %v", err)
				}
				return was, nil
			}
			if err == nil && (exists != there || there && !reflect.DeepEqual(saw, had) || !reflect.DeepEqual(v, kind.values[2])) {
				return was, fmt.Errorf("Update saw %v, %v, was %v, %v", saw, exists, had, there)
			}
			return set(kind, kind.values[2]), err
		}
	}
	return []matrixWay[V]{
		{"nothing", func(_ dbT, _ mapT, _ string, was state, _ kindT) (state, error) { return was, nil }},
		{"Put", func(db dbT, _ mapT, k string, _ state, kind kindT) (state, error) {
			return raw(kind, 0), db.Raw().Set(key(k), []byte(kind.raw[0]))
		}},
		{"Put of what does not fit", func(db dbT, _ mapT, k string, _ state, kind kindT) (state, error) {
			return raw(kind, 1), db.Raw().Set(key(k), []byte(kind.raw[1]))
		}},
		{"PutFSync", func(db dbT, _ mapT, k string, _ state, kind kindT) (state, error) {
			return raw(kind, 0), db.Raw().SetFSync(key(k), []byte(kind.raw[0]))
		}},
		{"PutTTL", func(db dbT, _ mapT, k string, _ state, kind kindT) (state, error) {
			return raw(kind, 0), db.Raw().SetTTL(key(k), []byte(kind.raw[0]), time.Hour)
		}},
		{"PutTTL that has passed", func(db dbT, _ mapT, k string, _ state, kind kindT) (state, error) {
			return state{}, db.Raw().SetTTL(key(k), []byte(kind.raw[0]), time.Second)
		}},
		{"Set", func(_ dbT, m mapT, k string, _ state, kind kindT) (state, error) {
			return set(kind, kind.values[0]), m.Set(k, kind.values[0])
		}},
		{"SetAsync", func(_ dbT, m mapT, k string, _ state, kind kindT) (state, error) {
			return set(kind, kind.values[1]), m.SetAsync(k, kind.values[1])
		}},
		{"SetTTL", func(_ dbT, m mapT, k string, _ state, kind kindT) (state, error) {
			return set(kind, kind.values[1]), m.SetTTL(k, kind.values[1], time.Hour)
		}},
		{"SetTTLAsync that has passed", func(_ dbT, m mapT, k string, _ state, kind kindT) (state, error) {
			return state{}, m.With(copal.Async).SetTTL(k, kind.values[1], time.Second)
		}},
		{"SetInMemory", func(_ dbT, m mapT, k string, was state, kind kindT) (state, error) {
			if err := m.SetInMemory(k, kind.values[3]); err != nil || !was.there {
				if was.there || !errors.Is(err, copal.ErrNotFound) {
					return was, fmt.Errorf("SetInMemory where there is an entry, %v: %v", was.there, err)
				}
				return was, nil
			}
			was.memory = &kind.values[3]
			return was, nil
		}},
		{"Update", update(mapT.Update)},
		{"UpdateAsync", update(mapT.UpdateAsync)},
		{"Delete", func(_ dbT, m mapT, k string, _ state, _ kindT) (state, error) {
			_, err := m.Delete(k)
			return state{}, err
		}},
		{"DeleteAsync", func(_ dbT, m mapT, k string, _ state, _ kindT) (state, error) {
			_, err := m.DeleteAsync(k)
			return state{}, err
		}},
		{"raw Delete", func(db dbT, _ mapT, k string, _ state, _ kindT) (state, error) {
			_, err := db.Raw().Delete(key(k))
			return state{}, err
		}},
	}
}

func TestTypedRawAndCodecMatrix(t *testing.T) {
	people := func(name string, c codec.Codec, show func(kit.User) string) matrixKind[kit.User] {
		k := matrixKind[kit.User]{name: name, codec: c, values: [4]kit.User{{Name: "Alice", Age: 1}, {Name: "Bob", Age: 2}, {Name: "Carol", Age: 3}, {Name: "Dave", Age: 4}}, show: show}
		k.raw, k.rawValue = [2]string{` { "Age" : 7 } `, "\x00 no JSON"}, [2]kit.User{{Age: 7}, {}}
		return k
	}
	asText := func(v kit.User) string { b, _ := json.Marshal(v); return string(b) }
	t.Run("json", func(t *testing.T) { matrix(t, people("json", codec.JSON, asText)) })
	t.Run("binary", func(t *testing.T) { matrix(t, people("binary", codec.Binary, asText)) })
	t.Run("own", func(t *testing.T) {
		matrix(t, people("own", kit.HexCodec{}, func(v kit.User) string { return fmt.Sprintf("%x", asText(v)) }))
	})
	t.Run("own that renders", func(t *testing.T) { matrix(t, people("shownhex", shownHex{}, asText)) })
	t.Run("bytes", func(t *testing.T) {
		matrix(t, matrixKind[string]{name: "bytes", codec: codec.Bytes, values: [4]string{"a", "", "\x00\xff", "d"}, show: func(v string) string { return v },
			raw: [2]string{"{}", "\xff"}, rawValue: [2]string{"{}", "\xff"}, fits: true})
	})
}

// shownHex is hexCodec with a renderer.
type shownHex struct{ kit.HexCodec }

func (shownHex) Renderer(schema string) (codec.Renderer, error) { return unhex{}, nil }

type unhex struct{}

func (unhex) Render(dst, src []byte) ([]byte, error) {
	var text []byte
	_, err := fmt.Sscanf(string(src), "%x", &text)
	return append(dst, text...), err
}

// matrix is done in memory, and on a disk, where records are read in place.
func matrix[V any](t *testing.T, kind matrixKind[V]) {
	t.Run("memory", func(t *testing.T) {
		fsys := vfs.NewMem()
		matrixIn(t, kind, func(opts ...copal.Option) *copal.DB { return kit.OpenOn(t, fsys, opts...) })
	})
	t.Run("disk", func(t *testing.T) {
		dir := t.TempDir()
		matrixIn(t, kind, func(opts ...copal.Option) *copal.DB {
			db, err := copal.Open(dir, opts...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { db.Close() })
			return db
		})
	})
}

func matrixIn[V any](t *testing.T, kind matrixKind[V], open func(...copal.Option) *copal.DB) {
	clock := kit.NewManualClock()
	opts := []copal.Option{kit.WithClock(clock), copal.WithCodec(kind.codec), copal.WithErrorHandler(func(error) {})} // All reports values that do not fit
	db := open(opts...)
	m := kit.MapOf[string, V](t, db, "m")
	ways := matrixWays[V]()
	states := map[string]cellState[V]{}
	for _, turn := range []int{0, 1} {
		for i, first := range ways {
			for j, second := range ways {
				way, k := first, fmt.Sprintf("%d %d", i, j)
				if turn == 1 {
					way = second
				}
				next, err := way.do(db, m, k, states[k], &kind)
				if err != nil {
					t.Fatalf("%s, then %s: %v", first.name, second.name, err)
				}
				states[k] = next
			}
		}
		clock.Advance(2 * time.Second)
		if turn == 0 { // the next finds the first in the file
			if err := db.Sync(); err != nil {
				t.Fatal(err)
			}
		}
	}
	name := func(k string) string {
		var i, j int
		fmt.Sscan(k, &i, &j)
		return ways[i].name + ", then " + ways[j].name
	}
	t.Run("before reopening", func(t *testing.T) { checkMatrix(t, db, m, states, name) })
	if err := db.Sync(); err != nil {
		t.Fatal(err)
	}
	t.Run("after a sync", func(t *testing.T) { checkMatrix(t, db, m, states, name) })
	kit.MustClose(t, db)
	for k, s := range states {
		s.memory = nil
		states[k] = s
	}
	for _, more := range [][]copal.Option{nil, {copal.ReadOnly()}} {
		db := open(append(opts, more...)...)
		t.Run(fmt.Sprint("reopened", len(more)), func(t *testing.T) { checkMatrix(t, db, kit.MapOf[string, V](t, db, "m"), states, name) })
		kit.MustClose(t, db)
	}
}

func checkMatrix[V any](t *testing.T, db *copal.DB, m *copal.Map[string, V], states map[string]cellState[V], name func(string) string) {
	all, scanned, length := map[string]V{}, map[string]string{}, 0
	for k, v := range m.All() {
		all[k] = v
	}
	for k, v := range db.Raw().Prefix([]byte("m:")) {
		scanned[string(k)] = string(v)
	}
	logged := 0
	for k, s := range states {
		v, there, misfit := s.current()
		if there {
			length++
		}
		if s.there {
			logged++
		}
		if got, ok := all[k]; ok != (there && !misfit) || ok && !reflect.DeepEqual(got, v) {
			t.Errorf("%s: All yields %v, %v", name(k), got, ok)
		}
		got, err := m.Load(k)
		switch {
		case misfit:
			if !errors.Is(err, copal.ErrType) {
				t.Errorf("%s: Load = %v, %v, want ErrType", name(k), got, err)
			}
		case !there:
			if !errors.Is(err, copal.ErrNotFound) {
				t.Errorf("%s: Load = %v, %v, want none", name(k), got, err)
			}
		case err != nil || !reflect.DeepEqual(got, v):
			t.Errorf("%s: Load = %v, %v, want %v", name(k), got, err, v)
		}
		if got, ok := m.Get(k); ok != (there && !misfit) || ok && !reflect.DeepEqual(got, v) {
			t.Errorf("%s: Get = %v, %v", name(k), got, ok)
		}
		checkRaw(t, db, name(k), "m:"+k, s.there, s.shown, scanned)
	}
	if m.Len() != length {
		t.Errorf("Len = %d, want %d", m.Len(), length)
	}
	if len(scanned) != logged {
		t.Errorf("Scan yields %d entries, want %d", len(scanned), logged)
	}
}

func checkRaw(t *testing.T, db *copal.DB, name, key string, there bool, shown string, scanned map[string]string) {
	if got, ok := scanned[key]; ok != there || got != shown {
		t.Errorf("%s: Scan yields %q, %v, want %q, %v", name, got, ok, shown, there)
	}
	if has, err := kit.Has(db.Raw(), []byte(key)); has != there || err != nil {
		t.Errorf("%s: Has = %v, %v", name, has, err)
	}
	reads := map[string]func() ([]byte, error){
		"Get": func() ([]byte, error) { return db.Raw().Load([]byte(key)) },
		"ViewValue": func() (got []byte, err error) {
			err = db.Raw().View([]byte(key), func(b []byte) error { got = append(got, b...); return nil })
			return got, err
		},
	}
	for how, read := range reads {
		switch got, err := read(); {
		case !there && !errors.Is(err, copal.ErrNotFound):
			t.Errorf("%s: %s = %q, %v, want none", name, how, got, err)
		case there && (err != nil || string(got) != shown):
			t.Errorf("%s: %s = %q, %v, want %q", name, how, got, err, shown)
		}
	}
}
