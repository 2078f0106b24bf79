package models

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/vfs"
)

// The model test runs random operations on a store and on a plain Go map from raw key
// to raw bytes, and compares all that can be seen. That the model is one map of bytes
// is the claim: maps, single values and raw keys are views of one key space, and what
// a typed read shows is what its bytes say, never what was cached on the way.
//
// COPAL_SEED=n runs one seed alone.
type model struct {
	t       *testing.T
	rng     *rand.Rand
	mem     *vfs.Mem
	db      *copal.DB
	raw     map[string]string
	views   []view
	handled kit.ErrorLog
}

// view is a typed map, or what stands for one.
type view interface {
	open(m *model)
	step(m *model)    // one random operation
	compare(m *model) // everything
}

func TestModel(t *testing.T) {
	kit.EachSeed(t, 200, 20_000, func(t *testing.T, seed uint64) { runModel(t, seed, 100) })
}

func runModel(t *testing.T, seed uint64, steps int) {
	m := &model{t: t, rng: rand.New(rand.NewPCG(seed, 7)), mem: vfs.NewMem(), raw: map[string]string{}}
	m.views = []view{
		newTypedView("users", textKeys, func() kit.User { return kit.User{Name: m.text(), Age: m.rng.IntN(5) - 2} }),
		newTypedView("n", func(m *model) int { return m.rng.IntN(8) - 4 }, func() []string { return m.texts() }),
		newTypedView("users:", func(m *model) [2]byte { return [2]byte{byte(m.rng.IntN(3)), 7} }, func() any { return m.any() }),
		newTypedView("", textKeys, func() *kit.User { return &kit.User{Name: m.text(), Age: 1} }),
		&typedView[string, []byte]{name: "blobs", key: textKeys, value: func() []byte { return m.bytes() }, codec: codec.Bytes},
	}
	m.open()
	for range steps {
		m.step()
		if t.Failed() {
			return
		}
	}
	m.compare()
	kit.MustClose(t, m.db)
	m.open()
	m.compare()
	kit.MustClose(t, m.db)
}

func (m *model) open() {
	opts := []copal.Option{m.handled.Option(), kit.WithInline(), kit.WithSegmentBytes(int64(300 + m.rng.IntN(3000)))}
	m.db = kit.OpenOn(m.t, m.mem, opts...)
	for _, v := range m.views {
		v.open(m)
	}
}

func (m *model) step() {
	switch n := m.rng.IntN(100); {
	case n < 3:
		kit.MustClose(m.t, m.db)
		m.open()
		m.compare()
	case n < 5:
		m.mem = m.mem.ProcessCrash()
		m.open()
		m.compare()
	case n < 8:
		m.compare()
	case n < 10:
		if err := m.db.Sync(); err != nil {
			m.t.Errorf("Sync: %v", err)
		}
	case n < 30:
		m.rawStep()
	default:
		m.views[m.rng.IntN(len(m.views))].step(m)
	}
}

// rawStep writes or deletes some raw key, often one of a map.
func (m *model) rawStep() {
	key := []string{"", "users:", "n:", "users%3a:", "blobs:", "x", "users"}[m.rng.IntN(7)] +
		[]string{"", "a", "b:", "1", "-1", "0107", "\n"}[m.rng.IntN(7)]
	if m.rng.IntN(4) == 0 {
		m.deleted(key, func() (bool, error) { return m.db.Raw().Delete([]byte(key)) })
		return
	}
	value := []string{"", "null", "1", `{"Name":"raw","Age":9}`, `["raw"]`, `"text"`, "no json", "\xff\x00"}[m.rng.IntN(8)]
	if err := m.db.Raw().Set([]byte(key), []byte(value)); err != nil {
		m.t.Errorf("Put(%q): %v", key, err)
	}
	m.raw[key] = value
}

// deleted does a deletion and checks what it says.
func (m *model) deleted(key string, do func() (bool, error)) {
	_, want := m.raw[key]
	if existed, err := do(); existed != want || err != nil {
		m.t.Errorf("Delete(%q) = %v, %v, want %v", key, existed, err, want)
	}
	delete(m.raw, key)
}

func (m *model) compare() {
	if got := kit.ScanAll(m.db); !maps.Equal(got, m.raw) {
		m.t.Errorf("Scan yields %q, want %q", got, m.raw)
	}
	var keys []string
	for k := range m.db.Raw().Keys() {
		keys = append(keys, string(k))
	}
	if want := slices.Sorted(maps.Keys(m.raw)); !slices.Equal(keys, want) {
		m.t.Errorf("ScanKeys yields %q, want %q", keys, want)
	}
	if n := m.db.Stats().Keys; n != int64(len(m.raw)) {
		m.t.Errorf("Stats counts %d keys, want %d", n, len(m.raw))
	}
	for _, v := range m.views {
		v.compare(m)
	}
}

// typedView is a map, or with the empty name, single values.
type typedView[K comparable, V any] struct {
	name  string
	key   func(*model) K
	value func() V
	codec codec.Codec
	m     *copal.Map[K, V]
}

func newTypedView[K comparable, V any](name string, key func(*model) K, value func() V) view {
	return &typedView[K, V]{name: name, key: key, value: value, codec: codec.JSON}
}

func (v *typedView[K, V]) open(m *model) {
	if v.name != "" {
		v.m = kit.MapOf[K, V](m.t, m.db, v.name, copal.WithCodec(v.codec))
	}
}

// rawKey is the key as the format's description spells it.
func (v *typedView[K, V]) rawKey(k K) string {
	prefix := ""
	if v.name != "" {
		prefix = strings.ReplaceAll(v.name, ":", "%3a") + ":"
	}
	if b, ok := any(k).([2]byte); ok {
		return prefix + fmt.Sprintf("%x", b[:])
	}
	return prefix + fmt.Sprint(k)
}

func (v *typedView[K, V]) encode(value V) string {
	if b, ok := any(value).([]byte); ok {
		return string(b)
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// decode is what a typed read makes of raw bytes.
func (v *typedView[K, V]) decode(raw string) (value V, err error) {
	if b, ok := any(&value).(*[]byte); ok {
		*b = []byte(raw)
		return value, nil
	}
	if strings.ToValidUTF8(raw, "") != raw {
		return value, errors.New("not UTF-8")
	}
	if err := json.Unmarshal([]byte(raw), &value); err != nil {
		return *new(V), err
	}
	return value, nil
}

func (v *typedView[K, V]) step(m *model) {
	k := v.key(m)
	raw := v.rawKey(k)
	switch n := m.rng.IntN(10); {
	case n < 6:
		value := v.value()
		var err error
		switch {
		case v.m == nil:
			err = copal.Set(m.db, raw, value)
		case n == 0:
			err = v.m.SetFSync(k, value)
		default:
			err = v.m.Set(k, value)
		}
		if err != nil {
			m.t.Errorf("Set(%q): %v", raw, err)
		}
		m.raw[raw] = v.encode(value)
	case n < 8:
		m.deleted(raw, func() (bool, error) {
			switch {
			case v.m == nil:
				return m.db.Raw().Delete([]byte(raw))
			case n == 6:
				return v.m.DeleteFSync(k)
			}
			return v.m.Delete(k)
		})
	case n == 8 && v.m != nil && m.rng.IntN(3) == 0:
		kit.MustClose(m.t, v.m)
		v.open(m)
	}
	v.wantAt(m, k)
}

func (v *typedView[K, V]) load(m *model, k K) (V, error) {
	if v.m == nil {
		return copal.Load[V](m.db, v.rawKey(k))
	}
	return v.m.Load(k)
}

// wantAt compares a read of one key.
func (v *typedView[K, V]) wantAt(m *model, k K) {
	got, err := v.load(m, k)
	raw, there := m.raw[v.rawKey(k)]
	want, misfit := v.decode(raw)
	switch {
	case !there:
		kit.WantErr(m.t, "Load", err, copal.ErrNotFound)
	case misfit != nil:
		kit.WantErr(m.t, "Load", err, copal.ErrType)
	case err != nil || !reflect.DeepEqual(got, want):
		m.t.Errorf("Load(%q) = %#v, %v, want %#v", v.rawKey(k), got, err, want)
	}
}

func (v *typedView[K, V]) compare(m *model) {
	if v.m == nil {
		return
	}
	entries, fit, misfits := 0, 0, 0
	for raw, value := range m.raw {
		if rest, mine := strings.CutPrefix(raw, v.rawPrefix()); mine {
			entries++
			if _, err := v.decode(value); err != nil || !v.isKey(rest) {
				misfits++
			} else {
				fit++
			}
		}
	}
	if v.m.Len() != entries {
		m.t.Errorf("map %q: Len = %d, want %d", v.name, v.m.Len(), entries)
	}
	m.handled.Take()
	seen := map[K]bool{}
	for k, got := range v.m.All() {
		want, err := v.decode(m.raw[v.rawKey(k)])
		if _, there := m.raw[v.rawKey(k)]; !there || err != nil || seen[k] || !reflect.DeepEqual(got, want) {
			m.t.Errorf("map %q: All yields %v: %#v, want %#v, %v", v.name, k, got, want, err)
		}
		seen[k] = true
	}
	if len(seen) != fit {
		m.t.Errorf("map %q: All yields %d entries, want %d", v.name, len(seen), fit)
	}
	m.handled.WantTaken(m.t, misfits, copal.ErrType)
	for k := range v.m.Keys() {
		if _, there := m.raw[v.rawKey(k)]; !there {
			m.t.Errorf("map %q: Keys yields %v", v.name, k)
		}
	}
	m.handled.Take()
}

func (v *typedView[K, V]) rawPrefix() string { return strings.ReplaceAll(v.name, ":", "%3a") + ":" }

// isKey reports whether the bytes after the colon are a key of the map's type.
func (v *typedView[K, V]) isKey(rest string) bool {
	switch any(*new(K)).(type) {
	case int:
		n, err := strconv.Atoi(rest)
		return err == nil && strconv.Itoa(n) == rest
	case [2]byte:
		return len(rest) == 4 && strings.Trim(rest, "0123456789abcdef") == ""
	}
	return true
}

// Random parts, few of each, so that they meet.

func textKeys(m *model) string {
	return []string{"", "a", "b:", "\n", "1", "users:a", "k"}[m.rng.IntN(7)]
}

func (m *model) text() string {
	return []string{"", "a", "é\n", "<b>", "null", strings.Repeat("long ", m.rng.IntN(300))}[m.rng.IntN(6)]
}

func (m *model) texts() []string {
	switch m.rng.IntN(3) {
	case 0:
		return nil
	case 1:
		return []string{}
	}
	return []string{m.text(), m.text()}
}

func (m *model) any() any {
	return []any{nil, true, 1.5, m.text(), []any{}, map[string]any{"a": []any{m.text(), nil}}}[m.rng.IntN(6)]
}

func (m *model) bytes() []byte {
	return [][]byte{{}, {0}, []byte("\xff\n"), []byte("null"), kit.Pattern(m.rng.IntN(2000))}[m.rng.IntN(5)]
}
