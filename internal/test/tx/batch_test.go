package tx

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/vfs"
)

// Batches of every size, with keys that come twice, in maps and outside of them, have the same
// result as on a plain map, in every life.
func TestBatchAgainstAModel(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	model := map[string]string{}
	kit.Lives(t, func(t *testing.T, db *copal.DB) {
		users := kit.MapOf[string, kit.User](t, db, "users")
		b := db.Raw().Batch()
		for round := range 60 {
			want := map[string]bool{}
			for range r.IntN(40) {
				prefix := []string{"", "users:", "k:"}[r.IntN(3)]
				key, value := []byte(fmt.Sprint(prefix, r.IntN(50))), []byte(strings.Repeat(fmt.Sprint(round, ";"), 1<<r.IntN(12)))
				if want[string(key)] = true; r.IntN(3) == 0 {
					b.Delete(key)
					delete(model, string(key))
				} else {
					b.Set(key, value)
					model[string(key)] = string(value)
				}
				clear(value)
				clear(key) // they were copied
			}
			if b.Len() != len(want) {
				t.Fatalf("Len = %d, want %d", b.Len(), len(want))
			}
			if err := b.Commit(); err != nil {
				t.Fatal(err)
			}
			if n, err := b.Len(), b.Commit(); n != 0 || err != nil { // again, it changes nothing
				t.Fatalf("after a commit it has %d changes, and writes them: %v", n, err)
			}
			if got := kit.ScanAll(db); !reflect.DeepEqual(got, model) {
				t.Fatalf("round %d: there are %d entries, want %d", round, len(got), len(model))
			}
		}
		kit.MustSetAsync(t, users, "async", kit.User{Name: "A", Age: 1})
		b.Set([]byte("users:async"), []byte("{}"))
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		model["users:async"] = "{}"
	}, func(t *testing.T, db *copal.DB) {
		if got := kit.ScanAll(db); !reflect.DeepEqual(got, model) {
			t.Errorf("there are %d entries, want %d", len(got), len(model))
		}
	})
}

// With one change that is refused, none is made. The batch can be corrected and written.
func TestBatchIsRefusedAsAWhole(t *testing.T) {
	fault, full := kit.Armed(vfs.Fault{Kinds: vfs.OpCreate | vfs.OpAllocate, Err: vfs.ErrNoSpace, Forever: true})
	db := kit.OpenOn(t, vfs.Inject(vfs.NewMem(), fault), copal.WithErrorHandler(func(error) {}))
	kit.MustPut(t, db, "a", "old")
	kit.MustPut(t, db, "gone", "old")
	before := kit.ScanAll(db)
	fill := func(b *copal.Batch) {
		b.Set([]byte("a"), []byte("new"))
		b.Set([]byte("b"), []byte("new"))
		b.Delete([]byte("gone"))
	}
	b := db.Raw().Batch()
	fill(b)
	long := make([]byte, 1<<20)
	b.Set(long, nil)
	kit.WantErr(t, "Write with a key too long", b.Commit(), copal.ErrTooLarge)
	if b.Len() != 4 {
		t.Errorf("after an error the batch has %d changes, want 4", b.Len())
	}
	b = db.Raw().Batch()
	fill(b)
	for i := range 40 {
		b.Set(fmt.Append(nil, "large", i), long)
	}
	full.Store(true)
	kit.WantErr(t, "Write on a full disk", b.Commit(), copal.ErrNoSpace)
	if got := kit.ScanAll(db); !reflect.DeepEqual(got, before) {
		t.Errorf("a refused batch has made %v of %v", got, before)
	}
	full.Store(false)
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	if n := db.Raw().Len(); n != 42 {
		t.Errorf("%d entries, want 42", n)
	}
	if err := b.SetTTL([]byte("k"), nil, 0); err == nil || b.Len() != 0 {
		t.Errorf("PutTTL without a time to live: %v", err)
	}
	b.Set([]byte("k"), nil)
	kit.MustClose(t, db)
	if err := b.Commit(); !errors.Is(err, copal.ErrClosed) {
		t.Errorf("Write after Close: %v", err)
	}
}

// A deadline in a batch is one like any other.
func TestBatchTTL(t *testing.T) {
	clock := kit.NewManualClock()
	db := kit.Memory(t, kit.WithClock(clock))
	b := db.Raw().Batch()
	if err := b.SetTTL([]byte("k"), []byte("v"), time.Second); err != nil {
		t.Fatal(err)
	}
	b.Set([]byte("stays"), nil)
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	kit.WantRaw(t, db, "k", "v")
	clock.Advance(time.Second)
	if has, err := kit.Has(db.Raw(), []byte("k")); has || err != nil {
		t.Errorf("Has = %v, %v after the deadline", has, err)
	}
	kit.WantRaw(t, db, "stays", "")
}

// TestMemoryOfABatch: a change takes at most 200 bytes beside its key and value until the batch is
// committed, also one that replaces another.
func TestMemoryOfABatch(t *testing.T) {
	db := kit.Memory(t)
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for _, of := range []struct {
		name  string
		pairs int
		fill  func(b *copal.Batch, key []byte) (own int, err error)
	}{
		{"Set", 150_000, func(b *copal.Batch, key []byte) (int, error) { b.Set(key, []byte("value")); return 5, nil }},
		{"SetTTL", 150_000, func(b *copal.Batch, key []byte) (int, error) { return 5, b.SetTTL(key, []byte("value"), time.Hour) }},
		{"Delete", 150_000, func(b *copal.Batch, key []byte) (int, error) { b.Delete(key); return 0, nil }},
		{"large values", 1_000, func(b *copal.Batch, key []byte) (int, error) { b.Set(key, make([]byte, 20_480)); return 20_480, nil }},
	} {
		b, before, bytes := db.Raw().Batch(), heap(), int64(0)
		for n := range of.pairs {
			key := fmt.Append(nil, "key ", n)
			own, err := of.fill(b, key)
			if err != nil {
				t.Fatal(err)
			}
			bytes += int64(own + len(key))
		}
		each := (heap() - before - bytes) / int64(b.Len())
		t.Log(of.name, each, "bytes a pair")
		if each > 200 {
			t.Errorf("%s: a pair takes %d bytes beside its own", of.name, each)
		}
	}
}
