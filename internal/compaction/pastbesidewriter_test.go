package compaction_test

import (
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// listed calls something before a directory is listed.
type listed struct {
	vfs.FS
	before *func()
}

func (l listed) List(dir string) ([]string, error) {
	(*l.before)()
	return l.FS.List(dir)
}

// TestPastBesideWriter: where a window of history is kept, compaction reads the log as of its beginning. That others
// begin segments meanwhile is no damage.
func TestPastBesideWriter(t *testing.T) {
	before := func() {}
	clock := logtest.NewClock()
	s := storetest.Open(t, listed{vfs.NewMem(), &before}, func(o *engine.Options) { o.SegmentBytes, o.Window, o.Clock = 1000, 1, clock })
	defer storetest.Close(t, s)
	storetest.FillFrom(t, s, 0, 200)
	storetest.SealTail(t, s)
	clock.Advance(time.Second)
	lists := 0
	before = func() {
		if lists++; lists > 3 {
			return
		}
		for range 4 {
			storetest.Set(t, s, "meanwhile", strings.Repeat("v", 900))
		}
	}
	if err := storetest.Compact(s); err != nil {
		t.Error(err)
	}
	if lists == 0 || s.Log().Compacted.Load() == 0 {
		t.Error("nothing was compacted")
	}
}
