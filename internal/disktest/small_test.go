//go:build linux

package disktest

import (
	"path/filepath"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

// TestSmallDisk: entries that are overwritten again and again fit a disk that is smaller than the
// garbage which compaction leaves on a large one. Hardly a write is refused, and none for ever.
func TestSmallDisk(t *testing.T) {
	bothDisks(t, 16, func(t *testing.T, disk string) {
		dir := filepath.Join(disk, "db")
		open := func() (*copal.DB, *copal.Map[int, []byte]) {
			db, err := copal.Open(dir, copal.WithErrorHandler(func(err error) { t.Log("told: ", err) }))
			if err != nil {
				t.Fatal(err)
			}
			m, err := copal.OpenMap[int, []byte](db, "small", copal.WithCodec(codec.Bytes))
			if err != nil {
				t.Fatal(err)
			}
			return db, m
		}
		db, m := open()
		const keys, size, rounds = 100, 8 << 10, 100
		refused := 0
		for r := range rounds {
			for k := range keys {
				err := m.Set(k, valueOf(r*keys+k, size))
				for ; full(err); err = m.Set(k, valueOf(r*keys+k, size)) {
					if refused++; refused > 1_000_000 {
						t.Fatal("refused for ever: ", err)
					}
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		t.Logf("%d MiB written, %d refusals, %d bytes of log", rounds*keys*size>>20, refused, db.Stats().LogBytes)
		holdsLast := func() {
			t.Helper()
			for k := range keys {
				v, err := m.Load(k)
				if want := valueOf((rounds-1)*keys+k, size); err != nil || string(v) != string(want) {
					t.Fatalf("key %d: %d bytes, %v", k, len(v), err)
				}
			}
		}
		holdsLast()
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		db, m = open()
		holdsLast()
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
