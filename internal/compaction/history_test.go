package compaction_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// TestHistoryOfADeletedDeadline: beside a snapshot of the index, compaction makes a deletion of a set with a deadline
// that counts no more. That deletion is no version of the entry.
func TestHistoryOfADeletedDeadline(t *testing.T) {
	mem := vfs.NewMem()
	options := func(o *engine.Options) { o.SegmentBytes = 1000 }
	s := storetest.Open(t, mem, options)
	storetest.Set(t, s, "other", "value")
	storetest.Close(t, s) // with a snapshot of the index
	s = storetest.Open(t, mem, options)
	w := &engine.Write{Key: []byte("k"), Value: []byte("value"), Expiry: uint64(time.Now().Add(time.Hour).UnixMilli())}
	if _, err := s.Write(nil, w); err != nil {
		t.Fatal(err)
	}
	storetest.Delete(t, s, "k")
	for i := range 100 {
		storetest.Set(t, s, "other", fmt.Sprint("value ", i))
	}
	if err := s.Log().SyncEnded(); err != nil {
		t.Fatal(err)
	}
	storetest.CompactRange(t, s, 0, 2)
	for v, err := range s.History([]byte("k")) {
		if err != nil {
			break // the history is lost from there
		}
		t.Logf("%+v", v)
		if v.Expired {
			t.Errorf("version %d has expired, an hour early", v.Seq)
		}
	}
	storetest.Close(t, s)
}
