package engine

import (
	"runtime"
	"testing"

	"github.com/copaldb/copal/internal/collection"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// A change of a collection may be in the log and not yet in the index: its writer has the lock of the elements until it
// is. CollectionOf waits for that.
func TestCollectionOfWaitsForItsWriter(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	const id = 1
	mu := s.lockOf(s.spaces[0].route(record.Element, collection.OwnerKey(id)).hash(collection.OwnerKey(id)))
	mu.Lock()
	found := make(chan error, 1)
	go func() {
		_, _, err := s.CollectionOf(id)
		found <- err
	}()
	for range 1000 {
		runtime.Gosched()
	}
	early := len(found) > 0
	mu.Unlock()
	if early {
		t.Error("it has not waited")
	}
	if err := <-found; err != ErrNotFound {
		t.Error(err)
	}
}
