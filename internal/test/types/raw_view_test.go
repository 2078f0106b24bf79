package types

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

// Load and View show the same, of entries of any length and kind, in every life of the store.
func TestRawReadsAgree(t *testing.T) {
	values := map[string]string{"empty": "", "short": "v", "text": `{"Name":"A","Age":1}`}
	for _, n := range []int{1000, 5000, 70 << 10, 1<<20 + 1} {
		values[fmt.Sprint(n)] = string(bytes.Repeat([]byte{'a' + byte(n%7)}, n))
	}
	kit.Lives(t, func(t *testing.T, db *copal.DB) {
		for k, v := range values {
			kit.MustPut(t, db, k, v)
		}
		if err := db.Raw().SetFSync([]byte("fsync"), []byte("1")); err != nil {
			t.Error(err)
		}
		kit.MustPut(t, db, "gone", "1")
		if existed, err := db.Raw().DeleteFSync([]byte("gone")); !existed || err != nil {
			t.Errorf("DeleteFSync = %v, %v", existed, err)
		}
		kit.MustSet(t, kit.MapOf[string, kit.User](t, db, "users"), "alice", kit.User{Name: "Alice", Age: 28})
		values["fsync"], values["users:alice"] = "1", `{"Name":"Alice","Age":28}`
	}, func(t *testing.T, db *copal.DB) {
		for k, v := range values {
			kit.WantRaw(t, db, k, v)
			if got := kit.Viewed(t, db, k); got != v {
				t.Errorf("ViewValue(%q) shows %.50q", k, got)
			}
		}
		if db.Raw().Len() != len(values) {
			t.Errorf("Len = %d, want %d", db.Raw().Len(), len(values))
		}
		if got, err := db.Raw().Load([]byte("gone")); !errors.Is(err, copal.ErrNotFound) || got != nil {
			t.Errorf("Load of what is gone = %q, %v", got, err)
		}
		if err := db.Raw().View([]byte("gone"), nil); !errors.Is(err, copal.ErrNotFound) {
			t.Errorf("ViewValue of what is gone: %v", err)
		}
		own := errors.New("own")
		if err := db.Raw().View([]byte("short"), func([]byte) error { return own }); err != own {
			t.Errorf("ViewValue returns %v, and not the error of the function", err)
		}
	})
}

// Reading raw bytes allocates its result, and nothing else.
func TestRawReadsAllocateNoMore(t *testing.T) {
	if kit.RaceEnabled {
		t.Skip("the race detector allocates")
	}
	db, err := copal.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	noMap := os.Getenv("COPAL_NO_MMAP") == "1"
	for _, n := range []int{10, 500, 5000, 60 << 10} {
		key, buf := []byte("users:key"), make([]byte, 0, n)
		kit.MustPut(t, db, string(key), string(make([]byte, n)))
		for _, where := range []string{"in the ring", "in the file"} {
			count := func(what string, want float64, f func() error) {
				t.Helper()
				if got := testing.AllocsPerRun(100, func() {
					if err := f(); err != nil {
						t.Fatal(err)
					}
				}); got > want {
					t.Errorf("%s of %d bytes %s allocates %v times, want %v", what, n, where, got, want)
				}
			}
			extra := 0.0 // a long value that cannot be read in place is read into memory of its own
			if n > 900 && (where == "in the ring" || noMap) {
				extra = 1
			}
			count("Get", 1+extra, func() error { _, err := db.Raw().Load(key); return err })
			count("View and append", extra, func() error {
				return db.Raw().View(key, func(b []byte) error { buf = append(buf[:0], b...); return nil })
			})
			count("ViewValue", extra, func() error { return db.Raw().View(key, func([]byte) error { return nil }) })
			if err := db.Sync(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A transaction shows values of a codec that is not text as every other raw read does.
func TestRawReadsOfTransactionsAreShown(t *testing.T) {
	db := kit.Memory(t)
	m, err := copal.OpenMap[string, kit.User](db, "users", copal.WithCodec(codec.Binary))
	if err != nil {
		t.Fatal(err)
	}
	kit.MustSet(t, m, "alice", kit.User{Name: "Alice", Age: 28})
	const want = `{"Name":"Alice","Age":28}`
	err = db.View(func(tx *copal.Tx) error {
		got, err := tx.Raw().Load([]byte("users:alice"))
		if string(got) != want {
			t.Errorf("Get shows %q", got)
		}
		for key, value := range tx.Raw().Prefix(nil) {
			if string(value) != want {
				t.Errorf("Scan shows %q under %q", value, key)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
