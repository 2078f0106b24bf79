package kit

import (
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/copaldb/copal"
)

func MustSet[K comparable, V any](t testing.TB, m *copal.Map[K, V], key K, v V) {
	t.Helper()
	if err := m.Set(key, v); err != nil {
		t.Fatalf("Set(%.100q): %v", Printable(key), err)
	}
}

func MustPut(t testing.TB, db *copal.DB, key, value string) {
	t.Helper()
	if err := db.Raw().Set([]byte(key), []byte(value)); err != nil {
		t.Fatalf("Put(%.100q): %v", key, err)
	}
}

// WantLoad checks the value under key.
func WantLoad[K, V comparable](t testing.TB, m *copal.Map[K, V], key K, want V) {
	t.Helper()
	if v, err := m.Load(key); err != nil || v != want {
		t.Errorf("Load(%.100q) = %.100v, %v, want %.100v", Printable(key), v, err, want)
	}
	if v, ok := m.Get(key); !ok || v != want {
		t.Errorf("Get(%.100q) = %.100v, %v, want %.100v", Printable(key), v, ok, want)
	}
}

// WantAbsent checks that key has no entry.
func WantAbsent[K comparable, V any](t testing.TB, m *copal.Map[K, V], key K) {
	t.Helper()
	if v, err := m.Load(key); !errors.Is(err, copal.ErrNotFound) {
		t.Errorf("Load(%.100q) = %.100v, %v, want ErrNotFound", Printable(key), v, err)
	}
	if v, ok := m.Get(key); ok {
		t.Errorf("Get(%.100q) = %.100v, true, want none", Printable(key), v)
	}
}

func WantRaw(t testing.TB, db *copal.DB, key, want string) {
	t.Helper()
	if v, err := db.Raw().Load([]byte(key)); err != nil || string(v) != want {
		t.Errorf("raw Get(%.100q) = %.100q, %v, want %.100q", key, v, err, want)
	}
}

func WantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: the error is %v, want %v", what, err, want)
	}
}

func Printable(key any) any {
	if s, ok := key.(string); ok {
		return s
	}
	return []any{key}
}

// ScanAll returns every raw entry.
func ScanAll(db *copal.DB) map[string]string {
	all := map[string]string{}
	for k, v := range db.Raw().Prefix(nil) {
		all[string(k)] = string(v)
	}
	return all
}

// Has returns the result of Raw.Has, with the error that it reports to the error handler.
func Has(r *copal.Raw, key []byte) (bool, error) {
	if r.Has(key) {
		return true, nil
	}
	_, err := r.Deadline(key)
	if errors.Is(err, copal.ErrNotFound) {
		err = nil
	}
	return false, err
}

// HasOf returns Has as a function of the key.
func HasOf(r *copal.Raw) func(key []byte) (bool, error) {
	return func(key []byte) (bool, error) { return Has(r, key) }
}

// KeysWith yields the raw keys that begin with p.
func KeysWith(r *copal.Raw, p string) iter.Seq[[]byte] {
	var end []byte // the first key that is beyond them, nil for none
	for n := len(p); n > 0 && end == nil; n-- {
		if p[n-1] < 0xff {
			end = append([]byte(p[:n-1]), p[n-1]+1)
		}
	}
	return r.KeysBetween([]byte(p), end)
}

// FirstOf returns the first pair that a walk yields; ok is false if there is none.
func FirstOf[K, V any](walk iter.Seq2[K, V]) (k K, v V, ok bool) {
	for k, v := range walk {
		return k, v, true
	}
	return k, v, false
}

func MustSetAsync[K comparable, V any](t testing.TB, m *copal.Map[K, V], key K, v V) {
	t.Helper()
	if err := m.SetAsync(key, v); err != nil {
		t.Fatalf("SetAsync(%.100q): %v", Printable(key), err)
	}
}

func Pick[T any](first bool, a, b T) T {
	if first {
		return a
	}
	return b
}

func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// WantOtherKeys opens a map with keys of type K, and wants an error that names the order of the map
// and the order of K.
func WantOtherKeys[K comparable, V any](t *testing.T, db *copal.DB, name, has, asked string) {
	t.Helper()
	m, err := copal.OpenMap[K, V](db, name)
	WantErr(t, "OpenMap", err, copal.ErrType)
	if m != nil || err != nil && (!strings.Contains(err.Error(), "order "+has+",") || !strings.Contains(err.Error(), "order "+asked+":")) {
		t.Errorf("OpenMap = %v, %v; it has %s, %s was asked for", m, err, has, asked)
	}
}

func Viewed(t testing.TB, db *copal.DB, key string) (value string) {
	t.Helper()
	if err := db.Raw().View([]byte(key), func(b []byte) error { value = string(b); return nil }); err != nil {
		t.Errorf("ViewValue(%q): %v", key, err)
	}
	return value
}
