package turns

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// alone has the queue to itself, with n processors.
func alone(t *testing.T, n int, f func(ctx context.Context)) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
	synctest.Test(t, func(t *testing.T) {
		all = queue{}
		f(t.Context())
		if len(all.turns) != 0 || len(all.users) != 0 {
			t.Errorf("in the end %d run, and %d users wait", len(all.turns), len(all.users))
		}
	})
}

// A call without a turn takes one once it is long, and passes it on after its slice.
func TestLook(t *testing.T) {
	alone(t, 2, func(ctx context.Context) {
		var a, b Turn
		work := func(turn *Turn, d time.Duration) {
			time.Sleep(d)
			if err := turn.Look(ctx); err != nil {
				t.Fatal(err)
			}
		}
		a.Begin("a")
		work(&a, time.Millisecond)
		work(&a, free/2)
		if a.has != nil {
			t.Fatal("a short call has a turn")
		}
		work(&a, free/2)
		if a.has == nil {
			t.Fatal("a long call has no turn")
		}
		work(&a, slice)
		if a.has == nil {
			t.Fatal("a turn has passed on to nobody")
		}
		done := false
		go func() {
			b.Begin("b")
			b.Long(ctx)
			done = true
			b.End()
		}()
		synctest.Wait()
		if done {
			t.Fatal("two calls have the turn of one processor")
		}
		work(&a, slice/2)
		if done {
			t.Fatal("the turn has passed on before its end")
		}
		work(&a, slice)
		if !done || a.has == nil {
			t.Fatal("the turn has not passed on and come back")
		}
		a.End()
		a.End()
	})
}

// Of many calls of one user and one of another, that one comes second.
func TestUsersTakeTurns(t *testing.T) {
	alone(t, 5, func(ctx context.Context) {
		var first, second Turn
		for _, turn := range []*Turn{&first, &second} {
			turn.Begin("many")
			turn.Long(ctx)
		}
		var order []string
		begin := func(name, user string) {
			go func() {
				var turn Turn
				turn.Begin(user)
				turn.Long(ctx)
				order = append(order, name)
				turn.End()
			}()
			synctest.Wait()
		}
		for i := range 3 {
			begin(fmt.Sprint("many", i), "many")
		}
		begin("one", "one")
		first.End()
		synctest.Wait()
		second.End()
		if want := []string{"many0", "one", "many1", "many2"}; !slices.Equal(order, want) {
			t.Errorf("in order %q, and not %q", order, want)
		}
	})
}

// A call whose client is gone waits no longer, and takes no turn with it.
func TestGone(t *testing.T) {
	alone(t, 1, func(ctx context.Context) {
		var had, gone, next Turn
		had.Begin("a")
		had.Long(ctx)
		left, leave := context.WithCancel(ctx)
		var err, late error
		go func() {
			gone.Begin("b")
			err = gone.Long(left)
		}()
		synctest.Wait()
		leave()
		synctest.Wait()
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("a call of a client that is gone: %v", err)
		}
		gone.End()
		go func() {
			next.Begin("c")
			late = next.Long(ctx)
		}()
		had.End()
		synctest.Wait()
		if late != nil || next.has == nil {
			t.Fatalf("the next call has no turn: %v", late)
		}
		next.End()
	})
}

// A call that waits with its turn for another call does not keep that from going on, also if others have turns. A long
// queue is no reason to have more of them, and neither is a call that has had its turn for long.
func TestPatience(t *testing.T) {
	for _, processors := range []int{1, 5} {
		alone(t, processors, func(ctx context.Context) {
			var blocked, long Turn
			blocked.Long(ctx)
			goesOn := func(d time.Duration) {
				if processors > 1 {
					for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(slice) {
						long.Look(ctx)
					}
				}
			}
			goesOn(2 * patience)
			began := time.Now()
			const calls = 2 * int(patience/slice)
			var running, most atomic.Int64
			var all sync.WaitGroup
			for i := range calls {
				all.Go(func() {
					var turn Turn
					turn.Begin(strconv.Itoa(i))
					turn.Long(ctx)
					if n := running.Add(1); n > most.Load() {
						most.Store(n)
					}
					time.Sleep(slice) // it works
					running.Add(-1)
					turn.End()
				})
			}
			goesOn(time.Duration(calls) * slice)
			all.Wait()
			if took, most := time.Since(began), most.Load(); most > int64(max(1, processors-3)) || took > patience+time.Duration(calls)*slice {
				t.Errorf("%d processors: all have had their turns after %v, and %d at a time", processors, took, most)
			}
			long.End()
			blocked.End()
			blocked.End()
		})
	}
}

// A call that has had its turn for long, while no other waited, is not taken for blocked.
func TestRenewed(t *testing.T) {
	alone(t, 1, func(ctx context.Context) {
		var long, next Turn
		long.Long(ctx)
		for end := time.Now().Add(2 * patience); time.Now().Before(end); time.Sleep(slice / 2) {
			long.Look(ctx)
		}
		has := false
		go func() {
			next.Long(ctx)
			has = true
			next.End()
		}()
		synctest.Wait()
		if has {
			t.Error("two calls have the turn of one processor")
		}
		time.Sleep(slice)
		long.Look(ctx)
		if !has {
			t.Error("the turn has not passed on")
		}
		long.End()
	})
}

// A call that was taken for blocked, and goes on, takes a turn as others do.
func TestUnblocked(t *testing.T) {
	alone(t, 1, func(ctx context.Context) {
		var blocked, next Turn
		blocked.Long(ctx)
		time.Sleep(2 * patience)
		next.Begin("b")
		next.Long(ctx)
		went := false
		go func() {
			blocked.Look(ctx)
			went = true
			blocked.End()
		}()
		synctest.Wait()
		if went || next.has == nil {
			t.Error("two calls have the turn of one processor")
		}
		next.End()
		synctest.Wait()
		if !went {
			t.Error("it has no turn")
		}
	})
}

// A call whose client is gone leaves the queue at once, and waits no more.
func TestLeave(t *testing.T) {
	alone(t, 1, func(ctx context.Context) {
		var had, gone Turn
		had.Long(ctx)
		var err error
		go func() {
			err = gone.Long(ctx)
			gone.End()
		}()
		synctest.Wait()
		gone.Leave()
		synctest.Wait()
		if err != ErrLeft {
			t.Errorf("a call that has left: %v", err)
		}
		if err := gone.Long(ctx); err != ErrLeft {
			t.Errorf("a call that waits again: %v", err)
		}
		had.Leave()
		had.End()
	})
}

// A call that has ended its turn takes another one before it works on.
func TestEnd(t *testing.T) {
	alone(t, 1, func(ctx context.Context) {
		var a, b Turn
		a.Long(ctx)
		a.End()
		b.Long(ctx)
		worked := false
		go func() {
			a.Look(ctx)
			worked = true
			a.End()
		}()
		synctest.Wait()
		if worked {
			t.Error("two calls have the turn of one processor")
		}
		b.End()
		synctest.Wait()
		if !worked {
			t.Error("the call has no turn")
		}
	})
}
