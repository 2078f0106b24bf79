package expiry

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/vfs"
)

// TestCloseTellsNothing: the error handler is not called when Close begins amid the work of a
// store's goroutines. Readers look every now and then, entries expire, segments are compacted,
// walks keep orders.
func TestCloseTellsNothing(t *testing.T) {
	rounds := 6
	if kit.Long() {
		rounds = 2000
	}
	for i := range rounds {
		synctest.Test(t, func(t *testing.T) { closeTellsNothing(t, i) })
	}
}

func closeTellsNothing(t *testing.T, round int) {
	fsys := vfs.NewMem()
	told := copal.WithErrorHandler(func(err error) {
		if errors.Is(err, copal.ErrClosed) {
			t.Errorf("told of Close: %v", err)
		}
	})
	opts := []copal.Option{told, kit.WithSegmentBytes(2000), copal.ExpiryEvents(), copal.Ordered(), copal.WithAutoCompact(5*time.Millisecond, 1.1), copal.WithHistory(time.Second)}
	db := kit.OpenOn(t, fsys, opts...)
	m := kit.MapOf[string, int](t, db, "m")
	reader := kit.OpenOn(t, fsys, append(opts, copal.ReadOnly())...)
	var busy sync.WaitGroup
	busy.Go(func() {
		for n := 0; m.SetTTL(fmt.Sprint(n%50), n, time.Duration(1+n%20)*time.Millisecond) == nil; n++ {
			m.With(copal.Async).SetTTL(fmt.Sprint("a", n%50), n, 3*time.Millisecond)
			if n%10 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
	})
	time.Sleep(time.Duration(round*166%1000) * time.Millisecond) // when readers look, and entries expire
	for range round % 7 {
		runtime.Gosched()
	}
	kit.MustClose(t, reader)
	kit.MustClose(t, db)
	busy.Wait()
}
