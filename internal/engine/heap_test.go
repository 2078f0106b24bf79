package engine

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/copaldb/copal/internal/vfs"
)

// heap is the memory of the heap that is in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMemoryOfWritesInATransaction: each write takes at most 300 bytes beside its key and value until the
// transaction commits.
func TestMemoryOfWritesInATransaction(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	for _, of := range []struct {
		name   string
		writes int
		value  int
		delete bool
	}{
		{"small values", 20_000, 20, false},
		{"large values", 2_000, 20_480, false},
		{"deletions of what is there", 20_000, 0, true},
	} {
		t.Run(of.name, func(t *testing.T) {
			if of.delete {
				for n := range of.writes {
					mustSet(t, s, fmt.Sprint("key ", n), "v")
				}
			}
			value := make([]byte, of.value)
			err := s.Transact(Process, func(tx *Tx) error {
				before, own := heap(), int64(0)
				for n := range of.writes {
					w := Write{Key: fmt.Append(nil, "key ", n), Value: value, Delete: of.delete}
					own += int64(len(w.Key) + len(w.Value))
					if err := tx.Write(nil, &w); err != nil {
						return err
					}
				}
				each := (heap() - before - own) / int64(of.writes)
				t.Log(each, "bytes a write")
				if each > 300 {
					t.Errorf("a write takes %d bytes beside its own", each)
				}
				for range 3 { // replaced writes are not kept
					for n := range of.writes {
						if err := tx.Write(nil, &Write{Key: fmt.Append(nil, "key ", n), Value: value, Delete: of.delete}); err != nil {
							return err
						}
					}
				}
				if again := (heap() - before - own) / int64(of.writes); again > 300+int64(of.value)/2 {
					t.Errorf("a write that replaces three others takes %d bytes beside its own", again)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}
