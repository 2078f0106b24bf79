package surface

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/vfs"
)

// everyKind returns a handle of each kind that has At and In, of a map, of raw bytes, and of
// collections named after key.
func everyKind(t *testing.T, db *copal.DB, key string) []any {
	t.Helper()
	h, err1 := copal.OpenHash[string, string](db, "hash:"+key)
	l, err2 := copal.OpenList[string](db, "list:"+key)
	s, err3 := copal.OpenSet[string](db, "set:"+key)
	z, err4 := copal.OpenSortedSet[string](db, "zset:"+key)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	return []any{kit.MapOf[string, string](t, db, "m"), db.Raw(), h, l, s, z}
}

// handlesTo returns the handles that the named method makes of others.
func handlesTo(handles []any, method string, arg any) (made []any) {
	for _, h := range handles {
		made = append(made, reflect.ValueOf(h).MethodByName(method).Call([]reflect.Value{reflect.ValueOf(arg)})[0].Interface())
	}
	return made
}

// The verbs of docs/verbs.md, by whether they write.
var (
	verbsThatWrite = strings.Fields(`Add Clear Create Delete DeletePrefix DeleteRange Expire ExpireAt GetAndDelete GetOrSet Insert Persist
		PopBack PopFront PopMax PopMin Push PushBack PushFront Rename Set SetAll SetTTL SetUntil TellExpiry Update`)
	verbsThatRead = strings.Fields(`All Between Close Count Deadline From Get Has History Keys KeysBetween Len Load MembersFrom Open Peek Prefix Range Rank Ranked
		Sync TTL Until Values View Watch At Backward Batch Hash In List SortedSet Stream StringSet Type With WithContext DB Name`)
)

// writes calls each method of a handle whose verb writes with arguments about key, and yields its
// error. called is called when a method calls its function.
func writes(t *testing.T, h any, key string, called func(name string)) map[string]error {
	t.Helper()
	errs := map[string]error{}
	of := reflect.ValueOf(h)
	for i := range of.NumMethod() {
		name := of.Type().Method(i).Name
		verb := name
		for _, twin := range []string{"Async", "FSync", "InMemory"} {
			verb = strings.TrimSuffix(verb, twin)
		}
		if slices.Contains(verbsThatRead, verb) {
			continue
		}
		if !slices.Contains(verbsThatWrite, verb) {
			t.Errorf("does %T.%s write?", h, name)
			continue
		}
		f := of.Method(i)
		var args []reflect.Value
		for j := range f.Type().NumIn() {
			args = append(args, argument(f.Type().In(j), key, func() { called(name) }))
		}
		call := f.Call
		if f.Type().IsVariadic() {
			call = f.CallSlice
		}
		results := call(args)
		errs[strings.TrimPrefix(of.Type().String(), "*copal.")+" "+name], _ = results[len(results)-1].Interface().(error)
	}
	return errs
}

// argument returns a value of the type of a parameter, for verbs that write.
func argument(t reflect.Type, key string, called func()) reflect.Value {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return reflect.ValueOf(time.Hour)
	case t == reflect.TypeFor[time.Time]():
		return reflect.ValueOf(time.Now().Add(time.Hour))
	case t.Kind() == reflect.String || t == reflect.TypeFor[[]byte]():
		return reflect.ValueOf(key).Convert(t)
	case t.Kind() == reflect.Func:
		return reflect.MakeFunc(t, func([]reflect.Value) []reflect.Value {
			called()
			return []reflect.Value{reflect.Zero(t.Out(0))}
		})
	case t.Kind() == reflect.Slice:
		return reflect.Append(reflect.Zero(t), argument(t.Elem(), key, called))
	case t.Kind() == reflect.Map:
		m := reflect.MakeMap(t)
		m.SetMapIndex(argument(t.Key(), key, called), argument(t.Elem(), key, called))
		return m
	}
	return reflect.Zero(t) // a number
}

// fillKinds puts an entry, or an element, called key under each of the handles.
func fillKinds(t *testing.T, handles []any, key string) {
	t.Helper()
	for _, h := range handles {
		var err error
		switch h := h.(type) {
		case *copal.Map[string, string]:
			err = h.Set(key, "v")
		case *copal.Raw:
			err = h.Set([]byte(key), []byte("v"))
		case *copal.HashOf[string, string]:
			err = h.Set(key, "v")
		case *copal.ListOf[string]:
			err = h.PushBack(key)
		case *copal.SetOf[string]:
			_, err = h.Add(key)
		case *copal.SortedSetOf[string]:
			err = h.Set(key, 1)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestFSyncInATransaction: a twin with FSync is refused where the transaction is less durable, and
// taken where it is not. The transaction goes on.
func TestFSyncInATransaction(t *testing.T) {
	db := kit.Memory(t)
	kinds := everyKind(t, db, "k")
	fillKinds(t, kinds, "k")
	try := func(tx *copal.Tx, want error) {
		n := 0
		for _, h := range handlesTo(kinds, "In", tx) {
			for what, err := range writes(t, h, "k", func(string) {}) {
				if !strings.HasSuffix(what, "FSync") {
					continue
				}
				if n++; !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", what, err, want)
				}
			}
		}
		if n < 13 {
			t.Errorf("only %d methods end with FSync", n)
		}
	}
	kit.Must(t, db.Update(func(tx *copal.Tx) error { try(tx, copal.ErrHandle); return nil }))
	kit.Must(t, db.UpdateFSync(func(tx *copal.Tx) error { try(tx, nil); return nil }))
}

// TestWritesAreRefusedAlike: where nothing can be written, each verb that writes returns the
// reason, for each kind of entry under the key, and calls no function.
func TestWritesAreRefusedAlike(t *testing.T) {
	mem := vfs.NewMem()
	db := kit.OpenOn(t, mem)
	kinds := everyKind(t, db, "k")
	fillKinds(t, kinds, "k")
	s := kit.MustSnapshot(t, db)
	defer s.Close()
	other := kit.Memory(t)
	foreign := kit.MustSnapshot(t, other)
	defer foreign.Close()
	n := 0
	refused := func(why string, handles []any, want error) {
		t.Helper()
		for _, h := range handles {
			for _, key := range []string{"k", "none"} {
				errs := writes(t, h, key, func(name string) { t.Errorf("%s: the function of %T.%s is called", why, h, name) })
				for what, err := range errs {
					if n++; !errors.Is(err, want) {
						t.Errorf("%s: %s of %q: %v, want %v", why, what, key, err, want)
					}
				}
			}
			if r, is := h.(*copal.Raw); is {
				if err := r.Batch().Commit(); !errors.Is(err, want) {
					t.Errorf("%s: a batch: %v, want %v", why, err, want)
				}
			}
		}
	}
	both := func(key string) []any { return append(kinds, everyKind(t, db, key)[2:]...) } // collections that there are, and are not
	refused("a snapshot", handlesTo(both("none"), "At", s), copal.ErrSnapshot)
	refused("a snapshot of another store", handlesTo(both("none"), "At", foreign), copal.ErrHandle)
	refused("no snapshot", handlesTo(both("none"), "At", (*copal.Snapshot)(nil)), copal.ErrHandle)
	refused("no transaction", handlesTo(both("none"), "In", (*copal.Tx)(nil)), copal.ErrHandle)
	var ended *copal.Tx
	kit.Must(t, db.View(func(tx *copal.Tx) error {
		ended = tx
		refused("a transaction that only reads", handlesTo(both("none"), "In", tx), copal.ErrTxReadOnly)
		return nil
	}))
	refused("a transaction that has ended", handlesTo(both("none"), "In", ended), copal.ErrTxDone)
	kit.Must(t, db.Update(func(*copal.Tx) error {
		refused("a handle of none, within a transaction", both("none"), copal.ErrNested)
		return nil
	}))
	reader := kit.OpenOn(t, mem, copal.ReadOnly())
	refused("a store that is only read", append(everyKind(t, reader, "k"), everyKind(t, reader, "none")...), copal.ErrReadOnly)
	if n < 1000 {
		t.Errorf("only %d writes were tried", n)
	}
	for what, want := range map[string]string{"m:k": `"v"`, "k": "v"} {
		if v, err := db.Raw().Load([]byte(what)); string(v) != want || err != nil {
			t.Errorf("%q is %q, %v", what, v, err)
		}
	}
	for _, h := range kinds[2:] {
		if n := h.(interface{ Len() int }).Len(); n != 1 {
			t.Errorf("a %T has %d elements", h, n)
		}
	}
}
