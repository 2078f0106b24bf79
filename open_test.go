package copal_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/vfs"
)

// Open creates the directory, and its parents.
func TestOpenCreates(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b", "app.db")
	for i := range 3 {
		db, err := copal.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		m := mapOf[int, int](t, db, "m")
		if m.Len() != i {
			t.Errorf("Len = %d, want %d", m.Len(), i)
		}
		mustSet(t, m, i, i)
		mustClose(t, db)
	}
	if r, err := admin.Check(context.Background(), dir, nil); err != nil || r.Keys != 3 {
		t.Errorf("Check = %v, %v", r, err)
	}
}

// An open store stays where it is when the program changes its working directory.
func TestWorkingDirectory(t *testing.T) {
	home := t.TempDir()
	t.Chdir(home)
	db, err := copal.Open("app.db", copal.WithSegmentBytes(500))
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, db, "k", "v")
	away := t.TempDir()
	t.Chdir(away)
	fillSome(t, db)
	mustClose(t, db)
	if entries, err := os.ReadDir(away); err != nil || len(entries) > 0 {
		t.Errorf("the other directory has %v, %v", entries, err)
	}
	t.Chdir(home)
	if report, err := admin.Check(context.Background(), "app.db", nil); err != nil || report.Keys != 37 {
		t.Errorf("Check = %v, %v", report, err)
	}
}

func TestOptionsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	for name, o := range map[string]copal.Option{
		"SyncInterval(0)":       copal.WithSyncInterval(0),
		"SyncInterval(-1)":      copal.WithSyncInterval(-1),
		"WithErrorHandler(nil)": copal.WithErrorHandler(nil),
		"WithLogger(nil)":       copal.WithLogger(nil),
		"WithCodec(nil)":        copal.WithCodec(nil),
	} {
		if db, err := copal.Open(dir, o); err == nil || db != nil {
			t.Errorf("Open with %s = %v, %v, want an error", name, db, err)
		}
		if db, err := copal.OpenMemory(o); err == nil || db != nil {
			t.Errorf("OpenMemory with %s = %v, %v, want an error", name, db, err)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a refused option made the directory: %v", err)
	}
	_, err := copal.OpenMemory(copal.ReadOnly())
	wantErr(t, "OpenMemory with ReadOnly", err, copal.ErrReadOnly)
	_, err = copal.OpenMap[string, int](memory(t), "m", copal.WithCodec(nil))
	if err == nil || errors.Is(err, copal.ErrType) {
		t.Errorf("OpenMap with WithCodec(nil): %v", err)
	}
	db, err := copal.OpenMemory(nil, nil) // no option is none
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	mapOf[string, int](t, db, "m", nil)
}

// A map option given to Open is the default of the store's maps and single values.
func TestMapOptionForTheStore(t *testing.T) {
	db := memory(t, copal.WithCodec(codec.Bytes))
	mustSet(t, mapOf[string, string](t, db, "texts"), "k", "text")
	wantRaw(t, db, "texts:k", "text")
	mustSet(t, mapOf[string, int](t, db, "numbers", copal.WithCodec(codec.JSON)), "k", 1)
	_, err := copal.OpenMap[string, int](db, "more")
	wantErr(t, "OpenMap of numbers as bytes", err, copal.ErrType)
	if err := copal.Set(db, "single", "text"); err != nil {
		t.Error(err)
	}
	wantRaw(t, db, "single", "text")
}

func TestOpenOnAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("mine"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, opts := range [][]copal.Option{nil, {copal.ReadOnly()}} {
		if db, err := copal.Open(path, opts...); err == nil || db != nil {
			t.Errorf("Open of a regular file = %v, %v, want an error", db, err)
		}
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
		t.Errorf("the file is now %q, %v", text, err)
	}
}

func TestReadOnlyNeedsAStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "missing")
	db, err := copal.Open(dir, copal.ReadOnly())
	if db != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open = %v, %v, want fs.ErrNotExist", db, err)
	}
	_, err = copal.OpenSingleMap[string, int](dir, copal.ReadOnly())
	wantErr(t, "OpenSingleMap", err, fs.ErrNotExist)
	_, err = admin.Check(context.Background(), dir, nil)
	wantErr(t, "Check", err, fs.ErrNotExist)
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading made the directory: %v", err)
	}
}

// A store opened read-only shows what was there then, beside a writer that goes on.
func TestReadOnlyBesideAWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	writer, err := copal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	written := mapOf[string, int](t, writer, "m")
	mustSet(t, written, "a", 1)
	mustSet(t, written, "gone", 2)
	for range 2 { // two readers
		reader, err := copal.Open(dir, copal.ReadOnly())
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		m := mapOf[string, int](t, reader, "m")
		wantLoad(t, m, "a", 1)
		mustSet(t, written, "a", 10)
		mustSet(t, written, "b", 11)
		if _, err := written.Delete("gone"); err != nil {
			t.Fatal(err)
		}
		if got := maps.Collect(m.All()); !maps.Equal(got, map[string]int{"a": 1, "gone": 2}) {
			t.Errorf("the reader sees %v", got)
		}
		wantReadOnly(t, reader, m)
		mustClose(t, reader)
		mustSet(t, written, "a", 1)
		mustSet(t, written, "gone", 2)
		if _, err := written.Delete("b"); err != nil {
			t.Fatal(err)
		}
	}
}

func wantReadOnly(t *testing.T, db *copal.DB, m *copal.Map[string, int]) {
	t.Helper()
	wantErr(t, "Set", m.Set("a", 2), copal.ErrReadOnly)
	wantErr(t, "SetFSync", m.SetFSync("a", 2), copal.ErrReadOnly)
	_, err := m.Delete("a")
	wantErr(t, "Delete", err, copal.ErrReadOnly)
	_, err = m.Delete("missing")
	wantErr(t, "Delete of a missing key", err, copal.ErrReadOnly)
	_, err = m.DeleteFSync("a")
	wantErr(t, "DeleteFSync", err, copal.ErrReadOnly)
	_, _, err = m.Update("k", func(u *copal.Entry[int]) error { u.Value++; return nil })
	wantErr(t, "Update", err, copal.ErrReadOnly)
	_, _, err = m.UpdateFSync("k", func(u *copal.Entry[int]) error { u.Value++; return nil })
	wantErr(t, "UpdateFSync", err, copal.ErrReadOnly)
	wantErr(t, "Put", db.Raw().Set([]byte("k"), nil), copal.ErrReadOnly)
	_, err = db.Raw().Delete([]byte("k"))
	wantErr(t, "raw Delete", err, copal.ErrReadOnly)
	wantErr(t, "copal.Set", copal.Set(db, "k", 1), copal.ErrReadOnly)
	_, err = db.Raw().Delete([]byte("k"))
	wantErr(t, "copal.Delete", err, copal.ErrReadOnly)
	wantErr(t, "copal.Set of a large value", copal.Set(db, "k", strings.Repeat("x", 2<<20)), copal.ErrReadOnly)
	if err := errors.Join(db.Sync(), m.Sync(), m.Close()); err != nil {
		t.Errorf("there is nothing to sync: %v", err)
	}
}

// A directory in which no store was ever opened is none; one that was opened and never
// written to opens read-only, empty.
func TestReadOnlyOfAnEmptyDirectory(t *testing.T) {
	dir := t.TempDir()
	db, err := copal.Open(dir, copal.ReadOnly())
	if db != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open = %v, %v, want fs.ErrNotExist", db, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("the directory has %v, %v", entries, err)
	}
	if db, err = copal.Open(dir); err != nil {
		t.Fatal(err)
	}
	mustClose(t, db)
	if db, err = copal.Open(dir, copal.ReadOnly()); err != nil {
		t.Fatal(err)
	}
	if n := mapOf[string, int](t, db, "m").Len(); n != 0 {
		t.Errorf("Len = %d", n)
	}
	mustClose(t, db)
}

// Trap: two processes that both write; an open that waits for ever. Here: two DBs of one process.
func TestTrapLockedInThisProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := copal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	second, err := copal.Open(dir)
	wantErr(t, "the second Open", err, copal.ErrLocked)
	if second != nil || err != nil && !strings.Contains(err.Error(), "locked by this process") {
		t.Errorf("the second Open = %v, %v, want the text to name this process", second, err)
	}
	_, err = copal.OpenSingleMap[string, int](dir)
	wantErr(t, "OpenSingleMap", err, copal.ErrLocked)
	mustSet(t, mapOf[string, int](t, db, "m"), "k", 1) // the refused ones took nothing away
	mustClose(t, db)
	db, err = copal.Open(dir)
	if err != nil {
		t.Fatalf("Open after Close: %v", err)
	}
	wantLoad(t, mapOf[string, int](t, db, "m"), "k", 1)
	mustClose(t, db)
}

// Trap: a lock file that outlives its process; two processes that both write.
func TestTrapLockedByAnotherProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holdEnv+"="+dir)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "holding\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}

	db, err := copal.Open(dir)
	wantErr(t, "Open", err, copal.ErrLocked)
	if db != nil || err != nil && !strings.Contains(err.Error(), strconv.Itoa(cmd.Process.Pid)) {
		t.Errorf("Open = %v, %v, want the text to name process %d", db, err, cmd.Process.Pid)
	}
	reader, err := copal.Open(dir, copal.ReadOnly())
	if err != nil {
		t.Fatal(err)
	}
	wantRaw(t, reader, "holder", "was here")
	mustClose(t, reader)

	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if db, err = copal.Open(dir); err != nil {
		t.Fatalf("Open after the death of the holder: %v", err)
	}
	wantRaw(t, db, "holder", "was here")
	mustPut(t, db, "heir", "too")
	mustClose(t, db)
}

// Opening and closing without a write changes no byte, whatever state the store is in.
func TestOpenAndCloseChangeNothing(t *testing.T) {
	t.Run("ring", openAndCloseChangeNothing)
	t.Setenv("COPAL_NO_MMAP", "1")
	t.Run("no ring", openAndCloseChangeNothing)
}

func openAndCloseChangeNothing(t *testing.T) {
	clean := vfs.NewMem()
	db := openOn(t, clean, copal.WithSegmentBytes(500), copal.WithInline())
	fillSome(t, db)
	crashed := clean.ProcessCrash()
	written := vfs.NewMem()
	fillSome(t, openOn(t, written, copal.WithSegmentBytes(500), copal.WithInline(), copal.WithoutRing()))
	torn := written.ProcessCrash()
	log := lastLog(t, torn)
	text := readFile(t, torn, log)
	if cut := text[:len(text)-3]; strings.Count(string(cut), "\n") > 1 { // else all of it is in the ring
		writeFile(t, torn, log, cut)
	}
	mustClose(t, db)
	for name, mem := range map[string]*vfs.Mem{"clean": clean, "crashed": crashed, "torn": torn} {
		for _, opts := range [][]copal.Option{{}, {copal.ReadOnly()}} {
			t.Run(fmt.Sprint(name, len(opts)), func(t *testing.T) {
				if name != "clean" && len(opts) == 0 { // the first to close it writes to the log what is in the ring alone
					mustClose(t, openOn(t, mem))
				}
				before := readFiles(t, mem)
				fsys := vfs.Inject(mem)
				for range 2 {
					db := openOn(t, fsys, opts...)
					m := mapOf[string, user](t, db, "users")
					for range m.All() {
					}
					mapOf[string, int](t, db, "new")
					if _, err := copal.Load[int](db, "missing"); !errors.Is(err, copal.ErrNotFound) {
						t.Error(err)
					}
					if len(opts) == 0 {
						if existed, err := m.Delete("missing"); existed || err != nil {
							t.Errorf("Delete = %v, %v", existed, err)
						}
					}
					if name == "clean" { // else they make durable what the crash has left in the cache
						if err := errors.Join(m.Sync(), db.Sync(), m.Close()); err != nil {
							t.Error(err)
						}
					}
					mustClose(t, db)
				}
				wantSameFiles(t, readFiles(t, mem), before)
				for _, op := range fsys.Ops() {
					if op.Kind&(vfs.OpWrite|vfs.OpTruncate|vfs.OpCreate|vfs.OpRename|vfs.OpRemove) != 0 {
						t.Errorf("it did: %v", op)
					}
				}
			})
		}
	}
}

// fillSome writes entries of several kinds, and enough to fill segments of 500 bytes.
func fillSome(t testing.TB, db *copal.DB) {
	t.Helper()
	users := mapOf[string, user](t, db, "users")
	for i := range 20 {
		mustSet(t, users, fmt.Sprint("user ", i), user{fmt.Sprint("name ", i), i})
		mustPut(t, db, fmt.Sprint("raw ", i), strings.Repeat("x", i))
	}
	for i := range 5 {
		if _, err := users.Delete(fmt.Sprint("user ", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := copal.Set(db, "config", []string{"a", "b"}); err != nil {
		t.Fatal(err)
	}
}

func TestOpenMapAgain(t *testing.T) {
	db := memory(t)
	m := mapOf[string, int](t, db, "m")
	if m.Name() != "m" || m.DB() != db {
		t.Errorf("Name = %q, DB = %p", m.Name(), m.DB())
	}
	if again := mapOf[string, int](t, db, "m"); again != m {
		t.Error("opening an open map returns another one")
	}
	if again := mapOf[string, int](t, db, "m", copal.WithCodec(codec.JSON)); again != m {
		t.Error("opening an open map with the same codec returns another one")
	}
	_, err := copal.OpenMap[string, int64](db, "m")
	wantErr(t, "OpenMap with other values", err, copal.ErrType)
	_, err = copal.OpenMap[userName, int](db, "m")
	wantErr(t, "OpenMap with other keys", err, copal.ErrType)
	texts := mapOf[string, string](t, db, "texts")
	if again := mapOf[string, string](t, db, "texts"); again != texts {
		t.Error("opening an open map without options returns another one")
	}
	for what, o := range map[string]copal.MapOption{"codec bytes": copal.WithCodec(codec.Bytes), "a TTL": copal.WithTTL(time.Hour), "WithOnExpire": copal.WithOnExpire(func(string, string) {})} {
		if _, err := copal.OpenMap[string, string](db, "texts", o); err == nil || !strings.Contains(err.Error(), "close it first") || errors.Is(err, copal.ErrType) {
			t.Errorf("OpenMap of an open map with %s: %v", what, err)
		}
	}
	mustSet(t, m, "k", 1)
	mustClose(t, m)
	wantLoad(t, mapOf[userName, int64](t, db, "m"), "k", 1)
	mustSet(t, texts, "k", "v")
}

// A closed map gives ErrClosed to every holder, and its store goes on.
func TestMapClose(t *testing.T) {
	var handled errorLog
	db := memory(t, handled.option())
	m := mapOf[string, int](t, db, "m")
	mustSet(t, m, "k", 1)
	mustClose(t, m)
	mustClose(t, m)
	wantMapClosed(t, m, &handled)
	again := mapOf[string, int](t, db, "m")
	if again == m {
		t.Fatal("OpenMap returns a closed map")
	}
	wantLoad(t, again, "k", 1)
	mustClose(t, m) // of the first: the second stays open
	wantLoad(t, again, "k", 1)
	if third := mapOf[string, int](t, db, "m"); third != again {
		t.Error("closing a map twice forgets its successor")
	}
}

// A closed map is an error for those, too, that only count or watch it.
func TestClosedMapCountsNothing(t *testing.T) {
	var handled errorLog
	db := memory(t, handled.option())
	m := mapOf[string, int](t, db, "m")
	mustSet(t, m, "k", 1)
	watched := 0
	for c, err := range m.Watch(context.Background(), copal.WithAfter(0)) {
		if watched++; err != nil || c.Value != watched {
			t.Errorf("a watch that is under way tells %q is %d, %v", c.Key, c.Value, err)
		}
		if watched == 2 {
			break
		}
		mustClose(t, m)
		mustPut(t, db, "m:other", "2")
	}
	if n := m.Len(); n != 0 {
		t.Errorf("Len = %d", n)
	}
	handled.wantTaken(t, 1, copal.ErrClosed)
	for _, err := range m.Watch(context.Background()) {
		wantErr(t, "a watch that begins", err, copal.ErrClosed)
	}
}

// wantMapClosed checks every method of a map that has entries and is closed, or whose store is.
func wantMapClosed(t *testing.T, m *copal.Map[string, int], handled *errorLog) {
	t.Helper()
	handled.take()
	_, err := m.Load("k")
	wantErr(t, "Load", err, copal.ErrClosed)
	wantErr(t, "Set", m.Set("k", 2), copal.ErrClosed)
	wantErr(t, "SetFSync", m.SetFSync("k", 2), copal.ErrClosed)
	_, err = m.Delete("k")
	wantErr(t, "Delete", err, copal.ErrClosed)
	_, err = m.DeleteFSync("missing")
	wantErr(t, "DeleteFSync", err, copal.ErrClosed)
	_, _, err = m.Update("k", func(u *copal.Entry[int]) error { u.Value++; return nil })
	wantErr(t, "Update", err, copal.ErrClosed)
	_, _, err = m.UpdateFSync("k", func(u *copal.Entry[int]) error { u.Value++; return nil })
	wantErr(t, "UpdateFSync", err, copal.ErrClosed)
	wantErr(t, "Sync", m.Sync(), copal.ErrClosed)
	handled.wantTaken(t, 0, nil)
	if v, ok := m.Get("k"); ok {
		t.Errorf("Get = %v", v)
	}
	handled.wantTaken(t, 1, copal.ErrClosed)
	for k, v := range m.All() {
		t.Errorf("All yields %v: %v", k, v)
	}
	handled.wantTaken(t, 1, copal.ErrClosed)
	for k := range m.Keys() {
		t.Errorf("Keys yields %v", k)
	}
	handled.wantTaken(t, 1, copal.ErrClosed)
	for v := range m.Values() {
		t.Errorf("Values yields %v", v)
	}
	handled.wantTaken(t, 1, copal.ErrClosed)
	if err := m.Range(func(k string, v int) error {
		t.Errorf("Range yields %v: %v", k, v)
		return nil
	}); !errors.Is(err, copal.ErrClosed) {
		t.Errorf("Range: %v", err)
	}
	m.Len() // has no way to say so, and must not panic
	if err := m.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// Trap: Close twice panics or hangs; use after Close crashes instead of ErrClosed.
func TestTrapUseAfterClose(t *testing.T) {
	var handled errorLog
	db := memory(t, handled.option())
	m := mapOf[string, int](t, db, "m")
	mustSet(t, m, "k", 1)
	mustPut(t, db, "raw", "1")
	mustClose(t, db)
	mustClose(t, db)
	wantMapClosed(t, m, &handled)
	_, err := db.Raw().Load([]byte("raw"))
	wantErr(t, "raw Get", err, copal.ErrClosed)
	_, err = has(db.Raw(), []byte("raw"))
	wantErr(t, "Has", err, copal.ErrClosed)
	wantErr(t, "Put", db.Raw().Set([]byte("raw"), nil), copal.ErrClosed)
	_, err = db.Raw().Delete([]byte("raw"))
	wantErr(t, "raw Delete", err, copal.ErrClosed)
	wantErr(t, "Sync", db.Sync(), copal.ErrClosed)
	wantErr(t, "copal.Set", copal.Set(db, "raw", 1), copal.ErrClosed)
	wantErr(t, "copal.Set of a new type", copal.Set(db, "raw", map[string]bool{}), copal.ErrClosed)
	wantErr(t, "copal.Set of a large value", copal.Set(db, "raw", strings.Repeat("x", 2<<20)), copal.ErrClosed)
	_, err = copal.Load[int](db, "raw")
	wantErr(t, "copal.Get", err, copal.ErrClosed)
	_, err = db.Raw().Delete([]byte("raw"))
	wantErr(t, "copal.Delete", err, copal.ErrClosed)
	_, err = copal.OpenMap[string, int](db, "new")
	wantErr(t, "OpenMap of a new map", err, copal.ErrClosed)
	handled.wantTaken(t, 1, copal.ErrClosed) // of Has
	for range db.Raw().Prefix(nil) {
		t.Error("Scan yields something")
	}
	for range db.Raw().Keys() {
		t.Error("ScanKeys yields something")
	}
	if errs := handled.take(); len(errs) == 0 || !errors.Is(errs[0], copal.ErrClosed) {
		t.Errorf("Scan told the handler %v", errs)
	}
	db.Stats() // this has no way to say so, and must not panic or hang
	mustClose(t, db)
}

// OpenMap of a map that was open when its store was closed is ErrClosed as well.
func TestOpenMapAfterClose(t *testing.T) {
	db := memory(t)
	mapOf[string, int](t, db, "m")
	mustClose(t, db)
	_, err := copal.OpenMap[string, int](db, "m")
	wantErr(t, "OpenMap of an old map", err, copal.ErrClosed)
}

// An iteration under way ends when the store or the map is closed, and tells the
// handler so, once. Where in the map that happens is a matter of luck.
func TestTrapCloseDuringIteration(t *testing.T) {
	for _, what := range []string{"store", "map"} {
		t.Run(what, func(t *testing.T) {
			for range 30 {
				if closeDuringIteration(t, what); t.Failed() {
					return
				}
			}
		})
	}
}

func closeDuringIteration(t *testing.T, what string) {
	var handled errorLog
	db := memory(t, handled.option())
	m := mapOf[int, int](t, db, "m")
	for i := range 30 {
		mustSet(t, m, i, i)
	}
	n := 0
	for range m.All() {
		if n++; n > 1 {
			break
		}
		if what == "store" {
			mustClose(t, db)
		} else {
			mustClose(t, m)
		}
	}
	if n != 1 {
		t.Error("All goes on after Close")
	}
	handled.wantTaken(t, 1, copal.ErrClosed)
}

func TestOpenSingleMap(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "users.db")
	for i := range 2 {
		m, err := copal.OpenSingleMap[string, user](dir, copal.WithSyncInterval(time.Minute), copal.WithCodec(codec.JSON))
		if err != nil {
			t.Fatal(err)
		}
		if m.DB().Stats().SyncInterval != time.Minute {
			t.Errorf("SyncInterval = %v", m.DB().Stats().SyncInterval)
		}
		if m.Len() != i {
			t.Errorf("Len = %d, want %d", m.Len(), i)
		}
		mustSet(t, m, fmt.Sprint(i), user{"Alice", i})
		mustClose(t, m)
		mustClose(t, m)
		wantErr(t, "Sync of its store", m.DB().Sync(), copal.ErrClosed)
	}
	// What cannot be opened leaves nothing locked.
	_, err := copal.OpenSingleMap[chan int, user](dir)
	wantErr(t, "OpenSingleMap with channels as keys", err, copal.ErrType)
	_, err = copal.OpenSingleMap[string, int](dir, copal.WithCodec(codec.Bytes))
	wantErr(t, "OpenSingleMap of numbers as bytes", err, copal.ErrType)
	db, err := copal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	wantLoad(t, mapOf[string, user](t, db, "map"), "1", user{"Alice", 1})
	mustClose(t, db)
}

func TestOpenMemory(t *testing.T) {
	a, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	b, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := mapOf[string, int](t, a, "m").SetFSync("k", 1); err != nil {
		t.Fatal(err)
	}
	wantAbsent(t, mapOf[string, int](t, b, "m"), "k") // they share nothing
	mustClose(t, a)
	if c := memory(t); mapOf[string, int](t, c, "m").Len() != 0 {
		t.Error("a new store in memory is not empty")
	}
	if _, err := os.Stat("memory"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is on the disk: %v", err)
	}
}

func TestStats(t *testing.T) {
	db := memory(t)
	if s := db.Stats(); s != (copal.Stats{SyncInterval: time.Second}) {
		t.Errorf("an empty store has %+v", s)
	}
	m := mapOf[int, string](t, db, "m")
	for range 3 {
		for i := range 10 {
			mustSet(t, m, i, "value")
		}
	}
	mustPut(t, db, "raw", "1")
	if _, err := m.Delete(0); err != nil {
		t.Fatal(err)
	}
	s := db.Stats()
	// 30 sets, a raw one, a deletion; the schema and the map have a record each.
	if s.Keys != 10 || s.Records != 34 || s.Segments != 1 || s.Ratio() != 3.4 {
		t.Errorf("%+v, ratio %v", s, s.Ratio())
	}
	if s.LiveBytes <= 0 || s.LiveBytes >= s.LogBytes || s.IndexBytes <= 0 || s.TornBytes != 0 {
		t.Errorf("%+v", s)
	}
}

// TestMaxMemoryCountsTheIndex: with a long sync interval too, cached values and the index together
// stay near MaxMemory.
func TestMaxMemoryCountsTheIndex(t *testing.T) {
	const limit = 2 << 20
	db := memory(t, copal.WithSyncInterval(time.Hour), copal.WithMaxMemory(limit))
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

// Trap: a background goroutine that outlives Close.
func TestTrapNoGoroutineAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.NewMem()
		for i := range 5 {
			db := openOn(t, fsys)
			mustSet(t, mapOf[int, int](t, db, "m"), i, i)
			synctest.Wait() // it has begun, and waits
			if ours() == 0 {
				t.Error("no goroutine of the store is seen while it is open")
			}
			mustClose(t, db)
			synctest.Wait()
			if n := ours(); n > 0 {
				t.Errorf("%d goroutines are left after Close", n)
			}
			read := openOn(t, fsys, copal.ReadOnly())
			mustClose(t, read)
		}
		if _, err := copal.OpenMap[chan int, int](memory(t, copal.WithInline()), "m"); err == nil {
			t.Error("a map of channels opens")
		}
		if _, err := tryOpen(t, vfs.Inject(fsys, &vfs.Fault{Kinds: vfs.Reading, N: 3, Forever: true})); err == nil {
			t.Error("a store that cannot be read opens")
		}
		synctest.Wait()
		if n := ours(); n > 0 {
			t.Errorf("%d goroutines are left after a failed Open", n)
		}
	})
}

// Trap: the same, at work: Close waits for a segment that is being made in the background.
func TestTrapCloseAwaitsBackgroundWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		fault, on := armed(vfs.Fault{Kinds: vfs.OpCreate, Match: isLog, Hold: release})
		mem := vfs.NewMem()
		db := openOn(t, vfs.Inject(mem, fault), copal.WithSegmentBytes(500))
		mustPut(t, db, "k", "v")
		synctest.Wait() // the keeper's look at the segments waits for one that is being made
		on.Store(true)
		fillSome(t, db) // goes on in the old segment
		synctest.Wait()
		closed := false
		go func() {
			mustCloseIn(t, db)
			closed = true
		}()
		synctest.Wait()
		if closed {
			t.Error("Close returns while a file is being made")
		}
		close(release)
		synctest.Wait()
		if !closed {
			t.Error("Close does not return")
		}
		if report, err := copal.CheckFS(storeDir, mem); err != nil || report.Keys != 37 {
			t.Errorf("Check = %v, %v", report, err)
		}
	})
}

// ours counts the goroutines that the store started.
func ours() int {
	buf := make([]byte, 1<<20)
	n := 0
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, "copal/internal/engine.(*log).keep") || strings.Contains(stack, "created by github.com/copaldb/copal/internal/engine") {
			n++
		}
	}
	return n
}

// Trap: a process-wide flag registered at import.
func TestTrapNoFlagAtImport(t *testing.T) {
	flag.VisitAll(func(f *flag.Flag) {
		if !strings.HasPrefix(f.Name, "test.") && f.Name != "update" {
			t.Errorf("flag -%s", f.Name)
		}
	})
}

func TestCheck(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := copal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	fillSome(t, db)
	if err := db.Sync(); err != nil { // so that the file is as long as at the end
		t.Fatal(err)
	}
	beside, err := admin.Check(context.Background(), dir, nil) // beside the process that writes
	if err != nil {
		t.Fatal(err)
	}
	stats := db.Stats()
	mustClose(t, db)
	report, err := admin.Check(context.Background(), dir, nil)
	if err != nil || report.Keys != stats.Keys || report.Records != stats.Records || report.LogBytes != stats.LogBytes ||
		len(report.Segments) != stats.Segments || report.TornBytes != 0 || len(report.Problems) != 0 {
		t.Errorf("Check = %+v, %v, the store said %+v", report, err, stats)
	}
	if !reflect.DeepEqual(beside, report) {
		t.Errorf("Check beside the writer = %+v, want %+v", beside, report)
	}
	if want := fmt.Sprintf("%d records in 1 segments, %d keys, 0 problems", stats.Records, stats.Keys); report.String() != want {
		t.Errorf("String = %q, want %q", report, want)
	}
}

// The progress of Check ends where all has been read.
func TestProgressOfCheck(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := copal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	fillSome(t, db)
	mustClose(t, db)
	var done, total int64
	report, err := admin.Check(context.Background(), dir, func(d, all int64) {
		if d < done || d > all {
			t.Errorf("progress goes from %d to %d of %d", done, d, all)
		}
		done, total = d, all
	})
	if err != nil {
		t.Fatal(err)
	}
	if done != total || total != report.LogBytes {
		t.Errorf("progress ends at %d of %d, the log has %d bytes", done, total, report.LogBytes)
	}
}

// TestCheckEndsWithItsContext: whenever that ends, also when all of the log is read and what it says is looked at.
func TestCheckEndsWithItsContext(t *testing.T) {
	mem := vfs.NewMem()
	db := openOn(t, mem)
	m := mapOf[string, int](t, db, "m")
	for i := range 3000 {
		mustSet(t, m, fmt.Sprint(i), i)
	}
	mustClose(t, db)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := copal.CheckWith(ended, storeDir, mem, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("when the context has ended: %v", err)
	}
	calls := 0
	if _, err := copal.CheckWith(context.Background(), storeDir, mem, func(int64, int64) { calls++ }); err != nil || calls < 3 {
		t.Fatalf("%d calls, %v", calls, err)
	}
	for n := 1; n < calls; n++ { // the last call is when all is done
		ctx, cancel := context.WithCancel(context.Background())
		left := n
		_, err := copal.CheckWith(ctx, storeDir, mem, func(int64, int64) {
			if left--; left == 0 {
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("when it ends at call %d of %d: %v", n, calls, err)
		}
	}
}
