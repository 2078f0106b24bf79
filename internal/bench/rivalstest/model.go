package rivalstest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/copaldb/copal/internal/bench/rivals"
)

// model is a store and a map with the same changes.
type model struct {
	t      *testing.T
	rng    *rand.Rand
	engine rivals.Engine
	dir    string
	store  rivals.Store
	want   map[string]string
}

const (
	modelKeys  = 60
	modelSteps = 400
)

// Run makes the same random changes to stores of an engine and to a map, and compares the results.
func Run(t *testing.T, e rivals.Engine) {
	for _, durable := range []bool{false, true} {
		t.Run(fmt.Sprintf("durable=%v", durable), func(t *testing.T) {
			m := &model{t: t, rng: rand.New(rand.NewPCG(1, 1)), engine: e, dir: t.TempDir(), want: map[string]string{}}
			m.open(durable)
			steps := modelSteps
			if durable {
				steps /= 10
			}
			for range steps {
				m.step()
			}
			m.compare()
			m.must(m.store.Close())
			m.open(durable)
			m.compare()
			m.must(m.store.Close())
		})
	}
}

func (m *model) open(durable bool) {
	m.t.Helper()
	store, err := m.engine.OpenIn(m.dir, durable)
	m.must(err)
	m.store = store
}

func (m *model) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *model) key() string { return fmt.Sprintf("key-%03d", m.rng.IntN(modelKeys)) }

// value may be empty, and may be too long for a store to keep beside its key.
func (m *model) value() string {
	return string(bytes.Repeat([]byte{byte(m.rng.Uint32())}, m.rng.IntN(3)*m.rng.IntN(2000)))
}

func (m *model) step() {
	switch m.rng.IntN(6) {
	case 0:
		key, value := m.key(), m.value()
		m.put(m.store.Put, key, value)
		m.want[key] = value
	case 1:
		m.batch()
	case 2:
		key := m.key()
		got, err := m.store.Get([]byte(key))
		m.same(m.want, key, got, err)
	case 3:
		m.view()
	case 4:
		m.update(nil)
	case 5:
		m.update(errors.New("not to be done"))
	}
}

// put gives slices away and uses them again.
func (m *model) put(put func(key, value []byte) error, key, value string) {
	m.t.Helper()
	k, v := []byte(key), []byte(value)
	m.must(put(k, v))
	clear(k)
	clear(v)
}

func (m *model) batch() {
	k, v := make([]byte, 0, 10), make([]byte, 0, 4000)
	m.must(m.store.Batch(m.rng.IntN(20), func(int) (key, value []byte) {
		k, v = append(k[:0], m.key()...), append(v[:0], m.value()...)
		m.want[string(k)] = string(v)
		return k, v
	}))
}

func (m *model) view() {
	m.must(m.store.View(func(tx rivals.Tx) error {
		for range 3 {
			m.read(tx, m.want)
		}
		return nil
	}))
}

// update reads and writes. When it fails, nothing has changed.
func (m *model) update(fail error) {
	after := maps.Clone(m.want)
	err := m.store.Update(func(tx rivals.Tx) error {
		for range 1 + m.rng.IntN(5) {
			key, value := m.key(), m.value()
			m.put(tx.Put, key, value)
			after[key] = value
			m.read(tx, after)
		}
		return fail
	})
	if err != fail {
		m.t.Fatalf("the update returns %v, its function %v", err, fail)
	}
	if fail == nil {
		m.want = after
	}
}

// read compares a single read and a walk.
func (m *model) read(tx rivals.Tx, want map[string]string) {
	m.t.Helper()
	key := m.key()
	got, err := tx.Get([]byte(key))
	m.same(want, key, got, err)
	from, to := m.key(), m.key()
	m.walk(tx, from, to, want)
	stop, n := errors.New("enough"), 0
	err = tx.Scan([]byte("key-"), []byte("key."), func([]byte, []byte) error { n++; return stop })
	if len(want) > 0 && (err != stop || n != 1) {
		m.t.Fatalf("a walk that is to stop returns %v after %d pairs", err, n)
	}
}

func (m *model) same(want map[string]string, key string, got []byte, err error) {
	m.t.Helper()
	value, there := want[key]
	switch {
	case !there && !errors.Is(err, rivals.ErrAbsent):
		m.t.Fatalf("%s is absent, and Get returns %v", key, err)
	case there && (err != nil || string(got) != value):
		m.t.Fatalf("%s holds %d bytes, %v; written were %d", key, len(got), err, len(value))
	}
}

func (m *model) walk(tx rivals.Tx, from, to string, want map[string]string) {
	m.t.Helper()
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(want)), func(key string) bool { return key < from || key >= to })
	err := tx.Scan([]byte(from), []byte(to), func(key, value []byte) error {
		if len(keys) == 0 || string(key) != keys[0] || string(value) != want[keys[0]] {
			return fmt.Errorf("there is %s with %d bytes, want the first of %q", key, len(value), keys)
		}
		keys = keys[1:]
		return nil
	})
	m.must(err)
	if len(keys) > 0 {
		m.t.Fatalf("a walk from %s to %s does not come by %q", from, to, keys)
	}
}

// compare looks at everything.
func (m *model) compare() {
	m.t.Helper()
	for i := range modelKeys {
		key := fmt.Sprintf("key-%03d", i)
		got, err := m.store.Get([]byte(key))
		m.same(m.want, key, got, err)
	}
	m.must(m.store.View(func(tx rivals.Tx) error {
		m.walk(tx, "key-", "key.", m.want)
		return nil
	}))
}
