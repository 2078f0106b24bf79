package open

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

	"github.com/copaldb/copal/internal/test/kit"

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
		m := kit.MapOf[int, int](t, db, "m")
		if m.Len() != i {
			t.Errorf("Len = %d, want %d", m.Len(), i)
		}
		kit.MustSet(t, m, i, i)
		kit.MustClose(t, db)
	}
	if r, err := admin.Check(context.Background(), dir, nil); err != nil || r.Keys != 3 {
		t.Errorf("Check = %v, %v", r, err)
	}
}

// An open store stays where it is when the program changes its working directory.
func TestWorkingDirectory(t *testing.T) {
	home := t.TempDir()
	t.Chdir(home)
	db, err := copal.Open("app.db", kit.WithSegmentBytes(500))
	if err != nil {
		t.Fatal(err)
	}
	kit.MustPut(t, db, "k", "v")
	away := t.TempDir()
	t.Chdir(away)
	fillSome(t, db)
	kit.MustClose(t, db)
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
	kit.WantErr(t, "OpenMemory with ReadOnly", err, copal.ErrReadOnly)
	_, err = copal.OpenMap[string, int](kit.Memory(t), "m", copal.WithCodec(nil))
	if err == nil || errors.Is(err, copal.ErrType) {
		t.Errorf("OpenMap with WithCodec(nil): %v", err)
	}
	db, err := copal.OpenMemory(nil, nil) // no option is none
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	kit.MapOf[string, int](t, db, "m", nil)
}

// A map option given to Open is the default of the store's maps and single values.
func TestMapOptionForTheStore(t *testing.T) {
	db := kit.Memory(t, copal.WithCodec(codec.Bytes))
	kit.MustSet(t, kit.MapOf[string, string](t, db, "texts"), "k", "text")
	kit.WantRaw(t, db, "texts:k", "text")
	kit.MustSet(t, kit.MapOf[string, int](t, db, "numbers", copal.WithCodec(codec.JSON)), "k", 1)
	_, err := copal.OpenMap[string, int](db, "more")
	kit.WantErr(t, "OpenMap of numbers as bytes", err, copal.ErrType)
	if err := copal.Set(db, "single", "text"); err != nil {
		t.Error(err)
	}
	kit.WantRaw(t, db, "single", "text")
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
	kit.WantErr(t, "OpenSingleMap", err, fs.ErrNotExist)
	_, err = admin.Check(context.Background(), dir, nil)
	kit.WantErr(t, "Check", err, fs.ErrNotExist)
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading made the directory: %v", err)
	}
}

// A store opened read-only shows the entries of that moment, beside a writer that goes on.
func TestReadOnlyBesideAWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	writer, err := copal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	written := kit.MapOf[string, int](t, writer, "m")
	kit.MustSet(t, written, "a", 1)
	kit.MustSet(t, written, "gone", 2)
	for range 2 { // two readers
		reader, err := copal.Open(dir, copal.ReadOnly())
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		m := kit.MapOf[string, int](t, reader, "m")
		kit.WantLoad(t, m, "a", 1)
		kit.MustSet(t, written, "a", 10)
		kit.MustSet(t, written, "b", 11)
		if _, err := written.Delete("gone"); err != nil {
			t.Fatal(err)
		}
		if got := maps.Collect(m.All()); !maps.Equal(got, map[string]int{"a": 1, "gone": 2}) {
			t.Errorf("the reader sees %v", got)
		}
		wantReadOnly(t, reader, m)
		kit.MustClose(t, reader)
		kit.MustSet(t, written, "a", 1)
		kit.MustSet(t, written, "gone", 2)
		if _, err := written.Delete("b"); err != nil {
			t.Fatal(err)
		}
	}
}

func wantReadOnly(t *testing.T, db *copal.DB, m *copal.Map[string, int]) {
	t.Helper()
	kit.WantErr(t, "Set", m.Set("a", 2), copal.ErrReadOnly)
	kit.WantErr(t, "SetFSync", m.SetFSync("a", 2), copal.ErrReadOnly)
	_, err := m.Delete("a")
	kit.WantErr(t, "Delete", err, copal.ErrReadOnly)
	_, err = m.Delete("missing")
	kit.WantErr(t, "Delete of a missing key", err, copal.ErrReadOnly)
	_, err = m.DeleteFSync("a")
	kit.WantErr(t, "DeleteFSync", err, copal.ErrReadOnly)
	_, _, err = m.Update("k", func(u *copal.Entry[int]) error { u.Value++; return nil })
	kit.WantErr(t, "Update", err, copal.ErrReadOnly)
	_, _, err = m.UpdateFSync("k", func(u *copal.Entry[int]) error { u.Value++; return nil })
	kit.WantErr(t, "UpdateFSync", err, copal.ErrReadOnly)
	kit.WantErr(t, "Put", db.Raw().Set([]byte("k"), nil), copal.ErrReadOnly)
	_, err = db.Raw().Delete([]byte("k"))
	kit.WantErr(t, "raw Delete", err, copal.ErrReadOnly)
	kit.WantErr(t, "copal.Set", copal.Set(db, "k", 1), copal.ErrReadOnly)
	_, err = db.Raw().Delete([]byte("k"))
	kit.WantErr(t, "copal.Delete", err, copal.ErrReadOnly)
	kit.WantErr(t, "copal.Set of a large value", copal.Set(db, "k", strings.Repeat("x", 2<<20)), copal.ErrReadOnly)
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
	kit.MustClose(t, db)
	if db, err = copal.Open(dir, copal.ReadOnly()); err != nil {
		t.Fatal(err)
	}
	if n := kit.MapOf[string, int](t, db, "m").Len(); n != 0 {
		t.Errorf("Len = %d", n)
	}
	kit.MustClose(t, db)
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
	kit.WantErr(t, "the second Open", err, copal.ErrLocked)
	if second != nil || err != nil && !strings.Contains(err.Error(), "locked by this process") {
		t.Errorf("the second Open = %v, %v, want the text to name this process", second, err)
	}
	_, err = copal.OpenSingleMap[string, int](dir)
	kit.WantErr(t, "OpenSingleMap", err, copal.ErrLocked)
	kit.MustSet(t, kit.MapOf[string, int](t, db, "m"), "k", 1) // the refused ones took nothing away
	kit.MustClose(t, db)
	db, err = copal.Open(dir)
	if err != nil {
		t.Fatalf("Open after Close: %v", err)
	}
	kit.WantLoad(t, kit.MapOf[string, int](t, db, "m"), "k", 1)
	kit.MustClose(t, db)
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
	kit.WantErr(t, "Open", err, copal.ErrLocked)
	if db != nil || err != nil && !strings.Contains(err.Error(), strconv.Itoa(cmd.Process.Pid)) {
		t.Errorf("Open = %v, %v, want the text to name process %d", db, err, cmd.Process.Pid)
	}
	reader, err := copal.Open(dir, copal.ReadOnly())
	if err != nil {
		t.Fatal(err)
	}
	kit.WantRaw(t, reader, "holder", "was here")
	kit.MustClose(t, reader)

	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if db, err = copal.Open(dir); err != nil {
		t.Fatalf("Open after the death of the holder: %v", err)
	}
	kit.WantRaw(t, db, "holder", "was here")
	kit.MustPut(t, db, "heir", "too")
	kit.MustClose(t, db)
}

// Opening and closing without a write changes no byte, in each state of the store.
func TestOpenAndCloseChangeNothing(t *testing.T) {
	t.Run("ring", openAndCloseChangeNothing)
	t.Setenv("COPAL_NO_MMAP", "1")
	t.Run("no ring", openAndCloseChangeNothing)
}

func openAndCloseChangeNothing(t *testing.T) {
	clean := vfs.NewMem()
	db := kit.OpenOn(t, clean, kit.WithSegmentBytes(500), kit.WithInline())
	fillSome(t, db)
	crashed := clean.ProcessCrash()
	written := vfs.NewMem()
	fillSome(t, kit.OpenOn(t, written, kit.WithSegmentBytes(500), kit.WithInline(), kit.WithoutRing()))
	torn := written.ProcessCrash()
	log := kit.LastLog(t, torn)
	text := kit.ReadFile(t, torn, log)
	if cut := text[:len(text)-3]; strings.Count(string(cut), "\n") > 1 { // else all of it is in the ring
		kit.WriteFile(t, torn, log, cut)
	}
	kit.MustClose(t, db)
	for name, mem := range map[string]*vfs.Mem{"clean": clean, "crashed": crashed, "torn": torn} {
		for _, opts := range [][]copal.Option{{}, {copal.ReadOnly()}} {
			t.Run(fmt.Sprint(name, len(opts)), func(t *testing.T) {
				if name != "clean" && len(opts) == 0 { // the first to close it writes the records in the ring to the log
					kit.MustClose(t, kit.OpenOn(t, mem))
				}
				before := kit.ReadFiles(t, mem)
				fsys := vfs.Inject(mem)
				for range 2 {
					db := kit.OpenOn(t, fsys, opts...)
					m := kit.MapOf[string, kit.User](t, db, "users")
					for range m.All() {
					}
					kit.MapOf[string, int](t, db, "new")
					if _, err := copal.Load[int](db, "missing"); !errors.Is(err, copal.ErrNotFound) {
						t.Error(err)
					}
					if len(opts) == 0 {
						if existed, err := m.Delete("missing"); existed || err != nil {
							t.Errorf("Delete = %v, %v", existed, err)
						}
					}
					if name == "clean" { // else they sync the files that the crash has left in the cache
						if err := errors.Join(m.Sync(), db.Sync(), m.Close()); err != nil {
							t.Error(err)
						}
					}
					kit.MustClose(t, db)
				}
				kit.WantSameFiles(t, kit.ReadFiles(t, mem), before)
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
	users := kit.MapOf[string, kit.User](t, db, "users")
	for i := range 20 {
		kit.MustSet(t, users, fmt.Sprint("user ", i), kit.User{Name: fmt.Sprint("name ", i), Age: i})
		kit.MustPut(t, db, fmt.Sprint("raw ", i), strings.Repeat("x", i))
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
	type userName string
	db := kit.Memory(t)
	m := kit.MapOf[string, int](t, db, "m")
	if m.Name() != "m" || m.DB() != db {
		t.Errorf("Name = %q, DB = %p", m.Name(), m.DB())
	}
	if again := kit.MapOf[string, int](t, db, "m"); again != m {
		t.Error("opening an open map returns another one")
	}
	if again := kit.MapOf[string, int](t, db, "m", copal.WithCodec(codec.JSON)); again != m {
		t.Error("opening an open map with the same codec returns another one")
	}
	_, err := copal.OpenMap[string, string](db, "m")
	kit.WantErr(t, "OpenMap with other values", err, copal.ErrType)
	_, err = copal.OpenMap[userName, int](db, "m")
	kit.WantErr(t, "OpenMap with other keys", err, copal.ErrType)
	texts := kit.MapOf[string, string](t, db, "texts")
	if again := kit.MapOf[string, string](t, db, "texts"); again != texts {
		t.Error("opening an open map without options returns another one")
	}
	for what, o := range map[string]copal.MapOption{"codec bytes": copal.WithCodec(codec.Bytes), "a TTL": copal.WithTTL(time.Hour), "WithOnExpire": copal.WithOnExpire(func(string, string) {})} {
		if _, err := copal.OpenMap[string, string](db, "texts", o); err == nil || !strings.Contains(err.Error(), "close it first") || errors.Is(err, copal.ErrType) {
			t.Errorf("OpenMap of an open map with %s: %v", what, err)
		}
	}
	kit.MustSet(t, m, "k", 1)
	kit.MustClose(t, m)
	kit.WantLoad(t, kit.MapOf[userName, int](t, db, "m"), "k", 1)
	kit.MustSet(t, texts, "k", "v")
}

// A closed map gives ErrClosed to every holder, and its store goes on.
func TestMapClose(t *testing.T) {
	var handled kit.ErrorLog
	db := kit.Memory(t, handled.Option())
	m := kit.MapOf[string, int](t, db, "m")
	kit.MustSet(t, m, "k", 1)
	kit.MustClose(t, m)
	kit.MustClose(t, m)
	wantMapClosed(t, m, &handled)
	again := kit.MapOf[string, int](t, db, "m")
	if again == m {
		t.Fatal("OpenMap returns a closed map")
	}
	kit.WantLoad(t, again, "k", 1)
	kit.MustClose(t, m) // of the first: the second stays open
	kit.WantLoad(t, again, "k", 1)
	if third := kit.MapOf[string, int](t, db, "m"); third != again {
		t.Error("closing a map twice forgets its successor")
	}
}

// A closed map is an error for those, too, that only count or watch it.
func TestClosedMapCountsNothing(t *testing.T) {
	var handled kit.ErrorLog
	db := kit.Memory(t, handled.Option())
	m := kit.MapOf[string, int](t, db, "m")
	kit.MustSet(t, m, "k", 1)
	watched := 0
	for c, err := range m.Watch(context.Background(), copal.WithAfter(0)) {
		if watched++; err != nil || c.Value != watched {
			t.Errorf("a watch that is under way tells %q is %d, %v", c.Key, c.Value, err)
		}
		if watched == 2 {
			break
		}
		kit.MustClose(t, m)
		kit.MustPut(t, db, "m:other", "2")
	}
	if n := m.Len(); n != 0 {
		t.Errorf("Len = %d", n)
	}
	handled.WantTaken(t, 1, copal.ErrClosed)
	for _, err := range m.Watch(context.Background()) {
		kit.WantErr(t, "a watch that begins", err, copal.ErrClosed)
	}
}

// wantMapClosed checks every method of a map that has entries and is closed, or whose store is.
func wantMapClosed(t *testing.T, m *copal.Map[string, int], handled *kit.ErrorLog) {
	t.Helper()
	handled.Take()
	_, err := m.Load("k")
	kit.WantErr(t, "Load", err, copal.ErrClosed)
	kit.WantErr(t, "Set", m.Set("k", 2), copal.ErrClosed)
	kit.WantErr(t, "SetFSync", m.SetFSync("k", 2), copal.ErrClosed)
	_, err = m.Delete("k")
	kit.WantErr(t, "Delete", err, copal.ErrClosed)
	_, err = m.DeleteFSync("missing")
	kit.WantErr(t, "DeleteFSync", err, copal.ErrClosed)
	_, _, err = m.Update("k", func(u *copal.Entry[int]) error { u.Value++; return nil })
	kit.WantErr(t, "Update", err, copal.ErrClosed)
	_, _, err = m.UpdateFSync("k", func(u *copal.Entry[int]) error { u.Value++; return nil })
	kit.WantErr(t, "UpdateFSync", err, copal.ErrClosed)
	kit.WantErr(t, "Sync", m.Sync(), copal.ErrClosed)
	handled.WantTaken(t, 0, nil)
	if v, ok := m.Get("k"); ok {
		t.Errorf("Get = %v", v)
	}
	handled.WantTaken(t, 1, copal.ErrClosed)
	for k, v := range m.All() {
		t.Errorf("All yields %v: %v", k, v)
	}
	handled.WantTaken(t, 1, copal.ErrClosed)
	for k := range m.Keys() {
		t.Errorf("Keys yields %v", k)
	}
	handled.WantTaken(t, 1, copal.ErrClosed)
	for v := range m.Values() {
		t.Errorf("Values yields %v", v)
	}
	handled.WantTaken(t, 1, copal.ErrClosed)
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
	var handled kit.ErrorLog
	db := kit.Memory(t, handled.Option())
	m := kit.MapOf[string, int](t, db, "m")
	kit.MustSet(t, m, "k", 1)
	kit.MustPut(t, db, "raw", "1")
	kit.MustClose(t, db)
	kit.MustClose(t, db)
	wantMapClosed(t, m, &handled)
	_, err := db.Raw().Load([]byte("raw"))
	kit.WantErr(t, "raw Get", err, copal.ErrClosed)
	_, err = kit.Has(db.Raw(), []byte("raw"))
	kit.WantErr(t, "Has", err, copal.ErrClosed)
	kit.WantErr(t, "Put", db.Raw().Set([]byte("raw"), nil), copal.ErrClosed)
	_, err = db.Raw().Delete([]byte("raw"))
	kit.WantErr(t, "raw Delete", err, copal.ErrClosed)
	kit.WantErr(t, "Sync", db.Sync(), copal.ErrClosed)
	kit.WantErr(t, "copal.Set", copal.Set(db, "raw", 1), copal.ErrClosed)
	kit.WantErr(t, "copal.Set of a new type", copal.Set(db, "raw", map[string]bool{}), copal.ErrClosed)
	kit.WantErr(t, "copal.Set of a large value", copal.Set(db, "raw", strings.Repeat("x", 2<<20)), copal.ErrClosed)
	_, err = copal.Load[int](db, "raw")
	kit.WantErr(t, "copal.Get", err, copal.ErrClosed)
	_, err = db.Raw().Delete([]byte("raw"))
	kit.WantErr(t, "copal.Delete", err, copal.ErrClosed)
	_, err = copal.OpenMap[string, int](db, "new")
	kit.WantErr(t, "OpenMap of a new map", err, copal.ErrClosed)
	handled.WantTaken(t, 1, copal.ErrClosed) // of Has
	for range db.Raw().Prefix(nil) {
		t.Error("Scan yields something")
	}
	for range db.Raw().Keys() {
		t.Error("ScanKeys yields something")
	}
	if errs := handled.Take(); len(errs) == 0 || !errors.Is(errs[0], copal.ErrClosed) {
		t.Errorf("Scan told the handler %v", errs)
	}
	db.Stats() // this has no way to say so, and must not panic or hang
	kit.MustClose(t, db)
}

// OpenMap of a map that was open when its store was closed is ErrClosed as well.
func TestOpenMapAfterClose(t *testing.T) {
	db := kit.Memory(t)
	kit.MapOf[string, int](t, db, "m")
	kit.MustClose(t, db)
	_, err := copal.OpenMap[string, int](db, "m")
	kit.WantErr(t, "OpenMap of an old map", err, copal.ErrClosed)
}

// An iteration under way ends when the store or the map is closed, and the handler gets the error,
// once. Where in the map that happens is a matter of luck.
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
	var handled kit.ErrorLog
	db := kit.Memory(t, handled.Option())
	m := kit.MapOf[int, int](t, db, "m")
	for i := range 30 {
		kit.MustSet(t, m, i, i)
	}
	n := 0
	for range m.All() {
		if n++; n > 1 {
			break
		}
		if what == "store" {
			kit.MustClose(t, db)
		} else {
			kit.MustClose(t, m)
		}
	}
	if n != 1 {
		t.Error("All goes on after Close")
	}
	handled.WantTaken(t, 1, copal.ErrClosed)
}

func TestOpenSingleMap(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "users.db")
	for i := range 2 {
		m, err := copal.OpenSingleMap[string, kit.User](dir, copal.WithSyncInterval(time.Minute), copal.WithCodec(codec.JSON))
		if err != nil {
			t.Fatal(err)
		}
		if m.DB().Stats().SyncInterval != time.Minute {
			t.Errorf("SyncInterval = %v", m.DB().Stats().SyncInterval)
		}
		if m.Len() != i {
			t.Errorf("Len = %d, want %d", m.Len(), i)
		}
		kit.MustSet(t, m, fmt.Sprint(i), kit.User{Name: "Alice", Age: i})
		kit.MustClose(t, m)
		kit.MustClose(t, m)
		kit.WantErr(t, "Sync of its store", m.DB().Sync(), copal.ErrClosed)
	}
	// A map that cannot be opened leaves nothing locked.
	_, err := copal.OpenSingleMap[any, int](dir)
	kit.WantErr(t, "OpenSingleMap with keys of any type", err, copal.ErrType)
	_, err = copal.OpenSingleMap[string, int](dir, copal.WithCodec(codec.Bytes))
	kit.WantErr(t, "OpenSingleMap of numbers as bytes", err, copal.ErrType)
	db, err := copal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	kit.WantLoad(t, kit.MapOf[string, kit.User](t, db, "map"), "1", kit.User{Name: "Alice", Age: 1})
	kit.MustClose(t, db)
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
	if err := kit.MapOf[string, int](t, a, "m").SetFSync("k", 1); err != nil {
		t.Fatal(err)
	}
	kit.WantAbsent(t, kit.MapOf[string, int](t, b, "m"), "k") // they share nothing
	kit.MustClose(t, a)
	if c := kit.Memory(t); kit.MapOf[string, int](t, c, "m").Len() != 0 {
		t.Error("a new store in memory is not empty")
	}
	if _, err := os.Stat("memory"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is on the disk: %v", err)
	}
}

func TestStats(t *testing.T) {
	db := kit.Memory(t)
	if s := db.Stats(); s != (copal.Stats{SyncInterval: time.Second}) {
		t.Errorf("an empty store has %+v", s)
	}
	m := kit.MapOf[int, string](t, db, "m")
	for range 3 {
		for i := range 10 {
			kit.MustSet(t, m, i, "value")
		}
	}
	kit.MustPut(t, db, "raw", "1")
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
	db := kit.Memory(t, copal.WithSyncInterval(time.Hour), copal.WithMaxMemory(limit))
	m := kit.MapOf[int, int](t, db, "m")
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
			db := kit.OpenOn(t, fsys)
			kit.MustSet(t, kit.MapOf[int, int](t, db, "m"), i, i)
			synctest.Wait() // it has begun, and waits
			if ours() == 0 {
				t.Error("no goroutine of the store is seen while it is open")
			}
			kit.MustClose(t, db)
			synctest.Wait()
			if n := ours(); n > 0 {
				t.Errorf("%d goroutines are left after Close", n)
			}
			read := kit.OpenOn(t, fsys, copal.ReadOnly())
			kit.MustClose(t, read)
		}
		if _, err := copal.OpenMap[any, int](kit.Memory(t, kit.WithInline()), "m"); err == nil {
			t.Error("a map of channels opens")
		}
		if _, err := kit.TryOpen(t, vfs.Inject(fsys, &vfs.Fault{Kinds: vfs.Reading, N: 3, Forever: true})); err == nil {
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
		fault, on := kit.Armed(vfs.Fault{Kinds: vfs.OpCreate, Match: kit.IsLog, Hold: release})
		mem := vfs.NewMem()
		db := kit.OpenOn(t, vfs.Inject(mem, fault), kit.WithSegmentBytes(500))
		kit.MustPut(t, db, "k", "v")
		synctest.Wait() // the keeper's look at the segments waits for one that is being made
		on.Store(true)
		fillSome(t, db) // goes on in the old segment
		synctest.Wait()
		closed := false
		go func() {
			kit.MustCloseIn(t, db)
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
		if report, err := kit.CheckFS(kit.StoreDir, mem); err != nil || report.Keys != 37 {
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
	kit.MustClose(t, db)
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
	kit.MustClose(t, db)
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

// TestCheckEndsWithItsContext: whenever that ends, also when all of the log is read and its records
// are compared.
func TestCheckEndsWithItsContext(t *testing.T) {
	mem := vfs.NewMem()
	db := kit.OpenOn(t, mem)
	m := kit.MapOf[string, int](t, db, "m")
	for i := range 3000 {
		kit.MustSet(t, m, fmt.Sprint(i), i)
	}
	kit.MustClose(t, db)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := kit.CheckWith(ended, kit.StoreDir, mem, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("when the context has ended: %v", err)
	}
	calls := 0
	if _, err := kit.CheckWith(context.Background(), kit.StoreDir, mem, func(int64, int64) { calls++ }); err != nil || calls < 3 {
		t.Fatalf("%d calls, %v", calls, err)
	}
	for n := 1; n < calls; n++ { // the last call is when all is done
		ctx, cancel := context.WithCancel(context.Background())
		left := n
		_, err := kit.CheckWith(ctx, kit.StoreDir, mem, func(int64, int64) {
			if left--; left == 0 {
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("when it ends at call %d of %d: %v", n, calls, err)
		}
	}
}
