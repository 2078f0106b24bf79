package open

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

var (
	quoted = regexp.MustCompile(`"[^"]*"|\{[^}]*\}|\([^)]*\)`) // names, and the parts of types
	word   = regexp.MustCompile(`[\pL\d._\[\]*]+`)
)

// saidTwice finds a word that comes again within the next three, two neighbours that come again, or
// a long word that comes three times.
func saidTwice(text string) string {
	words := word.FindAllString(strings.ToLower(quoted.ReplaceAllString(text, "")), -1)
	times, pairs := map[string]int{}, map[string]bool{}
	for i, w := range words {
		if len(w) >= 3 && w != "the" && w != "and" && slices.Contains(words[max(i-3, 0):i], w) {
			return w
		}
		if times[w]++; len(w) >= 4 && times[w] > 2 {
			return w
		}
		if i == 0 || words[i-1] == "the" || len(words[i-1])+len(w) < 6 {
			continue
		}
		pair := words[i-1] + " " + w
		if pairs[pair] {
			return pair
		}
		pairs[pair] = true
	}
	return ""
}

// TestSaidTwice: repeated words of an error are found.
func TestSaidTwice(t *testing.T) {
	for text, want := range map[string]string{
		"copal: codec json: type cannot be kept as JSON: chan int: a chan int has no form in JSON":                   "chan",
		"copal: codec json: type cannot be kept as JSON: int: it has no form in JSON":                                "json",
		"copal: the type does not fit: map has values which do not fit string":                                       "not fit",
		"copal: the value is not a string: string is string, but was stored as int":                                  "string",
		"copal: the type does not fit: map \"t\" does not have the types of WithOnExpire":                            "does not",
		"copal: map has values, which do not fit struct { Other int }: it has no field in common with struct{X int}": "",
		"copal: key \"a a\" of map \"a\" is not found":                                                               "",
	} {
		if said := saidTwice(text); said != want {
			t.Errorf("%s: found is %q, want %q", text, said, want)
		}
	}
}

// TestErrorTexts: an error begins with "copal: ", once, and names the mistake, its place, and the
// remedy.
func TestErrorTexts(t *testing.T) {
	base := t.TempDir()
	dir, file, empty := filepath.Join(base, "app.db"), filepath.Join(base, "file"), filepath.Join(base, "empty")
	if err := errors.Join(os.WriteFile(file, nil, 0o666), os.Mkdir(empty, 0o777)); err != nil {
		t.Fatal(err)
	}
	var told kit.ErrorLog
	db, err := copal.Open(dir, told.Option())
	if err != nil {
		t.Fatal(err)
	}
	defer kit.MustClose(t, db)
	open := func(dir string, opts ...copal.Option) func() error {
		return func() error {
			db, err := copal.Open(dir, opts...)
			if err == nil {
				db.Close()
			}
			return err
		}
	}
	counts := kit.MapOf[string, int](t, db, "counts")
	if err := counts.Set("a", 1); err != nil {
		t.Fatal(err)
	}
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	other := kit.Memory(t)
	foreign := kit.MustSnapshot(t, other)
	defer foreign.Close()
	points := kit.MapOf[string, struct{ X, Y int }](t, db, "points")
	kit.Must(t, errors.Join(points.Set("a", struct{ X, Y int }{1, 2}), points.Close()))
	floats, texts, numbers := kit.MapOf[string, float64](t, db, "floats"), kit.MapOf[string, string](t, db, "texts"), kit.MapOf[int, int](t, db, "numbers")
	fields, misread := kit.OpenHash[int, string](t, db, "hash"), kit.OpenHash[string, bool](t, db, "hash")
	list, err := copal.OpenList[int](db, "hash")
	kit.Must(t, errors.Join(err, db.Raw().Set([]byte("numbers:x"), nil), db.Raw().Set([]byte("texts:a"), []byte("x")), texts.Set("b", "b"),
		copal.Set(db, "big", 1000), kit.OpenHash[string, string](t, db, "hash").Set("x", "x")))
	orders, err := copal.OpenList[float64](db, "orders")
	kit.Must(t, errors.Join(err, orders.PushBack(1)))
	totals := kit.OpenHash[string, float64](t, db, "totals")
	ranks, err := copal.OpenSortedSet[string](db, "ranks")
	kit.Must(t, err)
	toldBy := func(walk func()) error {
		told.Errs = nil
		walk()
		return errors.Join(told.Errs...)
	}
	small := kit.WithSegmentBytes(20_000)
	compacted, windowed := kit.Memory(t, small), kit.Memory(t, small, copal.WithHistory(time.Hour))
	for _, db := range []*copal.DB{compacted, windowed} {
		for range 100 {
			kit.Must(t, db.Raw().Set([]byte("k"), make([]byte, 1000)))
		}
		kit.Must(t, db.Compact(t.Context(), nil))
	}
	for _, c := range []struct {
		what string
		do   func() error
		is   error
		says []string
	}{
		{"a writer beside a writer", open(dir), copal.ErrLocked, []string{"the store is in use", "LOCK", "this process"}},
		{"a store that is a file", open(file), nil, []string{file, "directory"}},
		{"a directory that is missing, read-only", open(filepath.Join(base, "none"), copal.ReadOnly()), os.ErrNotExist, []string{"none"}},
		{"a directory without a store, read-only", open(empty, copal.ReadOnly()), os.ErrNotExist, []string{"there is no store in", empty}},
		{"an empty path", open(""), nil, []string{"Open needs the name of a directory"}},
		{"keys that cannot be", func() error { _, err := copal.OpenMap[any, int](db, "m"); return err }, copal.ErrType, []string{`map "m": interface {} is not a key type`}},
		{"a map that is open as another", func() error { _, err := copal.OpenMap[string, string](db, "counts"); return err }, copal.ErrType, []string{`map "counts" has values of schema 1, written as json, which do not fit string`}},
		{"a codec that is none", func() error {
			_, err := copal.OpenMap[string, int](db, "m", copal.WithCodec(codec.Bytes))
			return err
		}, copal.ErrType, []string{`copal: map "m": type cannot be kept as bytes: int is neither`}},
		{"a write in a transaction by other means", func() error {
			return db.Update(func(*copal.Tx) error { return counts.Set("a", 2) })
		}, copal.ErrNested, []string{"m.In(tx)"}},
		{"a snapshot of another store", func() error { _, err := counts.At(foreign).Load("a"); return err }, copal.ErrHandle,
			[]string{"copal: At: the snapshot is of another store"}},
		{"no snapshot", func() error { _, err := counts.At(nil).Load("a"); return err }, copal.ErrHandle,
			[]string{"copal: At: the snapshot is nil"}},
		{"no transaction", func() error { return counts.In(nil).Set("a", 1) }, copal.ErrHandle, []string{"copal: In: the transaction is nil"}},
		{"a transaction of another store", func() error {
			return other.Update(func(tx *copal.Tx) error { return counts.In(tx).Set("a", 1) })
		}, copal.ErrHandle, []string{"copal: In: the transaction is of another store"}},
		{"a snapshot in a transaction", func() error {
			return db.Update(func(tx *copal.Tx) error { return counts.In(tx).At(s).Set("a", 1) })
		}, copal.ErrHandle, []string{"copal: At and In exclude each other: a transaction has a moment of its own"}},
		{"a map without a name", func() error { _, err := copal.OpenMap[string, int](db, ""); return err }, nil, []string{"copal: OpenMap needs the name of a map"}},
		{"a durability that there is not", func() error { return counts.With(7).Set("a", 1) }, copal.ErrHandle, []string{"copal: With(Durability(7)); there are Async, Write and FSync"}},
		{"a durability of its own in a transaction", func() error {
			return db.Update(func(tx *copal.Tx) error { return counts.In(tx).With(copal.FSync).Set("a", 1) })
		}, copal.ErrHandle, []string{"copal: With and In exclude each other", "DB.UpdateFSync"}},
		{"a value of memory alone in a transaction", func() error {
			return db.Update(func(tx *copal.Tx) error { return counts.In(tx).SetInMemory("a", 1) })
		}, copal.ErrHandle, []string{"copal: a transaction cannot write only to memory"}},
		{"a write that is to be more durable than its transaction", func() error {
			return db.Update(func(tx *copal.Tx) error { return counts.In(tx).SetFSync("a", 1) })
		}, copal.ErrHandle, []string{"copal: a write in this transaction cannot be FSync", "DB.UpdateFSync"}},
		{"a batch in a transaction", func() error {
			return db.Update(func(tx *copal.Tx) error { return tx.Raw().Batch().Commit() })
		}, copal.ErrHandle, []string{"copal: a transaction has no batches"}},
		{"a stream in a transaction", func() error {
			return db.Update(func(tx *copal.Tx) error { _, err := tx.Raw().Create([]byte("k")); return err })
		}, copal.ErrHandle, []string{"copal: a transaction cannot stream values"}},
		{"the history of an entry at a snapshot", func() (err error) {
			for _, err = range counts.At(s).History("a") {
			}
			return err
		}, copal.ErrHandle, []string{"copal: History cannot be read in a transaction"}},
		{"a store without a codec", open(filepath.Join(base, "none"), copal.WithCodec(nil)), nil, []string{"copal: WithCodec(nil); leave the option out for codec.JSON"}},
		{"a map without a codec", func() error {
			_, err := copal.OpenMap[string, int](db, "m", copal.WithCodec(nil))
			return err
		}, nil, []string{"copal: WithCodec(nil); leave the option out for codec.JSON"}},
		{"a score that is no number", func() error {
			s, err := copal.OpenSortedSet[string](db, "scores")
			return errors.Join(err, s.Set("a", math.NaN()))
		}, nil, []string{"copal: NaN is no score of a sorted set"}},
		{"a type that no stored value fits", func() error {
			_, err := copal.OpenMap[string, struct{ Other int }](db, "points")
			return err
		}, copal.ErrType, []string{"which do not fit struct { Other int }: it has no field in common"}},
		{"a type with a part that no codec keeps", func() error {
			_, err := copal.OpenMap[string, struct{ Parts []chan int }](db, "m")
			return err
		}, copal.ErrType, []string{`copal: map "m": type cannot be kept as JSON: struct { Parts []chan int }.Parts[]: chan int`}},
		{"a type that another codec does not keep", func() error {
			_, err := copal.OpenMap[string, complex64](db, "points", copal.WithCodec(codec.Binary))
			return err
		}, copal.ErrType, []string{"written as json, which do not fit complex64: codec json does not keep it: complex64"}},
		{"a field of another type", func() error {
			_, err := copal.OpenMap[string, struct{ X string }](db, "points")
			return err
		}, copal.ErrType, []string{"which do not fit struct { X string }: its field .X is string, but was stored as int"}},
		{"a value that cannot be kept", func() error { return floats.Set("a", math.NaN()) }, copal.ErrType,
			[]string{`copal: key "floats:a": value cannot be kept as JSON: float64: NaN is not a number`}},
		{"a number that does not fit", func() error {
			_, err := copal.Load[int8](db, "big")
			return err
		}, copal.ErrType, []string{`copal: the value under key "big", written as json: data does not decode into int8: json: cannot unmarshal number 1000`}},
		{"raw text that is no value", func() error { _, err := texts.Load("a"); return err }, copal.ErrType,
			[]string{`written as raw bytes and read as JSON: data does not decode into string: invalid character`}},
		{"a single value of another type", func() error { _, err := copal.Load[string](db, "big"); return err }, copal.ErrType,
			[]string{`copal: the value under key "big", written as json, does not fit string: it was stored as int`}},
		{"a raw key that is none", func() error { return toldBy(func() { numbers.Keys()(func(int) bool { return true }) }) }, copal.ErrType,
			[]string{`copal: map "numbers": "x" is not a key of type int`}},
		{"a field that is none", func() error { return toldBy(func() { fields.Keys()(func(int) bool { return true }) }) }, copal.ErrType,
			[]string{`copal: hash "hash": "x" is not a key of type int`}},
		{"a value in a hash that does not fit", func() error { return toldBy(func() { misread.All()(func(string, bool) bool { return true }) }) }, copal.ErrType,
			[]string{`copal: hash "hash": the value under key "x", written as json, does not fit bool: it was stored as string`}},
		{"a hash that is to be a list", func() error { return list.PushBack(1) }, copal.ErrType, []string{`key "hash" is a hash, and no list`}},
		{"keys in another order", func() error { _, err := copal.OpenMap[int, struct{ X, Y int }](db, "points"); return err }, copal.ErrType,
			[]string{`map "points": its keys are in the order bytes, and those of type int are in the order int`}},
		{"what expires is of other types", func() error {
			_, err := copal.OpenMap[string, int](db, "m", copal.WithOnExpire(func(string, string) {}))
			return err
		}, copal.ErrType, []string{`WithOnExpire of map "m" has a func(string, string), and needs a func(string, int)`}},
		{"another TTL", func() error { _, err := copal.OpenMap[string, int](db, "counts", copal.WithTTL(time.Hour)); return err }, nil,
			[]string{`map "counts" is open with a TTL of 0s, not 1h0m0s: close it first`}},
		{"another codec", func() error {
			_, err := copal.OpenMap[string, int](db, "counts", copal.WithCodec(codec.Binary))
			return err
		}, nil,
			[]string{`map "counts" is open with codec json, not binary: close it first`}},
		{"a negative window", open(filepath.Join(base, "none"), copal.WithHistory(-1)), nil, []string{"copal: WithHistory(-1ns); it must not be negative"}},
		{"a sync interval of nothing", open(filepath.Join(base, "none"), copal.WithSyncInterval(0)), nil, []string{"copal: WithSyncInterval(0s); it must be positive"}},
		{"a deadline that has passed", func() error { return counts.SetUntil("a", 1, time.Unix(1, 0)) }, nil, []string{"has passed"}},
		{"a time to live of nothing", func() error { return counts.SetTTL("a", 1, 0) }, nil, []string{"time to live 0s; it must be positive"}},
		{"no entry to expire", func() error { return counts.Expire("none", time.Hour) }, copal.ErrNotFound, []string{`copal: key "none" of map "counts" is not found`}},
		{"no entry", func() error { _, err := counts.Load("none"); return err }, copal.ErrNotFound, []string{`copal: key "none" of map "counts" is not found`}},
		{"no entry in a snapshot", func() error { _, err := counts.At(s).Load("none"); return err }, copal.ErrNotFound, []string{`key "none" of map "counts"`}},
		{"no entry in a transaction", func() error {
			return db.View(func(tx *copal.Tx) error { _, err := counts.In(tx).Load("none"); return err })
		}, copal.ErrNotFound, []string{`key "none" of map "counts"`}},
		{"no entry with a deadline", func() error { _, err := counts.TTL("none"); return err }, copal.ErrNotFound, []string{`key "none" of map "counts"`}},
		{"no entry beneath memory", func() error { return counts.SetInMemory("none", 1) }, copal.ErrNotFound, []string{`key "none" of map "counts"`}},
		{"no raw entry", func() error { _, err := db.Raw().Load([]byte("none")); return err }, copal.ErrNotFound, []string{`copal: key "none" is not found`}},
		{"no raw entry to view", func() error { return db.Raw().View([]byte("none"), nil) }, copal.ErrNotFound, []string{`copal: key "none" is not found`}},
		{"no raw entry of a type", func() error { _, err := db.Raw().Type([]byte("none")); return err }, copal.ErrNotFound, []string{`copal: key "none" is not found`}},
		{"no single value", func() error { _, err := copal.Load[int](db, "none"); return err }, copal.ErrNotFound, []string{`copal: key "none" is not found`}},
		{"no field", func() error { _, err := misread.Load("none"); return err }, copal.ErrNotFound, []string{`copal: field "none" of hash "hash" is not found`}},
		{"no element", func() error { _, err := orders.Load(7); return err }, copal.ErrNotFound, []string{`copal: element 7 of list "orders" is not found`}},
		{"no element to set", func() error { return orders.Set(-9, 1) }, copal.ErrNotFound, []string{`copal: element -9 of list "orders" is not found`}},
		{"no member", func() error { _, err := ranks.Load("none"); return err }, copal.ErrNotFound, []string{`copal: member "none" of sorted set "ranks" is not found`}},
		{"no collection to expire", func() error { return ranks.Expire(time.Hour) }, copal.ErrNotFound, []string{`copal: sorted set "ranks" is not found`}},
		{"no collection to rename", func() error { return ranks.Rename("x") }, copal.ErrNotFound, []string{`copal: sorted set "ranks" is not found`}},
		{"an element that cannot be kept", func() error { return orders.PushBack(math.Inf(1)) }, copal.ErrType,
			[]string{`copal: list "orders": value cannot be kept as JSON: float64: +Inf is not a number`}},
		{"an element that cannot be set", func() error { return orders.Set(0, math.Inf(1)) }, copal.ErrType, []string{`copal: list "orders": value cannot be kept`}},
		{"an element that cannot be inserted", func() error { return orders.Insert(0, math.Inf(1)) }, copal.ErrType, []string{`copal: list "orders": value cannot be kept`}},
		{"a field that cannot be kept", func() error { return totals.Set("f", math.Inf(1)) }, copal.ErrType,
			[]string{`copal: hash "totals": field "f": value cannot be kept as JSON: float64: +Inf is not a number`}},
		{"fields that cannot be kept", func() error { return totals.SetAll(map[string]float64{"f": math.Inf(1)}) }, copal.ErrType, []string{`copal: hash "totals": field "f": value cannot be kept`}},
		{"a field that is updated to what cannot be kept", func() error {
			_, _, err := totals.Update("f", func(e *copal.Entry[float64]) error { e.Value = math.Inf(1); return nil })
			return err
		}, copal.ErrType, []string{`copal: hash "totals": field "f": value cannot be kept`}},
		{"a field that does not fit", func() error { _, err := misread.Load("x"); return err }, copal.ErrType,
			[]string{`copal: hash "hash": the value under key "x", written as json, does not fit bool: it was stored as string`}},
		{"a key that is too long", func() error { return db.Raw().Set(make([]byte, 1<<17), nil) }, copal.ErrTooLarge, []string{"a key of 131072 bytes"}},
		{"a moment to come", func() error { _, err := db.AsOf(time.Now().Add(time.Hour)); return err }, nil, []string{"has not come yet"}},
		{"a record to come", func() error { _, err := db.AsOfSeq(1 << 40); return err }, nil, []string{"there is no record 1099511627776 yet"}},
		{"a moment before the store", func() error { _, err := db.AsOf(time.Unix(1, 0)); return err }, copal.ErrHistoryLost, []string{"copal: the store was made after that moment"}},
		{"a moment before a compaction", func() error { _, err := compacted.AsOfSeq(1); return err }, copal.ErrHistoryLost,
			[]string{"the log has been compacted", "WithHistory keeps one"}},
		{"versions before a compaction", func() (err error) {
			for _, err = range compacted.Raw().History([]byte("k")) {
			}
			return err
		}, copal.ErrHistoryLost, []string{"WithHistory"}},
		{"a moment before the window", func() error { _, err := windowed.AsOf(time.Unix(1, 0)); return err }, copal.ErrHistoryLost,
			[]string{"copal: the window of history begins at ", "with record ", "a longer WithHistory keeps more from now on"}},
		{"a map that is open and is to be dropped", func() error { return db.Drop("counts") }, nil, []string{`map "counts" is open: close it`}},
		{"a write at a snapshot", func() error { return counts.At(s).Set("a", 2) }, copal.ErrSnapshot, []string{"a snapshot does not change"}},
		{"a value of another type", func() error {
			_, err := copal.Load[string](db, "counts:a")
			return err
		}, copal.ErrType, nil},
	} {
		err := c.do()
		if err == nil {
			t.Errorf("%s: no error", c.what)
			continue
		}
		text := err.Error()
		if !strings.HasPrefix(text, "copal: ") || strings.Count(text, "copal: ") > 1 {
			t.Errorf("%s: it does not begin with copal, once: %s", c.what, text)
		}
		if c.is != copal.ErrType && errors.Is(err, copal.ErrType) {
			t.Errorf("%s: it is an ErrType, which is for types: %s", c.what, text)
		}
		if c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: it is not %v: %s", c.what, c.is, text)
		}
		for _, part := range c.says {
			if !strings.Contains(text, part) {
				t.Errorf("%s: it does not say %q: %s", c.what, part, text)
			}
		}
		if said := saidTwice(text); said != "" {
			t.Errorf("%s: it says %q twice: %s", c.what, said, text)
		}
	}
}
