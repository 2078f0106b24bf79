package main

import (
	"fmt"
	"sync"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
	"github.com/puzpuzpuz/xsync/v4"
)

// The maps that are compared hold a V under each key and are used through two methods. The
// call through the interface costs each of them the same nanosecond or two. A sync.Map is
// used as programs use it: key and value become interfaces at the call.

// aMap is one of the maps.
type aMap[V any] interface {
	get(key string) (V, bool)
	set(key string, v V) error
}

type copalMap[V any] struct{ *copal.Map[string, V] }

func (m copalMap[V]) get(key string) (V, bool)  { return m.Get(key) }
func (m copalMap[V]) set(key string, v V) error { return m.Set(key, v) }

// openCopal opens a store of one map in a directory of the line, until the line is done.
func openCopal[V any](e *env, name string, c codec.Codec, opts ...copal.Option) (copalMap[V], error) {
	db, err := copal.Open(e.path(name), opts...)
	if err != nil {
		return copalMap[V]{}, err
	}
	e.after(db.Close)
	m, err := copal.OpenMap[string, V](db, "people", copal.WithCodec(c))
	return copalMap[V]{m}, err
}

type syncMap[V any] struct{ m *sync.Map }

func (s syncMap[V]) get(key string) (v V, ok bool) {
	found, ok := s.m.Load(key)
	if ok {
		v = found.(V)
	}
	return v, ok
}

func (s syncMap[V]) set(key string, v V) error {
	s.m.Store(key, v)
	return nil
}

func newSyncMap[V any]() syncMap[V] { return syncMap[V]{new(sync.Map)} }

type lockedMap[V any] struct {
	mu *sync.RWMutex // guards m
	m  map[string]V
}

func newLockedMap[V any]() lockedMap[V] { return lockedMap[V]{new(sync.RWMutex), map[string]V{}} }

func (l lockedMap[V]) get(key string) (V, bool) {
	l.mu.RLock()
	v, ok := l.m[key]
	l.mu.RUnlock()
	return v, ok
}

func (l lockedMap[V]) set(key string, v V) error {
	l.mu.Lock()
	l.m[key] = v
	l.mu.Unlock()
	return nil
}

type xsyncMap[V any] struct{ m *xsync.Map[string, V] }

func newXsyncMap[V any]() xsyncMap[V] { return xsyncMap[V]{xsync.NewMap[string, V]()} }

func (x xsyncMap[V]) get(key string) (V, bool) { return x.m.Load(key) }

func (x xsyncMap[V]) set(key string, v V) error {
	x.m.Store(key, v)
	return nil
}

// fill sets each key of each map to its value of round 0.
func fill[V any](keys []string, valueOf func(key int32, round int) V, maps ...aMap[V]) error {
	for _, m := range maps {
		for i, key := range keys {
			if err := m.set(key, valueOf(int32(i), 0)); err != nil {
				return err
			}
		}
	}
	return nil
}

// holds checks that keys have the values of a round.
func holds[V comparable](m aMap[V], keys []string, some []int32, valueOf func(key int32, round int) V, round int) error {
	for _, i := range some {
		want := valueOf(i, round)
		if got, ok := m.get(keys[i]); !ok || got != want {
			return wrong(i, got, fmt.Sprintf("%v", want))
		}
	}
	return nil
}
