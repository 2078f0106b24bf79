package copal_test

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/vfs"
)

// What asynchronous and in-memory writes meet on their way to the log: updates, empty values, closing, little memory.

// DeleteAsync, then Update(FSync) with Delete: acknowledged, and not in the log.
func TestUpdateDeleteOverDirtyDelete(t *testing.T) {
	for name, up := range map[string]func(m *copal.Map[string, int], f func(*copal.Update[int])) (int, bool, error){
		"Update": func(m *copal.Map[string, int], f func(*copal.Update[int])) (int, bool, error) {
			return m.Update("k", f)
		},
		"UpdateFSync": func(m *copal.Map[string, int], f func(*copal.Update[int])) (int, bool, error) {
			return m.UpdateFSync("k", f)
		},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := vfs.NewMem()
			db := openOn(t, fsys, copal.SyncInterval(time.Hour))
			m := mapOf[string, int](t, db, "m")
			mustSet(t, m, "k", 1)
			if _, err := m.DeleteAsync("k"); err != nil {
				t.Fatal(err)
			}
			if _, exists, err := up(m, func(u *copal.Update[int]) { u.Delete() }); exists || err != nil {
				t.Fatal(exists, err)
			}
			db2 := openOn(t, fsys.ProcessCrash())
			wantAbsent(t, mapOf[string, int](t, db2, "m"), "k")
		})
	}
}

// SetAsync, then UpdateFSync with Cancel: what was seen is not in the log.
func TestUpdateCancelOverDirty(t *testing.T) {
	fsys := vfs.NewMem()
	db := openOn(t, fsys, copal.SyncInterval(time.Hour))
	m := mapOf[string, int](t, db, "m")
	mustSet(t, m, "k", 1)
	if err := m.SetAsync("k", 2); err != nil {
		t.Fatal(err)
	}
	if v, _, err := m.UpdateFSync("k", func(u *copal.Update[int]) { u.Cancel() }); v != 2 || err != nil {
		t.Fatal(v, err)
	}
	db2 := openOn(t, fsys.ProcessCrash())
	wantLoad(t, mapOf[string, int](t, db2, "m"), "k", 2)
}

// UpdateInMemory with Delete hides; Update with Delete is a write of another kind.
func TestUpdateDeleteOverMemoryDelete(t *testing.T) {
	fsys := vfs.NewMem()
	db := openOn(t, fsys)
	m := mapOf[string, int](t, db, "m")
	mustSet(t, m, "k", 1)
	m.UpdateInMemory("k", func(u *copal.Update[int]) { u.Delete() })
	if _, exists, err := m.Update("k", func(u *copal.Update[int]) { u.Delete() }); exists || err != nil {
		t.Fatal(exists, err)
	}
	mustClose(t, db)
	wantAbsent(t, mapOf[string, int](t, openOn(t, fsys), "m"), "k")
}

// An empty encoding, asynchronously, from a buffer that has no memory yet.
func TestAsyncEmptyBytes(t *testing.T) {
	db := memory(t, copal.SyncInterval(time.Hour))
	m := mapOf[string, []byte](t, db, "m", copal.WithCodec(codec.Bytes))
	mustSet(t, m, "k", []byte("old"))
	for range 3 { // no buffer is left that has memory
		runtime.GC()
	}
	if err := m.SetAsync("k", []byte{}); err != nil {
		t.Fatal(err)
	}
	m.Update("k", func(u *copal.Update[[]byte]) {
		if string(u.Value) != "" {
			t.Errorf("Update sees %q, want the empty value", u.Value)
		}
		u.Cancel()
	})
	if v, err := m.Load("k"); err != nil || v == nil {
		t.Errorf("Load before flush = %#v, %v", v, err)
	}
	if err := db.Sync(); err != nil {
		t.Fatal(err)
	}
	if v, err := m.Load("k"); err != nil || v == nil || len(v) != 0 {
		t.Errorf("Load after the flush = %#v, %v", v, err)
	}
}

// protoLike encodes the default of a message as nothing, as protobuf does.
type protoLike struct{ codec.Codec }
type protoType struct{ codec.Type }
type message struct{ N int }

func (protoLike) Name() string                                 { return "proto" }
func (p protoLike) Compile(t reflect.Type) (codec.Type, error) { return protoType{}, nil }
func (protoType) Schema() string                               { return "msg" }
func (protoType) Append(dst []byte, v any) ([]byte, error) {
	m := *v.(**message)
	if m == nil {
		return dst, errors.New("a nil message")
	}
	if m.N == 0 {
		return dst, nil
	}
	return fmt.Append(dst, m.N), nil
}
func (protoType) Decoder(string) (codec.Decoder, error) { return protoDecoder{}, nil }

type protoDecoder struct{}

func (protoDecoder) Decode(b []byte, v any) error {
	m := &message{}
	if len(b) > 0 {
		fmt.Sscan(string(b), &m.N)
	}
	*v.(**message) = m
	return nil
}

// An empty encoding of a codec of the caller's.
func TestAsyncEmptyOfAnotherCodec(t *testing.T) {
	db := memory(t, copal.SyncInterval(time.Hour))
	m := mapOf[string, *message](t, db, "m", copal.WithCodec(protoLike{}))
	mustSet(t, m, "k", &message{7})
	for range 3 { // no buffer is left that has memory
		runtime.GC()
	}
	if err := m.SetAsync("k", &message{0}); err != nil {
		t.Fatal(err)
	}
	if v, err := m.Load("k"); err != nil || v == nil || v.N != 0 {
		t.Errorf("Load = %v, %v, want the empty message", v, err)
	}
	if err := db.Sync(); err != nil {
		t.Errorf("Sync: %v", err)
	}
	if v, err := m.Load("k"); err != nil || v == nil || v.N != 0 {
		t.Errorf("Load after Sync = %v, %v, want the empty message", v, err)
	}
}

// The error of Close says once what has happened.
func TestCloseSaysOnce(t *testing.T) {
	fsys := vfs.NewMem()
	f := &vfs.Fault{Kinds: vfs.OpSync, N: 4, Forever: true, Match: func(name string) bool { return strings.HasSuffix(name, ".log") }}
	db := openOn(t, vfs.Inject(fsys, f), copal.WithErrorHandler(func(error) {}))
	m := mapOf[int, int](t, db, "m")
	var err error
	for i := 0; err == nil && i < 1000; i++ {
		m.SetAsync(i+1e6, i)
		for j := range 2000 {
			m.SetAsync(j, j)
		}
		err = m.SetFSync(i, i)
		for j := range 2000 {
			m.SetAsync(j, j)
		}
	}
	err = db.Close()
	if n := strings.Count(err.Error(), "\n") + 1; n > 3 {
		t.Errorf("Close returns %d errors; %.300s", n, err)
	}
}

// With a long sync interval the index is not taken off the budget of the cells.
func TestMaxMemoryCountsTheIndex(t *testing.T) {
	const limit = 2 << 20
	db := memory(t, copal.SyncInterval(time.Hour), copal.MaxMemory(limit))
	m := mapOf[int, int](t, db, "m")
	for i := range 100000 {
		if err := m.Set(i, i); err != nil {
			t.Fatal(err)
		}
	}
	if s := db.Stats(); s.CacheBytes+s.IndexBytes > limit*5/4 {
		t.Errorf("cache %d + index %d bytes, MaxMemory is %d", s.CacheBytes, s.IndexBytes, limit)
	}
}
