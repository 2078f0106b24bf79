package table

import (
	"fmt"
	"sync"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

// The maps that are compared hold a V under each key and are used through two methods. The
// call through the interface costs each of them the same nanosecond or two. A sync.Map is
// used as programs use it: key and value become interfaces at the call.

// A Map is one of those that are compared.
type Map[V any] interface {
	Get(key string) (V, bool)
	Set(key string, v V) error
}

// openCopal opens a store of one map in a directory of the line, until the line is done.
func openCopal[V any](e *env, name string, c codec.Codec, opts ...copal.Option) (*copal.Map[string, V], error) {
	db, err := copal.Open(e.path(name), opts...)
	if err != nil {
		return nil, err
	}
	e.after(db.Close)
	return copal.OpenMap[string, V](db, "people", copal.WithCodec(c))
}

type syncMap[V any] struct{ m *sync.Map }

func (s syncMap[V]) Get(key string) (v V, ok bool) {
	found, ok := s.m.Load(key)
	if ok {
		v = found.(V)
	}
	return v, ok
}

func (s syncMap[V]) Set(key string, v V) error {
	s.m.Store(key, v)
	return nil
}

func newSyncMap[V any]() syncMap[V] { return syncMap[V]{new(sync.Map)} }

type lockedMap[V any] struct {
	mu *sync.RWMutex // guards m
	m  map[string]V
}

func newLockedMap[V any]() lockedMap[V] { return lockedMap[V]{new(sync.RWMutex), map[string]V{}} }

func (l lockedMap[V]) Get(key string) (V, bool) {
	l.mu.RLock()
	v, ok := l.m[key]
	l.mu.RUnlock()
	return v, ok
}

func (l lockedMap[V]) Set(key string, v V) error {
	l.mu.Lock()
	l.m[key] = v
	l.mu.Unlock()
	return nil
}

// fill sets each key of each map to its value of round 0.
func fill[V any](keys []string, valueOf func(key int32, round int) V, maps ...Map[V]) error {
	for _, m := range maps {
		for i, key := range keys {
			if err := m.Set(key, valueOf(int32(i), 0)); err != nil {
				return err
			}
		}
	}
	return nil
}

// holds checks that keys have the values of a round.
func holds[V comparable](m Map[V], keys []string, some []int32, valueOf func(key int32, round int) V, round int) error {
	for _, i := range some {
		want := valueOf(i, round)
		if got, ok := m.Get(keys[i]); !ok || got != want {
			return wrong(i, got, fmt.Sprintf("%v", want))
		}
	}
	return nil
}
