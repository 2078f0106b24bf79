package format

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/vfs"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// The golden store has the bytes that version 1 writes. Every later version opens it
// and finds the entries that are checked here; one that writes other bytes is a change of the
// format, to be made on purpose.
const goldenStore = "../../../testdata/golden/v1/store"

// tick is a clock that a script moves.
type tick struct{ now time.Time }

func (k *tick) Now() time.Time                                 { return k.now }
func (k *tick) After(time.Duration) (<-chan time.Time, func()) { return nil, func() {} }

type goldenUser struct {
	Name    string
	Age     int
	Tags    []string `json:",omitempty"`
	Manager *goldenUser
}

// writeGolden writes the golden store, in two runs and several segments.
func writeGolden(t *testing.T) *vfs.Mem {
	mem := vfs.NewMem()
	mem.SetCacheID("3f0c9a3e-5f3a-41c2-84e5-f6071f0c9a3e/1a")
	clock := &tick{now: time.Date(2024, 2, 29, 12, 30, 0, 250e6, time.UTC)}
	random := uint64(0)
	draw := func() uint64 {
		random += 0x9e3779b97f4a7c15
		return (random ^ random>>31) * 0xbf58476d1ce4e5b9
	}
	open := func() *copal.DB {
		return kit.OpenOn(t, mem, kit.WithInline(), kit.WithClock(clock), kit.WithRandom(draw), kit.WithSegmentBytes(900))
	}
	db := open()
	users := kit.MapOf[string, goldenUser](t, db, "users")
	alice := goldenUser{Name: "Alice", Age: 28}
	kit.MustSet(t, users, "alice", alice)
	clock.now = clock.now.Add(time.Second)
	kit.MustSet(t, users, "bob", goldenUser{Name: "Bob <b@example.org>", Age: 31, Tags: []string{"admin", "日本"}, Manager: &alice})
	kit.MustSet(t, users, "gone", goldenUser{Name: "Gone"})
	kit.MustPut(t, db, "raw", "bytes \x00\xff\n of any kind")
	kit.MustPut(t, db, "", "")
	kit.MustPut(t, db, "line\nfeed", "Sv 0 0 1 0 1 1 k v\n")
	if _, err := users.Delete("gone"); err != nil {
		t.Fatal(err)
	}
	numbers := kit.MapOf[int64, float64](t, db, "numbers: 100%")
	for i := range int64(8) {
		clock.now = clock.now.Add(1234 * time.Millisecond)
		kit.MustSet(t, numbers, i-4, float64(i)/4)
	}
	if err := copal.Set(db, "config", map[string]any{"debug": true, "name": "copal"}); err != nil {
		t.Fatal(err)
	}
	kit.MustClose(t, db)

	clock.now = clock.now.Add(time.Hour)
	db = open()
	blobs := kit.MapOf[[4]byte, []byte](t, db, "blobs", copal.WithCodec(codec.Bytes))
	for i := range byte(12) {
		kit.MustSet(t, blobs, [4]byte{0xde, 0xad, 0, i}, binary.LittleEndian.AppendUint64(nil, draw()))
	}
	days := kit.MapOf[time.Time, string](t, db, "days")
	kit.MustSet(t, days, clock.now, "leap day, an hour later")
	users = kit.MapOf[string, goldenUser](t, db, "users")
	kit.MustSet(t, users, "alice", goldenUser{Name: "Alice", Age: 29})
	kit.MustPut(t, db, "users:carol", `{"Name": "Carol", "Age": 40}`)
	if err := copal.Set(db, "config", map[string]any{"debug": false}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Raw().Delete([]byte("line\nfeed")); err != nil {
		t.Fatal(err)
	}
	if err := users.SetFSync("dave", goldenUser{}); err != nil {
		t.Fatal(err)
	}
	writeGoldenCollections(t, db)
	sessions := kit.MapOf[string, int](t, db, "sessions", copal.ExpiryEvents())
	for i, name := range []string{"expires", "stays"} {
		if err := sessions.SetTTL(name, i, time.Duration(1+i)*time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	clock.now = clock.now.Add(time.Minute)
	kit.MustSet(t, sessions, "expires", 2) // after its end
	kit.MustSet(t, sessions, "stays", 3)
	kit.MustClose(t, db)
	return mem
}

// writeGoldenCollections writes a hash and a list, some of their elements as bytes.
func writeGoldenCollections(t *testing.T, db *copal.DB) {
	t.Helper()
	raw := db.Raw().Hash([]byte("hash"))
	typed := kit.OpenHash[string, float64](t, db, "hash")
	err0 := raw.Set("\x00\xff", []byte("any \x00\xff\n bytes"))
	err1 := raw.Set("", []byte{})
	err2 := typed.Set("pi", 3.25)
	_, _, err3 := raw.Update("updated", func(u *copal.Entry[[]byte]) error { u.Value = []byte("bytes"); return nil })
	err4 := raw.Set("gone", []byte("x"))
	_, err5 := raw.Delete("gone")
	l := db.Raw().List([]byte("list"))
	err6 := l.PushBack([]byte("b \x00\xff\n"), []byte{}, []byte("dropped"))
	err7 := l.PushFront([]byte("a"))
	_, _, err8 := l.PopBack()
	err9 := l.Set(-1, []byte("c"))
	if err := errors.Join(err0, err1, err2, err3, err4, err5, err6, err7, err8, err9); err != nil {
		t.Fatal(err)
	}
}

// wantGolden checks the entries of the golden store.
func wantGolden(t *testing.T, db *copal.DB) {
	t.Helper()
	alice := goldenUser{Name: "Alice", Age: 28}
	users := map[string]goldenUser{
		"alice": {Name: "Alice", Age: 29},
		"bob":   {Name: "Bob <b@example.org>", Age: 31, Tags: []string{"admin", "日本"}, Manager: &alice},
		"carol": {Name: "Carol", Age: 40},
		"dave":  {},
	}
	if got := maps.Collect(kit.MapOf[string, goldenUser](t, db, "users").All()); !reflect.DeepEqual(got, users) {
		t.Errorf("users has %+v, want %+v", got, users)
	}
	numbers := map[int64]float64{-4: 0, -3: 0.25, -2: 0.5, -1: 0.75, 0: 1, 1: 1.25, 2: 1.5, 3: 1.75}
	if got := maps.Collect(kit.MapOf[int64, float64](t, db, "numbers: 100%").All()); !maps.Equal(got, numbers) {
		t.Errorf("numbers has %v, want %v", got, numbers)
	}
	kit.MustClose(t, kit.MapOf[int64, float64](t, db, "numbers: 100%"))
	kit.WantOtherKeys[string, float64](t, db, "numbers: 100%", "int", "bytes")
	blobs := kit.MapOf[[4]byte, []byte](t, db, "blobs", copal.WithCodec(codec.Bytes))
	if v, err := blobs.Load([4]byte{0xde, 0xad, 0, 7}); blobs.Len() != 12 || err != nil || len(v) != 8 {
		t.Errorf("blobs has %d entries, Load = %x, %v", blobs.Len(), v, err)
	}
	day := time.Date(2024, 2, 29, 13, 30, 11, 122e6, time.UTC)
	if got := maps.Collect(kit.MapOf[time.Time, string](t, db, "days").All()); len(got) != 1 || got[day] != "leap day, an hour later" {
		t.Errorf("days has %v", got)
	}
	if got := maps.Collect(kit.MapOf[string, int](t, db, "sessions").All()); !maps.Equal(got, map[string]int{"expires": 2, "stays": 3}) {
		t.Errorf("sessions has %v", got)
	}
	if v, err := copal.Load[map[string]any](db, "config"); err != nil || !reflect.DeepEqual(v, map[string]any{"debug": false}) {
		t.Errorf("config = %v, %v", v, err)
	}
	kit.WantRaw(t, db, "raw", "bytes \x00\xff\n of any kind")
	kit.WantRaw(t, db, "", "")
	kit.WantRaw(t, db, "users:carol", `{"Name": "Carol", "Age": 40}`)
	kit.WantRaw(t, db, "numbers%3a%20100%25:-3", "0.25")
	if has, err := kit.Has(db.Raw(), []byte("line\nfeed")); has || err != nil {
		t.Errorf("Has of a deleted key = %v, %v", has, err)
	}
	hash := map[string]string{}
	for field, value := range db.Raw().Hash([]byte("hash")).All() {
		hash[field] = string(value)
	}
	if want := map[string]string{"": "", "\x00\xff": "any \x00\xff\n bytes", "pi": "3.25", "updated": "bytes"}; !maps.Equal(hash, want) {
		t.Errorf("the hash has %q, want %q", hash, want)
	}
	if pi, ok := kit.OpenHash[string, float64](t, db, "hash").Get("pi"); pi != 3.25 || !ok {
		t.Errorf("pi is %v, %v", pi, ok)
	}
	var list []string
	for value := range db.Raw().List([]byte("list")).Between(0, 10) {
		list = append(list, string(value))
	}
	if want := []string{"a", "b \x00\xff\n", "c"}; !slices.Equal(list, want) {
		t.Errorf("the list has %q, want %q", list, want)
	}
	if n := db.Stats().Keys; n != 32 {
		t.Errorf("%d keys, want 32", n)
	}
}

// goldenFiles returns the files of the golden store, but for the lock.
func goldenFiles(t *testing.T) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(goldenStore)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(goldenStore, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(text)
	}
	return files
}

func TestGoldenStoreIsWritten(t *testing.T) {
	written := kit.ReadFiles(t, writeGolden(t))
	delete(written, "LOCK")
	logs := 0
	for name := range written {
		if kit.IsLog(name) {
			logs++
		}
	}
	if logs < 3 {
		t.Errorf("the golden store has %d segments, want several", logs)
	}
	if *update {
		if err := os.RemoveAll(goldenStore); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(goldenStore, 0o777); err != nil {
			t.Fatal(err)
		}
		for name, text := range written {
			if err := os.WriteFile(filepath.Join(goldenStore, name), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	files := goldenFiles(t)
	kit.WantSameFiles(t, written, files)
	if names := slices.Sorted(maps.Keys(files)); !slices.Contains(names, "MANIFEST") || !slices.Contains(names, "SYNCED") {
		t.Errorf("the golden store has %q", names)
	}
	total := 0
	for name, text := range files {
		total += len(text)
		if strings.Contains(text, "\r\n") {
			t.Errorf("%s: its line ends were changed; see .gitattributes", name)
		}
	}
	if total > 16<<10 {
		t.Errorf("the golden store has %d bytes", total)
	}
}

// The golden store opens on the machine's file system, read-only and for writing, in
// any directory, and goes on.
func TestGoldenStoreOpens(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	if err := os.CopyFS(dir, os.DirFS(goldenStore)); err != nil {
		t.Fatal(err)
	}
	files := goldenFiles(t)
	if report, err := admin.Check(context.Background(), dir, nil); err != nil || report.Keys != 32 {
		t.Errorf("Check = %v, %v", report, err)
	}
	open := func(opts ...copal.Option) *copal.DB {
		t.Helper()
		db, err := copal.Open(dir, opts...)
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	for _, opts := range [][]copal.Option{{copal.ReadOnly()}, nil} {
		db := open(opts...)
		wantGolden(t, db)
		kit.MustClose(t, db)
		for name, text := range files {
			if now, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(now) != text {
				t.Errorf("opening and closing changed %s: %v", name, err)
			}
		}
	}
	db := open()
	users := kit.MapOf[string, goldenUser](t, db, "users")
	kit.MustSet(t, users, "erin", goldenUser{Name: "Erin"})
	kit.MustSet(t, users, "alice", goldenUser{Name: "Alice", Age: 30})
	kit.MustClose(t, db)
	db = open()
	defer db.Close()
	users = kit.MapOf[string, goldenUser](t, db, "users")
	if v, err := users.Load("alice"); err != nil || v.Age != 30 || users.Len() != 5 {
		t.Errorf("Load = %+v, %v; Len = %d", v, err, users.Len())
	}
	if v, err := users.Load("bob"); err != nil || v.Manager == nil || v.Manager.Age != 28 {
		t.Errorf("Load = %+v, %v", v, err)
	}
	if report, err := admin.Check(context.Background(), dir, nil); err != nil || report.Keys != 33 {
		t.Errorf("Check = %v, %v", report, err)
	}
}
