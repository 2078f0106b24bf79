package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/exporting"
	"github.com/copaldb/copal/cmd/copal/internal/importing"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/ndjson"
)

// command runs a command line in this process.
func command(in io.Reader, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = carryOut(cli.NewApp(in, &out, &errs), args)
	return code, out.String(), errs.String()
}

func mustCommand(t testing.TB, in io.Reader, args ...string) string {
	t.Helper()
	code, out, errs := command(in, args...)
	if code != 0 {
		t.Fatalf("copal %q: exit code %d: %s", args, code, errs)
	}
	return out
}

type moved struct {
	Name  string
	Bytes []byte
	Map   map[string]int
	Next  *moved
	At    time.Time
	F     float64
}

func openForTest(t testing.TB, dir string) *copal.DB {
	t.Helper()
	db, err := copal.Open(dir, copal.WithSyncInterval(time.Hour), copal.WithErrorHandler(func(err error) { t.Errorf("error handler: %v", err) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// contentOf returns the content of a store, without sequence numbers and times.
func contentOf(t testing.TB, dir string) (list []admin.Entry) {
	t.Helper()
	db := openForTest(t, dir)
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range admin.Entries(s, nil, nil) {
		if err != nil {
			t.Fatal(err)
		}
		e.Seq, e.Time = 0, time.Time{}
		list = append(list, e)
		for el, err := range admin.Elements(s, e.Key) {
			if err != nil && e.Collection != "" {
				t.Fatal(err)
			}
			if e.Collection != "" {
				list = append(list, admin.Entry{Key: el.Name, Value: el.Value, Codec: el.Codec, Schema: el.Schema})
			}
		}
	}
	if err := errors.Join(s.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
	return list
}

func randomBytes(rnd *rand.Rand, n int) []byte {
	b := make([]byte, n)
	switch rnd.IntN(4) {
	case 0:
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
	case 1:
		for i := range b {
			b[i] = "abc é\n\"\\\t\x00{}[],:1"[rnd.IntN(18)]
		}
	case 2:
		copy(b, `"`+strings.Repeat("x", max(n-2, 0))+`"`)
	default:
		copy(b, strings.Repeat("日本", n/6+1))
	}
	return b
}

// fillForMoving puts into a store entries of every codec, raw ones of the given sizes under keys of
// any bytes, and deadlines.
func fillForMoving(t testing.TB, db *copal.DB, rnd *rand.Rand, fields int, sizes []int) map[string]moved {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	values := map[string]moved{}
	for _, c := range []codec.Codec{codec.JSON, codec.Binary} {
		m, err := copal.OpenMap[string, moved](db, c.Name()+":\xff", copal.WithCodec(c))
		check(err)
		for i := range 30 {
			v := moved{Name: fmt.Sprint("name ", i), Bytes: []byte{byte(i), 0xff}, Map: map[string]int{"x": i}, At: time.Unix(int64(i), 5).UTC(), F: float64(i) / 3}
			if i%2 == 0 {
				v.Next = &moved{Name: "next", Bytes: []byte{1}, Map: map[string]int{"y": 1}}
			}
			key := fmt.Sprintf("%s %d", c.Name(), i)
			values[key] = v
			if i%3 == 0 {
				check(m.SetTTL(key, v, time.Duration(1+i)*time.Hour))
			} else {
				check(m.Set(key, v))
			}
		}
	}
	for _, c := range []struct {
		key    string
		fields int
	}{{"a hash", 3}, {"users:hash", fields}} {
		h, err := copal.OpenHash[string, moved](db, c.key)
		check(err)
		fields := map[string]moved{"": {Name: "empty"}, "\xff:": {Bytes: []byte{0}}}
		for i := range c.fields {
			fields[fmt.Sprint("field ", i)] = moved{Name: fmt.Sprint(i)}
		}
		check(h.SetAll(fields))
		if c.fields == 3 {
			check(db.Raw().Expire([]byte(c.key), time.Hour))
		}
	}
	check(copal.Set(db, "a single value", moved{Name: "single", Map: map[string]int{}, Bytes: []byte{}}))
	for i, n := range sizes {
		key := append(randomBytes(rnd, rnd.IntN(40)), byte(i), byte(i>>8))
		if i%3 == 0 {
			check(db.Raw().SetTTL(key, randomBytes(rnd, n), time.Duration(1+rnd.IntN(1e9))*time.Millisecond+time.Hour))
		} else {
			check(db.Raw().Set(key, randomBytes(rnd, n)))
		}
	}
	check(db.Raw().Set(bytes.Repeat([]byte{0xff}, copal.MaxKeyBytes), []byte("the longest key")))
	check(db.Raw().Set(nil, nil))
	return values
}

// An export, imported, is the same by content: keys and values of any bytes, deadlines, each codec,
// small and large.
func TestExportThenImport(t *testing.T) {
	rnd := rand.New(rand.NewPCG(20, 26))
	sizes := []int{0, 1, 2, 3, 127, 128, 4095, 65_536, 1<<20 - 1, 1 << 20, 1<<20 + 1, 5 << 20}
	for range 200 {
		sizes = append(sizes, rnd.IntN(600))
	}
	if os.Getenv("COPAL_LONG") != "" {
		sizes = append(sizes, 16<<20, 64<<20-1, 64<<20, 64<<20+1, 100<<20)
		for range 20_000 {
			sizes = append(sizes, rnd.IntN(100_000)*rnd.IntN(2)+rnd.IntN(300))
		}
	}
	dir := t.TempDir()
	from, to, file := filepath.Join(dir, "from"), filepath.Join(dir, "to"), filepath.Join(dir, "dump.ndjson")
	db := openForTest(t, from)
	values := fillForMoving(t, db, rnd, 5000, sizes)
	mustCommand(t, nil, "export", from, file) // beside the process that writes
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mustCommand(t, f, "import", to)

	want, got := contentOf(t, from), contentOf(t, to)
	if n := len(values) + 1 + len(sizes) + 2 + (1 + 5) + (1 + 5002); len(want) != n || len(got) != n {
		t.Fatalf("%d entries and elements came of %d, and %d were written", len(got), len(want), n)
	}
	for i := range want {
		if !reflect.DeepEqual(want[i], got[i]) {
			t.Fatalf("entry %d: %.80q %q %q %v, %d bytes; want %.80q %q %q %v, %d bytes", i, got[i].Key, got[i].Codec, got[i].Schema, got[i].Expires, len(got[i].Value),
				want[i].Key, want[i].Codec, want[i].Schema, want[i].Expires, len(want[i].Value))
		}
	}
	wantMoved(t, to, values)
}

// wantMoved reads the values as the program does that has written them.
func wantMoved(t *testing.T, dir string, values map[string]moved) {
	t.Helper()
	db := openForTest(t, dir)
	defer db.Close()
	if found := maps.Collect(db.Maps()); len(found) != 2 {
		t.Errorf("the maps are %v", found)
	}
	for _, c := range []codec.Codec{codec.JSON, codec.Binary} {
		m, err := copal.OpenMap[string, moved](db, c.Name()+":\xff", copal.WithCodec(c))
		if err != nil {
			t.Fatal(err)
		}
		if m.Len() != 30 {
			t.Errorf("map %s has %d entries", c.Name(), m.Len())
		}
		for key, got := range m.All() {
			if !reflect.DeepEqual(got, values[key]) {
				t.Errorf("%q is %+v, want %+v", key, got, values[key])
			}
		}
	}
}

// stopAfter is a context that ends when it has been asked so many times.
type stopAfter struct {
	context.Context
	asked, most int
}

func (c *stopAfter) Err() error {
	if c.asked++; c.asked > c.most {
		return context.Canceled
	}
	return nil
}

func sameContent(t *testing.T, a, b string) {
	t.Helper()
	if x, y := contentOf(t, a), contentOf(t, b); !reflect.DeepEqual(x, y) {
		t.Errorf("%s has %d entries, %s has %d, and they differ", a, len(x), b, len(y))
	}
}

// An export and an import that are interrupted anywhere are continued, and the result is the same.
func TestInterruptedAndContinued(t *testing.T) {
	defer func(n int) { importing.BatchEntries = n }(importing.BatchEntries)
	importing.BatchEntries = 7
	dir := t.TempDir()
	from, to, file := filepath.Join(dir, "from"), filepath.Join(dir, "to"), filepath.Join(dir, "dump.ndjson")
	db := openForTest(t, from)
	fillForMoving(t, db, rand.New(rand.NewPCG(3, 4)), 50, []int{3, 2 << 20, 100, 3 << 20, 7})
	n := db.Raw().Len()
	for run := 0; ; run++ {
		x := &exporting.Export{App: appUntil(31 * (run + 1)), Flags: exporting.Flags{Again: run > 0}}
		err := x.Parse(false)
		if err == nil {
			err = x.Run(cli.Source{DB: db}, file, bufio.NewWriter(io.Discard))
		}
		if err == nil {
			if run < 2 || x.Result.Entries != int64(n) {
				t.Errorf("%d of %d entries were exported after %d interruptions", x.Result.Entries, n, run)
			}
			break
		}
		if !errors.Is(err, cli.ErrInterrupted) || !strings.Contains(err.Error(), "--continue goes on there") || cli.Exists(file) {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = openForTest(t, to) // entries under the same keys are replaced
	for _, key := range []string{"a hash", "users:hash", "a single value"} {
		h, err := copal.OpenHash[string, int](db, key)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Set("old", 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(db.Raw().Set([]byte("users:hash"), []byte("old")), db.Close()); err != nil {
		t.Fatal(err)
	}
	for run := 0; ; run++ {
		in := &importing.Intake{App: appUntil(31 * (run + 1)), Flags: importing.Flags{Resume: run > 0}, Dir: to, Path: file}
		db := openForTest(t, to)
		err := in.Open()
		if err == nil {
			err = in.Into(db)
		}
		in.Close()
		if closed := db.Close(); closed != nil {
			t.Fatal(closed)
		}
		if err == nil {
			if run < 2 || in.Result.Resumed == 0 || in.Result.Resumed+in.Result.Entries != int64(n) {
				t.Errorf("it was resumed %d times; in the end %+v of %d", run, in.Result, n)
			}
			break
		}
		if !errors.Is(err, cli.ErrInterrupted) || !strings.Contains(err.Error(), "--resume goes on there") || run > 2*n || !cli.Exists(filepath.Join(to, importing.ProgressName)) {
			t.Fatal(err)
		}
	}
	if cli.Exists(filepath.Join(to, importing.ProgressName)) {
		t.Errorf("%s is left", importing.ProgressName)
	}
	sameContent(t, from, to)
}

// The elements of a collection replace the old content of its key wherever the import was
// interrupted, between the line of the collection and the first of them, too.
func TestInterruptedAtACollection(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "lines.jsonl")
	const lines = `{"key":"h","value":"is no hash in the end"}
{"key":"h","collection":"hash","elements":2}
{"element":"a","value":1}
{"element":"b","value":2}
{"key":"z","value":3}
`
	if err := os.WriteFile(file, []byte(lines), 0o666); err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(dir, "want")
	mustCommand(t, nil, "import", want, file)
	if list := contentOf(t, want); len(list) != 4 || list[0].Collection != "hash" {
		t.Fatalf("%+v", list)
	}
	for n := range 5 {
		to := filepath.Join(dir, fmt.Sprint("to", n))
		for run := range 2 {
			a := appUntil(n)
			if run == 1 {
				a.Ctx = context.Background()
			}
			in := &importing.Intake{App: a, Flags: importing.Flags{Resume: run > 0}, Dir: to, Path: file}
			db := openForTest(t, to)
			if run == 0 {
				if err := db.Raw().Set([]byte("h"), []byte("old")); err != nil {
					t.Fatal(err)
				}
			}
			if err := in.Open(); err != nil {
				t.Fatal(err)
			}
			err := in.Into(db)
			in.Close()
			if closed := db.Close(); closed != nil || (run == 0) != errors.Is(err, cli.ErrInterrupted) || run == 1 && err != nil {
				t.Fatalf("interrupted after %d, run %d: %v, %v", n, run, err, closed)
			}
		}
		sameContent(t, want, to)
	}
}

// appUntil returns a command that is interrupted after so many entries.
func appUntil(n int) *cli.App {
	a := cli.NewApp(strings.NewReader(""), io.Discard, io.Discard)
	a.Ctx = &stopAfter{Context: a.Ctx, most: n}
	return a
}

// writeFirst does something before each write.
type writeFirst struct {
	io.Writer
	first func()
}

func (w writeFirst) Write(p []byte) (int, error) {
	w.first()
	return w.Writer.Write(p)
}

// Beside a process that writes, an export is the store at one moment: entries that are changed
// together are together in it.
func TestExportIsOneMoment(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "live")
	db := openForTest(t, dir)
	const keys = 50
	n := 0
	write := func() {
		n++
		b := db.Raw().Batch()
		for k := range keys {
			b.Set(fmt.Appendf(nil, "key %02d", k), fmt.Appendf(nil, "%05000d", n))
		}
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	write()
	var out bytes.Buffer
	if code := carryOut(cli.NewApp(nil, writeFirst{&out, write}, io.Discard), []string{"export", dir}); code != 0 || n < 4 {
		t.Fatalf("exit code %d, and %d batches were written beside it", code, n-1)
	}
	values, entries := map[string]bool{}, 0
	for r := ndjson.NewReader(&out); ; {
		l, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if l.Kind == ndjson.Entry {
			values[string(l.Entry.Value)] = true
			entries++
		}
	}
	if entries != keys || len(values) != 1 {
		t.Errorf("%d entries have %d values", entries, len(values))
	}
}
