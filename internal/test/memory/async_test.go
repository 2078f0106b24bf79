package memory

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/vfs"
)

// The bytes of a raw read are the caller's, also when the read had to write it first.
func TestAsyncRawGetGivesItsOwnBytes(t *testing.T) {
	db := kit.Memory(t)
	m := kit.MapOf[int, []byte](t, db, "m", copal.WithCodec(codec.Bytes))
	want, got := map[int][]byte{}, map[int][]byte{}
	for i := range 200 {
		want[i] = bytes.Repeat([]byte{byte(i)}, 100+i)
		if err := m.SetAsync(i, want[i]); err != nil {
			t.Fatal(err)
		}
		v, err := db.Raw().Load(fmt.Append(nil, "m:", i))
		if err != nil {
			t.Fatal(err)
		}
		got[i] = v
	}
	for i, v := range got {
		if !bytes.Equal(v, want[i]) {
			t.Fatalf("the bytes that raw Get(m:%d) gave have changed: %.20q", i, v)
		}
	}
}

// A raw Delete reports whether there was an entry, also of a waiting write, and also if a map shows
// something else in its place.
func TestRawDeleteOfWhatMemoryShows(t *testing.T) {
	db := kit.Memory(t)
	m := kit.MapOf[string, int](t, db, "m")
	kit.MustSet(t, m, "decorated", 1)
	kit.MustSet(t, m, "deleted", 1)
	_, deleted := m.DeleteAsync("deleted")
	if err := errors.Join(m.SetInMemory("decorated", 2), m.SetAsync("async", 1), deleted); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]bool{"decorated": true, "deleted": false, "async": true, "none": false} {
		if existed, err := db.Raw().Delete([]byte("m:" + key)); existed != want || err != nil {
			t.Errorf("raw Delete(m:%s) = %v, %v, want %v", key, existed, err, want)
		}
		kit.WantAbsent(t, m, key)
	}
}

// An asynchronous write is seen at once, by typed and by raw readers, and after every end but a
// crash.
func TestSetAsync(t *testing.T) {
	want := map[string]flatKind{"new": {N: 1}, "old": {N: 2, Text: "two"}}
	write := func(t *testing.T, db *copal.DB) *copal.Map[string, flatKind] {
		m := kit.MapOf[string, flatKind](t, db, "m")
		kit.MustSet(t, m, "old", flatKind{N: 9})
		kit.MustSet(t, m, "gone", flatKind{N: 9})
		for k, v := range want {
			kit.MustSetAsync(t, m, k, v)
		}
		if existed, err := m.DeleteAsync("gone"); !existed || err != nil {
			t.Errorf("DeleteAsync = %v, %v", existed, err)
		}
		return m
	}
	check := func(t *testing.T, m *copal.Map[string, flatKind]) {
		t.Helper()
		for k, v := range want {
			kit.WantLoad(t, m, k, v)
		}
		kit.WantAbsent(t, m, "gone")
		keys := slices.Sorted(m.Keys())
		if got := maps.Collect(m.All()); !maps.Equal(got, want) || m.Len() != len(want) || !slices.Equal(keys, []string{"new", "old"}) {
			t.Errorf("All yields %v, Keys %v, Len is %d", got, keys, m.Len())
		}
		if existed, err := m.DeleteAsync("gone"); existed || err != nil {
			t.Errorf("a second DeleteAsync = %v, %v", existed, err)
		}
	}
	raw := func(t *testing.T, db *copal.DB) {
		t.Helper()
		if has, err := kit.Has(db.Raw(), []byte("m:gone")); has || err != nil {
			t.Errorf("raw Has = %v, %v", has, err)
		}
		kit.WantRaw(t, db, "m:new", `{"N":1,"Text":"","F":0}`)
		if got := kit.ScanAll(db); len(got) != len(want) {
			t.Errorf("Scan yields %v", got)
		}
	}
	for end, finish := range map[string]func(m *copal.Map[string, flatKind]) error{
		"Map.Sync":  func(m *copal.Map[string, flatKind]) error { return m.Sync() },
		"Sync":      func(m *copal.Map[string, flatKind]) error { return m.DB().Sync() },
		"Map.Close": func(m *copal.Map[string, flatKind]) error { return m.Close() },
		"Close":     func(m *copal.Map[string, flatKind]) error { return m.DB().Close() },
		"raw reads": func(m *copal.Map[string, flatKind]) error { raw(t, m.DB()); return nil },
	} {
		t.Run(end, func(t *testing.T) {
			fsys := vfs.NewMem()
			m := write(t, kit.OpenOn(t, fsys, copal.WithSyncInterval(time.Hour)))
			check(t, m)
			if err := finish(m); err != nil {
				t.Fatal(err)
			}
			db := kit.OpenOn(t, fsys.ProcessCrash())
			check(t, kit.MapOf[string, flatKind](t, db, "m"))
			raw(t, db)
		})
	}
}

// Before the interval is over the disk is not touched; then each key is one record.
func TestSetAsyncCoalesces(t *testing.T) {
	for _, d := range []time.Duration{time.Hour, 5 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			fsys := vfs.Inject(vfs.NewMem())
			db := kit.OpenOn(t, fsys, copal.WithSyncInterval(d), copal.WithMaxMemory(1<<20))
			m := kit.MapOf[int, flatKind](t, db, "m", copal.WithCodec(codec.Binary))
			kit.MustSet(t, m, 0, flatKind{}) // and the schema
			if err := db.Sync(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				synctest.Wait()
				seen, records := fsys.Seen(), db.Stats().Records
				for i := range 1000 {
					kit.MustSetAsync(t, m, i%2, flatKind{N: i})
				}
				time.Sleep(d - time.Nanosecond)
				synctest.Wait()
				if n := fsys.Seen(); n != seen {
					t.Errorf("interval %v: the disk was touched: %v", d, fsys.Ops()[seen:])
				}
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				if n := db.Stats().Records - records; n != 2 {
					t.Errorf("interval %v: 1000 writes of two keys are %d records, want 2", d, n)
				}
				seen = fsys.Seen()
				time.Sleep(3 * time.Hour)
				synctest.Wait()
				if n := fsys.Seen(); n != seen {
					t.Errorf("interval %v: without writes the disk was touched: %v", d, fsys.Ops()[seen:])
				}
			}
		})
	}
}

// A crash leaves of each key the last acknowledged value, or an asynchronous write that came later;
// never an earlier value.
func TestSetAsyncOrder(t *testing.T) {
	fsys := vfs.NewMem()
	db := kit.OpenOn(t, fsys, copal.WithSyncInterval(time.Hour), copal.WithMaxMemory(1<<20))
	m := kit.MapOf[string, int](t, db, "m")
	kit.MustSetAsync(t, m, "async, Set", 1)
	kit.MustSet(t, m, "async, Set", 2)
	kit.MustSet(t, m, "Set, async", 1)
	kit.MustSetAsync(t, m, "Set, async", 2)
	kit.MustSetAsync(t, m, "Set, async", 3)
	kit.MustSetAsync(t, m, "async, Delete", 1)
	records := db.Stats().Records
	if existed, err := m.Delete("async, Delete"); !existed || err != nil || db.Stats().Records != records {
		t.Errorf("Delete = %v, %v, and %d records", existed, err, db.Stats().Records-records)
	}
	kit.MustSetAsync(t, m, "async, Put", 1)
	kit.MustPut(t, db, "m:async, Put", "2")
	kit.MustSetAsync(t, m, "async, Update", 1)
	if v, _, err := m.Update("async, Update", func(u *copal.Entry[int]) error { u.Value++; return nil }); v != 2 || err != nil {
		t.Errorf("Update = %v, %v", v, err)
	}
	kit.MustSet(t, m, "Set, DeleteAsync, Set", 1)
	if _, err := m.DeleteAsync("Set, DeleteAsync, Set"); err != nil {
		t.Error(err)
	}
	kit.MustSet(t, m, "Set, DeleteAsync, Set", 2)
	crashed := kit.MapOf[string, int](t, kit.OpenOn(t, fsys.ProcessCrash()), "m")
	want := map[string]int{"async, Set": 2, "Set, async": 1, "async, Put": 2, "async, Update": 2, "Set, DeleteAsync, Set": 2}
	if got := maps.Collect(crashed.All()); !maps.Equal(got, want) {
		t.Errorf("after a crash: %v, want %v", got, want)
	}
	want["Set, async"] = 3
	kit.MustClose(t, db)
	if got := maps.Collect(kit.MapOf[string, int](t, kit.OpenOn(t, fsys), "m").All()); !maps.Equal(got, want) {
		t.Errorf("after Close: %v, want %v", got, want)
	}
}

// A value that cannot be stored is refused at once, and changes nothing.
func TestSetAsyncRefused(t *testing.T) {
	fsys := vfs.NewMem()
	db := kit.OpenOn(t, fsys)
	m := kit.MapOf[string, float64](t, db, "m")
	kit.MustSetAsync(t, m, "k", 1)
	kit.WantErr(t, "SetAsync", m.SetAsync("k", math.NaN()), copal.ErrType)
	kit.WantErr(t, "SetAsync", m.SetAsync("new", math.Inf(1)), copal.ErrType)
	kit.WantErr(t, "SetAsync of a long key", m.SetAsync(strings.Repeat("k", 1<<16), 1), copal.ErrTooLarge)
	kit.WantLoad(t, m, "k", 1)
	kit.WantAbsent(t, m, "new")
	writes := func(m *copal.Map[string, float64]) []error {
		_, deleted := m.DeleteAsync("k")
		_, _, updated := m.UpdateAsync("k", func(u *copal.Entry[float64]) error { return nil })
		_, _, inMemory := m.UpdateInMemory("k", func(u *copal.Entry[float64]) error { return nil })
		return []error{m.SetAsync("k", 2), deleted, updated, m.SetInMemory("k", 2), inMemory}
	}
	kit.MustClose(t, m)
	for _, err := range writes(m) {
		kit.WantErr(t, "closed map", err, copal.ErrClosed)
	}
	m = kit.MapOf[string, float64](t, db, "m")
	kit.MustClose(t, db)
	for _, err := range writes(m) {
		kit.WantErr(t, "closed store", err, copal.ErrClosed)
	}
	reader := kit.MapOf[string, float64](t, kit.OpenOn(t, fsys, copal.ReadOnly()), "m")
	for _, err := range writes(reader) {
		kit.WantErr(t, "read-only", err, copal.ErrReadOnly)
	}
	kit.WantLoad(t, reader, "k", 1)
}

// On a full disk asynchronous values stay readable, each call that flushes returns the error, the
// handler gets it once, and all of it is written when there is room. When there is none until the
// end, Close returns the error, and each entry has its old or its new value.
func TestSetAsyncOnAFullDisk(t *testing.T) {
	const n = 300 // of values that together are more than is reserved at a time
	value := func(i, age int) string { return fmt.Sprint(i, " ", age, strings.Repeat(".", 10_000)) }
	synctest.Test(t, func(t *testing.T) {
		fault, full := kit.Armed(vfs.Fault{Kinds: vfs.OpCreate | vfs.OpAllocate, Match: kit.IsLog, Err: vfs.ErrNoSpace, Forever: true})
		mem := vfs.NewMem()
		var handled kit.ErrorLog
		db := kit.OpenOn(t, vfs.Inject(mem, fault), handled.Option(), copal.WithSyncInterval(time.Minute), copal.WithMaxMemory(64<<20))
		m := kit.MapOf[int, string](t, db, "m")
		kit.MustSet(t, m, 0, "")
		full.Store(true)
		for i := range n {
			kit.MustSetAsync(t, m, i, value(i, 1))
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		handled.WantTaken(t, 1, copal.ErrNoSpace)
		kit.WantErr(t, "Sync", db.Sync(), copal.ErrNoSpace)
		kit.WantErr(t, "Sync", m.Sync(), copal.ErrNoSpace)
		for i := range n {
			kit.WantLoad(t, m, i, value(i, 1))
			key, want := fmt.Sprint("m:", i), fmt.Sprintf("%q", value(i, 1))
			kit.WantRaw(t, db, key, want)
			if got := kit.Viewed(t, db, key); got != want {
				t.Errorf("ViewValue(%q) shows %.50q", key, got)
			}
		}
		full.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		handled.WantTaken(t, 0, nil)
		if got := kit.MapOf[int, string](t, kit.OpenOn(t, mem.ProcessCrash()), "m").Len(); got != n {
			t.Errorf("%d entries in the log, want %d", got, n)
		}
		full.Store(true)
		for age := 2; age <= 3; age++ {
			for i := range n {
				kit.MustSetAsync(t, m, i, value(i, age))
			}
			if age == 2 {
				kit.WantErr(t, "Map.Close", m.Close(), copal.ErrNoSpace)
				m = kit.MapOf[int, string](t, db, "m")
			} else {
				kit.WantErr(t, "Close", db.Close(), copal.ErrNoSpace)
				full.Store(false)
				m = kit.MapOf[int, string](t, kit.OpenOn(t, mem), "m")
			}
			for i := range n {
				if got, ok := m.Get(i); !ok || !strings.HasPrefix(got, fmt.Sprint(i, " ")) || len(got) != len(value(i, age)) || got > value(i, age) {
					t.Errorf("entry %d is %.20q", i, got)
				}
			}
		}
		handled.Take()
	})
}

// However little memory there is, it is kept to, and nothing is lost.
func TestSetAsyncWithLittleMemory(t *testing.T) {
	const n, limit = 5000, 100_000
	for _, c := range []codec.Codec{codec.JSON, codec.Binary} {
		fsys := vfs.NewMem()
		db := kit.OpenOn(t, fsys, copal.WithMaxMemory(limit), copal.WithSyncInterval(time.Hour))
		m := kit.MapOf[int, flatKind](t, db, "m", copal.WithCodec(c))
		most := int64(0)
		for i := range n {
			kit.MustSetAsync(t, m, i, flatKind{N: i, Text: strings.Repeat("x", 1000)})
			most = max(most, db.Stats().CacheBytes)
		}
		if most > 2*limit {
			t.Errorf("%s: up to %d bytes of values in memory, want at most about %d", c.Name(), most, limit)
		}
		if records := db.Stats().Records; records < n*9/10 {
			t.Errorf("%s: %d values of 1000 bytes are kept in %d bytes of memory", c.Name(), n-records, limit)
		}
		kit.MustClose(t, db)
		again := kit.MapOf[int, flatKind](t, kit.OpenOn(t, fsys), "m")
		if again.Len() != n {
			t.Errorf("%s: %d entries, want %d", c.Name(), again.Len(), n)
		}
		for i, v := range again.All() {
			if v.N != i || len(v.Text) != 1000 {
				t.Errorf("%s: %d is %d", c.Name(), i, v.N)
			}
		}
	}
}

// Large values are written, too, however they are encoded.
func TestSetAsyncLargeValues(t *testing.T) {
	for _, c := range []codec.Codec{codec.JSON, codec.Binary} {
		kit.Lives(t, func(t *testing.T, db *copal.DB) {
			m := kit.MapOf[int, string](t, db, "m", copal.WithCodec(c))
			kit.MustSetAsync(t, m, 1, strings.Repeat("x", 3<<20))
			kit.MustSetAsync(t, m, 2, "small")
			if err := db.Sync(); err != nil {
				t.Fatal(err)
			}
		}, func(t *testing.T, db *copal.DB) {
			m := kit.MapOf[int, string](t, db, "m", copal.WithCodec(c))
			kit.WantLoad(t, m, 1, strings.Repeat("x", 3<<20))
			kit.WantLoad(t, m, 2, "small")
		})
	}
}

// TestUpdateDeletesAfterDeleteAsync: an Update that deletes a key puts the deletion in the log,
// though DeleteAsync has deleted the key before.
func TestUpdateDeletesAfterDeleteAsync(t *testing.T) {
	for name, up := range map[string]func(m *copal.Map[string, int], f func(*copal.Entry[int]) error) (int, bool, error){
		"Update": func(m *copal.Map[string, int], f func(*copal.Entry[int]) error) (int, bool, error) {
			return m.Update("k", f)
		},
		"UpdateFSync": func(m *copal.Map[string, int], f func(*copal.Entry[int]) error) (int, bool, error) {
			return m.UpdateFSync("k", f)
		},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := vfs.NewMem()
			db := kit.OpenOn(t, fsys, copal.WithSyncInterval(time.Hour))
			m := kit.MapOf[string, int](t, db, "m")
			kit.MustSet(t, m, "k", 1)
			if _, err := m.DeleteAsync("k"); err != nil {
				t.Fatal(err)
			}
			if _, exists, err := up(m, func(u *copal.Entry[int]) error { u.Delete(); return nil }); exists || err != nil {
				t.Fatal(exists, err)
			}
			db2 := kit.OpenOn(t, fsys.ProcessCrash())
			kit.WantAbsent(t, kit.MapOf[string, int](t, db2, "m"), "k")
		})
	}
}

// TestCanceledUpdateFSyncKeepsSetAsync: an UpdateFSync that is canceled puts the value that it has
// seen in the log, also if SetAsync set it.
func TestCanceledUpdateFSyncKeepsSetAsync(t *testing.T) {
	fsys := vfs.NewMem()
	db := kit.OpenOn(t, fsys, copal.WithSyncInterval(time.Hour))
	m := kit.MapOf[string, int](t, db, "m")
	kit.MustSet(t, m, "k", 1)
	if err := m.SetAsync("k", 2); err != nil {
		t.Fatal(err)
	}
	if v, _, err := m.UpdateFSync("k", func(u *copal.Entry[int]) error { u.Cancel(); return nil }); v != 2 || err != nil {
		t.Fatal(v, err)
	}
	db2 := kit.OpenOn(t, fsys.ProcessCrash())
	kit.WantLoad(t, kit.MapOf[string, int](t, db2, "m"), "k", 2)
}

// TestSetAsyncEmptyBytes: an empty slice set by SetAsync is read as an empty slice, before and
// after it is written to the log.
func TestSetAsyncEmptyBytes(t *testing.T) {
	db := kit.Memory(t, copal.WithSyncInterval(time.Hour))
	m := kit.MapOf[string, []byte](t, db, "m", copal.WithCodec(codec.Bytes))
	kit.MustSet(t, m, "k", []byte("old"))
	for range 3 { // no buffer is left that has memory
		runtime.GC()
	}
	if err := m.SetAsync("k", []byte{}); err != nil {
		t.Fatal(err)
	}
	m.Update("k", func(u *copal.Entry[[]byte]) error {
		if string(u.Value) != "" {
			t.Errorf("Update sees %q, want the empty value", u.Value)
		}
		u.Cancel()

		return nil
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

// protoType is the type that a protoLike compiles.
type protoType struct{ codec.Type }

// message is a value that a protoLike encodes.
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

// protoDecoder decodes the bytes of a protoLike.
type protoDecoder struct{}

func (protoDecoder) Decode(b []byte, v any) error {
	m := &message{}
	if len(b) > 0 {
		fmt.Sscan(string(b), &m.N)
	}
	*v.(**message) = m
	return nil
}

// TestSetAsyncEmptyEncoding: a value that the caller's codec encodes as nothing can be set by
// SetAsync, and is read before and after it is written to the log.
func TestSetAsyncEmptyEncoding(t *testing.T) {
	db := kit.Memory(t, copal.WithSyncInterval(time.Hour))
	m := kit.MapOf[string, *message](t, db, "m", copal.WithCodec(protoLike{}))
	kit.MustSet(t, m, "k", &message{7})
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

// TestCloseReportsAFailedSyncOnce: after a failed sync, Close does not repeat the error for each
// asynchronous write that waits.
func TestCloseReportsAFailedSyncOnce(t *testing.T) {
	fsys := vfs.NewMem()
	f := &vfs.Fault{Kinds: vfs.OpSync, N: 4, Forever: true, Match: func(name string) bool { return strings.HasSuffix(name, ".log") }}
	db := kit.OpenOn(t, vfs.Inject(fsys, f), copal.WithErrorHandler(func(error) {}))
	m := kit.MapOf[int, int](t, db, "m")
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
