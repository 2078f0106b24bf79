package importers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/tidwall/buntdb"
	bolt "go.etcd.io/bbolt"

	"github.com/copaldb/copal/internal/ndjson"
)

// got has the items that a format has read.
type got struct {
	entries map[string]string
	expires map[string]time.Time
	items   int
	bad     []*ndjson.LineError
	notes   []string
}

// readAll reads a source as an import with --skip-bad does.
func readAll(t testing.TB, name string, s Source) (*got, error) {
	t.Helper()
	f, ok := Named(name)
	if !ok {
		t.Fatalf("there is no format %q", name)
	}
	g := &got{entries: map[string]string{}, expires: map[string]time.Time{}}
	s.Ctx = t.Context()
	s.Bad = func(e *ndjson.LineError) error { g.bad = append(g.bad, e); return nil }
	s.Note = func(text string) { g.notes = append(g.notes, text) }
	err := f.Read(&s, func(item *Item) error {
		if item.Map != "" {
			return nil
		}
		g.items++
		delete(g.expires, string(item.Key))
		if item.Delete {
			delete(g.entries, string(item.Key))
			return nil
		}
		g.entries[string(item.Key)] = string(item.Value)
		if !item.Expires.IsZero() {
			g.expires[string(item.Key)] = item.Expires
		}
		return nil
	})
	return g, err
}

func mustRead(t testing.TB, name string, s Source) *got {
	t.Helper()
	g, err := readAll(t, name, s)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return g
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantEntries(t testing.TB, g *got, want map[string]string) {
	t.Helper()
	if !maps.Equal(g.entries, want) {
		t.Errorf("%d entries, want %d: %.500q, want %.500q", len(g.entries), len(want), g.entries, want)
	}
}

// sample returns keys and values of all bytes.
func sample(n int) map[string]string {
	all := map[string]string{"k": "", "\x00\xff:\n": "\xff\x00", "users:alice": `{"Name":"Alice"}`, "large": strings.Repeat("0123456789", 30_000)}
	for i := range n {
		all[fmt.Sprintf("key %06d", i*7919%n)] = fmt.Sprintf(`{"n":%d}`, i)
	}
	return all
}

func TestBbolt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "old.bolt")
	db, err := bolt.Open(file, 0o600, &bolt.Options{NoSync: true})
	check(t, err)
	want := map[string]string{}
	check(t, db.Update(func(tx *bolt.Tx) error {
		for _, name := range []string{"users", "a:b\xff"} {
			b, err := tx.CreateBucket([]byte(name))
			check(t, err)
			for k, v := range sample(1000) {
				check(t, b.Put([]byte(k), []byte(v)))
				want[strings.NewReplacer(":", "%3a", "\xff", "%ff").Replace(name)+":"+k] = v
			}
		}
		_, err := tx.CreateBucket([]byte("empty"))
		return err
	}))
	check(t, db.Close())
	before, err := os.ReadFile(file)
	check(t, err)
	if f, err := Detect(file, before[:HeadBytes]); err != nil || f.Name != "bbolt" {
		t.Errorf("it is taken for %q, %v", f.Name, err)
	}
	g := mustRead(t, "bbolt", Source{Path: file})
	wantEntries(t, g, want)
	if g.items != len(want) {
		t.Errorf("%d items for %d entries", g.items, len(want))
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file has changed: %v", err)
	}

	db, err = bolt.Open(file, 0o600, &bolt.Options{NoSync: true})
	check(t, err)
	check(t, db.Update(func(tx *bolt.Tx) error {
		inner, err := tx.Bucket([]byte("users")).CreateBucket([]byte("inner")) // after the entries of another bucket
		check(t, err)
		return inner.Put([]byte("k"), []byte("v"))
	}))
	if _, err := readAll(t, "bbolt", Source{Path: file}); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("while it is open for writing: %v", err)
	}
	check(t, db.Close())
	if g, err := readAll(t, "bbolt", Source{Path: file}); err == nil || g.items > 0 || !strings.Contains(err.Error(), `"inner" is in bucket "users"; with --nested / it is imported as "users/inner"`) {
		t.Errorf("a nested bucket: %v", err)
	}
	want["users/inner:k"] = "v"
	wantEntries(t, mustRead(t, "bbolt", Source{Path: file, Nested: "/"}), want)
}

// A damaged file ends in an error, not in a panic.
func TestBboltDamaged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "old.bolt")
	db, err := bolt.Open(file, 0o600, &bolt.Options{NoSync: true})
	check(t, err)
	check(t, db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket([]byte("users"))
		check(t, err)
		for k, v := range sample(2000) {
			check(t, b.Put([]byte(k), []byte(v)))
		}
		return nil
	}))
	check(t, db.Close())
	b, err := os.ReadFile(file)
	check(t, err)
	for i := 3 * os.Getpagesize(); i < len(b); i++ {
		b[i] ^= 0x5a
	}
	check(t, os.WriteFile(file, b, 0o600))
	if _, err := readAll(t, "bbolt", Source{Path: file}); err == nil {
		t.Error("it is read without an error")
	}
}

func TestBadger(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the library cannot open read-only here")
	}
	dir := filepath.Join(t.TempDir(), "old")
	options := badger.DefaultOptions(dir).WithLogger(nil).WithSyncWrites(false).WithMemTableSize(8 << 20).WithValueLogFileSize(16 << 20).WithNumVersionsToKeep(2)
	db, err := badger.Open(options)
	check(t, err)
	want := sample(1000)
	deadline := time.Now().Add(time.Hour).Truncate(time.Second)
	batch := db.NewWriteBatch()
	for k := range want {
		check(t, batch.Set([]byte(k), []byte("an older value")))
	}
	check(t, batch.Flush())
	batch = db.NewWriteBatch()
	for k, v := range want {
		e := badger.NewEntry([]byte(k), []byte(v))
		if k == "users:alice" {
			e.ExpiresAt = uint64(deadline.Unix())
			e.UserMeta = 7
		}
		check(t, batch.SetEntry(e))
	}
	check(t, batch.Set([]byte("gone"), nil))
	check(t, batch.Flush())
	check(t, db.Update(func(tx *badger.Txn) error { return tx.Delete([]byte("gone")) }))
	check(t, db.Close())
	if f, err := DetectDir(dir); err != nil || f.Name != "badger" {
		t.Errorf("it is taken for %q, %v", f.Name, err)
	}
	g := mustRead(t, "badger", Source{Path: dir})
	wantEntries(t, g, want)
	if len(g.expires) != 1 || !g.expires["users:alice"].Equal(deadline) {
		t.Errorf("deadlines %v, want %v", g.expires, deadline)
	}
	if len(g.notes) != 1 || !strings.Contains(g.notes[0], "1 entries have a user meta byte") {
		t.Errorf("notes %q", g.notes)
	}
	wantEntries(t, mustRead(t, "badger", Source{Path: dir}), want) // the import has left it unchanged
}

func TestBuntdb(t *testing.T) {
	file := filepath.Join(t.TempDir(), "old.bunt")
	db, err := buntdb.Open(file)
	check(t, err)
	want := sample(1000)
	least := time.Now().Add(time.Hour)
	check(t, db.Update(func(tx *buntdb.Tx) error {
		for k, v := range want {
			_, _, err := tx.Set(k, "an older value", nil)
			check(t, err)
			var options *buntdb.SetOptions
			if k == "users:alice" {
				options = &buntdb.SetOptions{Expires: true, TTL: time.Hour}
			}
			_, _, err = tx.Set(k, v, options)
			check(t, err)
		}
		_, _, err := tx.Set("gone", "", nil)
		check(t, err)
		_, err = tx.Delete("gone")
		return err
	}))
	most := time.Now().Add(time.Hour)
	check(t, db.Close())
	whole, err := os.ReadFile(file)
	check(t, err)
	if f, err := Detect(file, whole[:HeadBytes]); err != nil || f.Name != "buntdb" {
		t.Errorf("it is taken for %q, %v", f.Name, err)
	}
	g := mustRead(t, "buntdb", Source{Path: file, In: bytes.NewReader(whole)})
	wantEntries(t, g, want)
	if at := g.expires["users:alice"]; len(g.expires) != 1 || at.Nanosecond() != 0 || at.Before(least.Add(-2*time.Second)) || at.After(most.Add(2*time.Second)) || len(g.bad) > 0 {
		t.Errorf("deadlines %v, want one from %v to %v, in seconds; %v", g.expires, least, most, g.bad)
	}

	// An incomplete end after a crash is reported, and not cut off.
	add := "*3\r\n$3\r\nset\r\n$4\r\nlast\r\n$5\r\nval"
	g = mustRead(t, "buntdb", Source{Path: file, In: strings.NewReader(string(whole) + add)})
	wantEntries(t, g, want)
	if len(g.bad) != 1 || !g.bad[0].Last || g.bad[0].Offset != int64(len(whole)) {
		t.Errorf("the last command is cut: %v, want offset %d", g.bad, len(whole))
	}
	if _, err := readAll(t, "buntdb", Source{In: strings.NewReader("*3\r\n$3\r\nset\r\n$1\r\na\r\n$1\r\nb\r\nnonsense\r\n" + string(whole))}); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a damaged file: %v", err)
	}
	if _, err := readAll(t, "buntdb", Source{In: strings.NewReader("*1\r\n$0\r\n\r\n")}); err == nil {
		t.Error("a command without a name is read without an error")
	}
}

// A deadline of an old version counts from the time of the file.
func TestBuntdbRelativeDeadline(t *testing.T) {
	file := filepath.Join(t.TempDir(), "old.bunt")
	check(t, os.WriteFile(file, []byte("*5\r\n$3\r\nset\r\n$1\r\na\r\n$1\r\nb\r\n$2\r\nex\r\n$4\r\n7200\r\n"), 0o666))
	at := time.Now().Add(-time.Hour).Truncate(time.Second)
	check(t, os.Chtimes(file, at, at))
	f, err := os.Open(file)
	check(t, err)
	defer f.Close()
	g := mustRead(t, "buntdb", Source{Path: file, In: f})
	if got := g.expires["a"]; !got.Equal(at.Add(2 * time.Hour)) {
		t.Errorf("the deadline is %v, want %v", got, at.Add(2*time.Hour))
	}
}

const log = "go-persist 1\n" +
	"S users:a\n{\"Name\":\"A\"}\n" +
	"S key with spaces: \xff\n[1, 2]\n" +
	"D users:a\n\n" +
	"S system_config\n\"x\"\n" +
	"S users:a\n{\"Name\":\"A2\"}\n" +
	"D nobody\n\n"

func TestPersist(t *testing.T) {
	if f, err := Detect("", []byte(log)); err != nil || f.Name != "go-persist" {
		t.Errorf("it is taken for %q, %v", f.Name, err)
	}
	g := mustRead(t, "go-persist", Source{In: strings.NewReader(log)})
	wantEntries(t, g, map[string]string{"users:a": `{"Name":"A2"}`, "key with spaces: \xff": "[1, 2]", "system_config": `"x"`})
	if g.items != 6 || len(g.bad) > 0 {
		t.Errorf("%d items, %v", g.items, g.bad)
	}
	long := strings.Repeat("x", 1<<20)
	g = mustRead(t, "go-persist", Source{In: strings.NewReader(log + "S long\n\"" + long + "\"\n"), Prefix: []byte("m:")})
	if g.entries["m:long"] != `"`+long+`"` || len(g.entries) != 4 {
		t.Errorf("a long line: %d bytes", len(g.entries["m:long"]))
	}
}

// A log that is cut anywhere gives the whole records, and the position of the rest.
func TestPersistCutAtEveryByte(t *testing.T) {
	var ends []int // of records
	for at, n := len(persistHeader)+1, 0; at < len(log); n++ {
		at += strings.IndexByte(log[at:], '\n') + 1
		if n%2 == 1 {
			ends = append(ends, at)
		}
	}
	for cut := len(persistHeader) + 1; cut <= len(log); cut++ {
		g := mustRead(t, "go-persist", Source{In: strings.NewReader(log[:cut])})
		want, end := 0, len(persistHeader)+1
		for want < len(ends) && ends[want] <= cut {
			end = ends[want]
			want++
		}
		switch {
		case g.items != want:
			t.Fatalf("cut at %d: %d records, want %d", cut, g.items, want)
		case end == cut && len(g.bad) > 0:
			t.Fatalf("cut at %d, behind a record: %v", cut, g.bad)
		case end < cut && (len(g.bad) != 1 || !g.bad[0].Last || g.bad[0].Offset != int64(end)):
			t.Fatalf("cut at %d: %v, want one at %d", cut, g.bad, end)
		}
	}
	for cut := range len(persistHeader) {
		if _, err := readAll(t, "go-persist", Source{In: strings.NewReader(log[:cut])}); err == nil {
			t.Fatalf("a first line of %d bytes is taken for one", cut)
		}
	}
}

func TestPersistDamaged(t *testing.T) {
	for _, test := range []struct {
		text string
		rest Source
		want map[string]string
		bad  []int64 // lines
	}{
		{"S a\n1\nINVALID\ngarbage\nS b\n2\n", Source{}, map[string]string{"a": "1", "b": "2"}, []int64{4}},
		{"S a\nS b\n2\n", Source{}, map[string]string{"b": "2"}, []int64{2}},                 // the value is missing
		{"S a\n1\n2\nS b\n3\n", Source{}, map[string]string{"a": "1", "b": "3"}, []int64{4}}, // the head is
		{"S a\nplain\nS b\n2\n", Source{}, map[string]string{"b": "2"}, []int64{2}},
		{"S a\nplain \"x\"\nS b\n2\n", Source{Text: true}, map[string]string{"a": `"plain \"x\""`, "b": "2"}, nil},
		{"S a\nS b\n2\n", Source{Text: true}, map[string]string{"b": "2"}, []int64{2}},
		{"S a\n1\nD a\n1\n", Source{}, map[string]string{"a": "1"}, []int64{4}},
		{"X a\n1\nS b\n2\n", Source{}, map[string]string{"b": "2"}, []int64{2}},
	} {
		s := test.rest
		s.In = strings.NewReader(persistHeader + "\n" + test.text)
		g := mustRead(t, "go-persist", s)
		var lines []int64
		for _, e := range g.bad {
			lines = append(lines, e.Line)
		}
		if !maps.Equal(g.entries, test.want) || !slices.Equal(lines, test.bad) {
			t.Errorf("%q: %q, %v; want %q, %d", test.text, g.entries, g.bad, test.want, test.bad)
		}
	}
}

func TestCSV(t *testing.T) {
	const table = "\xef\xbb\xbfid,\"the \"\"name\"\"\",n\r\n1,\"a\nb\",1e3\r\n\xff,x,y\r\n2,<&>,007\r\n3,x\r\n4,,-0.5\r\n"
	g := mustRead(t, "csv", Source{In: strings.NewReader(table), Key: "id", Prefix: []byte("m:"), Numbers: true})
	wantEntries(t, g, map[string]string{
		"m:1": `{"id":1,"the \"name\"":"a\nb","n":1e3}`,
		"m:2": `{"id":2,"the \"name\"":"<&>","n":"007"}`,
		"m:4": `{"id":4,"the \"name\"":"","n":-0.5}`,
	})
	if len(g.bad) != 2 || g.bad[0].Line != 4 || g.bad[1].Line != 6 || g.bad[1].Offset != int64(strings.Index(table, "3,x")) || g.bad[1].Last {
		t.Errorf("%v", g.bad)
	}
	for _, v := range g.entries {
		if !json.Valid([]byte(v)) {
			t.Errorf("%s", v)
		}
	}
	g = mustRead(t, "csv", Source{In: strings.NewReader("k;v\na;\"b"), Key: "k", Comma: ';'})
	if len(g.bad) != 1 || !g.bad[0].Last || g.bad[0].Offset != 4 || g.items != 0 {
		t.Errorf("a row that is cut: %v, %q", g.bad, g.entries)
	}
	g = mustRead(t, "csv", Source{In: strings.NewReader("k,v\na,12"), Key: "k"})
	if len(g.notes) != 1 || g.entries["a"] != `{"k":"a","v":"12"}` {
		t.Errorf("a row without an end: %q, %q", g.notes, g.entries)
	}
	for text, want := range map[string]string{"": "no row of names", "a,a\n": "two columns", "b\n": `no column "a"`, "\"\n": "", "a,\xff\n": "not UTF-8"} {
		if _, err := readAll(t, "csv", Source{In: strings.NewReader(text), Key: "a"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestLines(t *testing.T) {
	const text = "\xef\xbb\xbf{\"id\":\"a\\u00e9\",\"x\":1}\r\n\n {\"id\":12.50} \n{\"x\":1}\n[1]\n{\"id\":null}\n{\"id\":{}}\n{\"id\":true}\n{\"id\":\"cut"
	g := mustRead(t, "jsonl", Source{In: strings.NewReader(text), Key: "id"})
	wantEntries(t, g, map[string]string{"aé": `{"id":"a\u00e9","x":1}`, "12.50": `{"id":12.50}`, "true": `{"id":true}`})
	var lines []int64
	for _, e := range g.bad {
		lines = append(lines, e.Line)
	}
	if !slices.Equal(lines, []int64{4, 5, 6, 7, 9}) || !g.bad[4].Last || g.bad[0].Last {
		t.Errorf("%v", g.bad)
	}
	g = mustRead(t, "jsonl", Source{In: strings.NewReader("{\"key\":\"a\",\"value\":1}\n\n{\"key\":\"b\",\"text\":\"x\"}"), Prefix: []byte("m:")})
	wantEntries(t, g, map[string]string{"m:a": "1", "m:b": "x"})
	if len(g.bad) > 0 {
		t.Errorf("%v", g.bad)
	}
}

// An error of the caller that takes the items ends the reading, which returns it.
func TestErrorsArePassedOn(t *testing.T) {
	enough := errors.New("enough")
	for name, text := range map[string]string{
		"copal": "{\"copal\":\"export\",\"version\":1,\"seq\":1,\"time\":1}\n{\"key\":\"a\",\"value\":1}\n", "jsonl": `{"key":"a","value":1}`, "csv": "a\n1\n",
		"go-persist": log, "buntdb": "*3\r\n$3\r\nset\r\n$1\r\na\r\n$1\r\nb\r\n",
	} {
		f, _ := Named(name)
		s := Source{In: strings.NewReader(text)}
		if name == "csv" {
			s.Key = "a"
		}
		if err := f.Read(&s, func(*Item) error { return enough }); !errors.Is(err, enough) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDetect(t *testing.T) {
	for head, want := range map[string]string{
		`{"copal":"export"`: "copal", `{"copal":`: "copal", "go-persist 1\nS": "go-persist", " \n{\"a\":1}": "jsonl", "*2\r\n$3\r\ndel": "buntdb",
		"a,b\n": "", "": "", "\x00": "",
	} {
		if f, _ := Detect("", []byte(head)); f.Name != want {
			t.Errorf("%q is taken for %q", head, f.Name)
		}
	}
	if f, err := Detect("x.CSV", []byte("a,b")); err != nil || f.Name != "csv" {
		t.Errorf("x.CSV: %q, %v", f.Name, err)
	}
	if _, err := Detect("", []byte("a,b")); !errors.Is(err, ErrUnknown) {
		t.Errorf("%v", err)
	}
	if _, err := DetectDir(t.TempDir()); !errors.Is(err, ErrUnknown) {
		t.Errorf("an empty directory: %v", err)
	}
}

func FuzzPersist(f *testing.F) {
	f.Add([]byte(log), false)
	f.Add([]byte(log+"S x\nS y\n1\nfoo\n\nD z"), true)
	f.Fuzz(func(t *testing.T, in []byte, text bool) {
		g, err := readAll(t, "go-persist", Source{In: bytes.NewReader(in), Text: text})
		if err != nil {
			return
		}
		for _, v := range g.entries {
			if !json.Valid([]byte(v)) {
				t.Fatalf("the value %q", v)
			}
		}
		// Written back, the entries are read again.
		out := bytes.NewBufferString(persistHeader + "\n")
		for k, v := range g.entries {
			fmt.Fprintf(out, "S %s\n%s\n", k, v)
		}
		again := mustRead(t, "go-persist", Source{In: out})
		if !maps.Equal(g.entries, again.entries) || len(again.bad) > 0 {
			t.Fatalf("%q, and again %q, %v", g.entries, again.entries, again.bad)
		}
		for i, e := range g.bad {
			if e.Offset < 0 || e.Offset > int64(len(in)) || e.Last && i < len(g.bad)-1 {
				t.Fatalf("%v", g.bad)
			}
		}
	})
}

func FuzzCSV(f *testing.F) {
	f.Add([]byte("id,a\n1,2\n\"x\"\"\",\"\n\"\n"), "id", true)
	f.Add([]byte("k;v\n\xff;1\nb"), "k", false)
	f.Fuzz(func(t *testing.T, in []byte, key string, numbers bool) {
		g, err := readAll(t, "csv", Source{In: bytes.NewReader(in), Key: key, Numbers: numbers})
		if err != nil {
			return
		}
		for k, v := range g.entries {
			var fields map[string]any
			d := json.NewDecoder(strings.NewReader(v))
			d.UseNumber()
			if err := d.Decode(&fields); err != nil || fmt.Sprint(fields[key]) != k {
				t.Fatalf("key %q has %s: %v, %v", k, v, fields[key], err)
			}
		}
	})
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("{\"id\":\"a\",\"x\":1}\n{\"id\":1}\n\n[]\n{\"id\":tr"), "id")
	f.Fuzz(func(t *testing.T, in []byte, key string) {
		g, err := readAll(t, "jsonl", Source{In: bytes.NewReader(in), Key: key})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range g.entries {
			if key != "" && !json.Valid([]byte(v)) {
				t.Fatalf("the value %q", v)
			}
		}
	})
}

// A directory after a crash is distinguished from a closed one, and the error says how to go on.
func TestBadgerAfterACrash(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the library cannot open read-only here")
	}
	base := t.TempDir()
	dir, crashed := filepath.Join(base, "old"), filepath.Join(base, "crashed")
	db, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil).WithMemTableSize(8 << 20).WithValueLogFileSize(16 << 20))
	check(t, err)
	check(t, db.Update(func(tx *badger.Txn) error { return tx.Set([]byte("k"), []byte("v")) }))
	check(t, os.CopyFS(crashed, os.DirFS(dir))) // the directory after a kill
	check(t, os.Remove(filepath.Join(crashed, "LOCK")))
	check(t, db.Close())
	if _, err = readAll(t, "badger", Source{Path: crashed}); err == nil || !strings.Contains(err.Error(), "a crash has left it") || !strings.Contains(err.Error(), "close it, and import it then") {
		t.Errorf("the error is %v", err)
	}
}
