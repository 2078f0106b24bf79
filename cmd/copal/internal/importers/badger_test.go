//go:build !image

package importers

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"
)

func TestMain(m *testing.M) {
	BeChild()
	os.Exit(m.Run())
}

// smallBadger makes a directory with two tables and values in its value log, and returns its
// entries.
func smallBadger(t *testing.T, dir string) map[string]string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the library cannot open read-only here")
	}
	want := map[string]string{}
	for round := range 2 {
		db, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil).WithSyncWrites(false).WithMemTableSize(1 << 20).
			WithValueLogFileSize(1 << 20).WithValueThreshold(1 << 10).WithCompactL0OnClose(false))
		check(t, err)
		check(t, db.Update(func(tx *badger.Txn) error {
			for k, v := range sample(100) {
				k, v = fmt.Sprint(round, k), v+strings.Repeat("x", len(want)%3*700)
				want[k] = v
				if err := tx.Set([]byte(k), []byte(v)); err != nil {
					return err
				}
			}
			return nil
		}))
		check(t, db.Close())
	}
	return want
}

// sums returns the checksums of a directory's files, by name.
func sums(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	list, err := os.ReadDir(dir)
	check(t, err)
	for _, e := range list {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		check(t, err)
		fmt.Fprintf(&all, "%s %d %x\n", e.Name(), len(b), sha256.Sum256(b))
	}
	return all.String()
}

// A directory of badger that is damaged in any file is read right, or is an error. No damage ends
// the process, and the import changes no file.
func TestBadgerDamaged(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "whole")
	want := smallBadger(t, whole)
	list, err := os.ReadDir(whole)
	check(t, err)
	each := 12
	if os.Getenv("COPAL_LONG") != "" {
		each = 1000
	}
	for _, e := range list {
		if e.IsDir() {
			continue
		}
		t.Run(e.Name(), func(t *testing.T) {
			t.Parallel()
			damageBadger(t, whole, e.Name(), each, want)
		})
	}
}

// damageBadger damages one file of a whole directory in so many ways.
func damageBadger(t *testing.T, whole, name string, each int, want map[string]string) {
	random := rand.New(rand.NewPCG(3, 4))
	content, err := os.ReadFile(filepath.Join(whole, name))
	check(t, err)
	used := max(1, len(bytes.TrimRight(content, "\x00")))
	refused := 0
	for n := range each {
		b := bytes.Clone(content)
		at := random.IntN(used)
		how := []string{"flipped", "cut", "zeroed", "random"}[n%4]
		switch {
		case len(b) == 0:
			b = append(b, byte(random.Uint32()))
		case how == "flipped":
			b[at] ^= 1 << random.IntN(8)
		case how == "cut":
			b = b[:at]
		case how == "zeroed":
			clear(b[at:min(len(b), at+1+random.IntN(64))])
		case how == "random":
			for i := at; i < min(len(b), at+1+random.IntN(16)); i++ {
				b[i] = byte(random.Uint32())
			}
		}
		dir := filepath.Join(t.TempDir(), "damaged")
		check(t, os.CopyFS(dir, os.DirFS(whole)))
		check(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
		before := sums(t, dir)
		g, err := readAll(t, "badger", Source{Path: dir})
		damage := fmt.Sprintf("%s, %s at %d of %d (case %d)", name, how, at, used, n)
		switch {
		case err == nil:
			if len(g.entries) != len(want) {
				t.Errorf("%s: %d entries, want %d, and no error", damage, len(g.entries), len(want))
			}
			for k, v := range want {
				if g.entries[k] != v {
					t.Errorf("%s: key %q has another value, and there is no error", damage, k)
					break
				}
			}
		case len(err.Error()) < 10 || strings.Contains(err.Error(), "goroutine "):
			t.Errorf("%s: %v", damage, err)
		default:
			refused++
			for k, v := range g.entries {
				if want[k] != v {
					t.Errorf("%s: key %q was handed on with another value", damage, k)
					break
				}
			}
			if testing.Verbose() {
				t.Logf("%s: %v", damage, err)
			}
		}
		if after := sums(t, dir); after != before {
			t.Errorf("%s: the files were\n%sand are\n%s", damage, before, after)
		}
		check(t, os.RemoveAll(dir))
	}
	t.Logf("%s, %d bytes: %d of %d are refused", name, len(content), refused, each)
}

// wantRefused imports a directory. The import must fail with an error that has these texts, and
// change nothing.
func wantRefused(t *testing.T, dir string, says ...string) {
	t.Helper()
	g, err := readAll(t, "badger", Source{Path: dir})
	for _, s := range says {
		if err == nil || !strings.Contains(err.Error(), s) {
			t.Errorf("the error is %v, want %q in it", err, s)
		}
	}
	if len(g.entries) > 0 {
		t.Errorf("%d entries were handed on", len(g.entries))
	}
}

// The library removes tables that the MANIFEST does not name, and skips a table whose checksum is
// wrong. The import does neither.
func TestBadgerKeepsTables(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "old")
	smallBadger(t, dir)
	path := filepath.Join(dir, "MANIFEST")
	b, err := os.ReadFile(path)
	check(t, err)
	check(t, os.WriteFile(path, b[:8], 0o600)) // the first line of a MANIFEST, which is one without tables
	before := sums(t, dir)
	wantRefused(t, dir, "does not name the table 000001.sst")
	if after := sums(t, dir); after != before {
		t.Errorf("the files were\n%sand are\n%s", before, after)
	}
}

// A MANIFEST that names a table on a level beyond all takes memory for each level before it.
func TestBadgerMemory(t *testing.T) {
	defer func(n uint64) { childBytes = n }(childBytes)
	childBytes = 100 << 20
	dir := filepath.Join(t.TempDir(), "old")
	smallBadger(t, dir)
	path := filepath.Join(dir, "MANIFEST")
	b, err := os.ReadFile(path)
	check(t, err)
	change := []byte{0x0a, 8, 0x08, 9, 0x18, 0xff, 0xff, 0xff, 0xff, 0x07} // table 9, on level 2^31-1
	b = binary.BigEndian.AppendUint32(b, uint32(len(change)))
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(change, crc32.MakeTable(crc32.Castagnoli)))
	check(t, os.WriteFile(path, append(b, change...), 0o600))
	wantRefused(t, dir, "it is damaged: the library that reads it takes more than 10", "MiB of memory")
}
