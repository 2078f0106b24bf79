package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

// stopAt ends a context when so many lines have been written.
type stopAt struct {
	bytes.Buffer
	lines int
	stop  func()
}

func (w *stopAt) Write(p []byte) (int, error) {
	if w.lines -= bytes.Count(p, []byte("\n")); w.lines <= 0 {
		w.stop()
	}
	return w.Buffer.Write(p)
}

// An interrupted watch has succeeded.
func TestWatchEndsWithSuccess(t *testing.T) {
	dir := t.TempDir()
	db, err := copal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := fillStore(db, 3); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	out, errs := &stopAt{lines: 3, stop: cancel}, &bytes.Buffer{}
	a := cli.NewApp(nil, out, errs)
	a.Ctx = ctx
	if code := carryOut(a, []string{"watch", dir, "--after", "0"}); code != cli.ExitOK {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if got := strings.Count(out.String(), " set key-"); got != 3 {
		t.Errorf("%d lines: %s", got, out)
	}
}

// A watch of a store that has no record yet prints the first writes within a tenth of a second.
func TestWatchOfAStoreWithoutARecord(t *testing.T) {
	dir := t.TempDir()
	cli.NewApp(nil, nil, nil).CatchSignals()() // its goroutine is the process's, outside of the bubble
	synctest.Test(t, func(t *testing.T) {
		db, err := copal.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out, errs := &stopAt{lines: 3, stop: cancel}, &bytes.Buffer{}
		a := cli.NewApp(nil, out, errs)
		a.Ctx = ctx
		done := make(chan int, 1)
		go func() { done <- carryOut(a, []string{"watch", dir}) }()
		synctest.Wait()
		if err := fillStore(db, 3); err != nil {
			t.Fatal(err)
		}
		select {
		case code := <-done:
			if got := strings.Count(out.String(), " set key-"); code != cli.ExitOK || got != 3 {
				t.Errorf("exit code %d, %d lines: %s%s", code, got, out, errs)
			}
		case <-time.After(100 * time.Millisecond): // of the bubble's clock
			t.Error("nothing is printed")
			cancel()
			<-done
		}
	})
}

// The expiry of an entry is printed, in text and in JSON.
func TestWatchTellsWhatExpires(t *testing.T) {
	dir := t.TempDir()
	cli.NewApp(nil, nil, nil).CatchSignals()() // its goroutine is the process's, outside of the bubble
	synctest.Test(t, func(t *testing.T) {
		db, err := copal.Open(dir, copal.ExpiryEvents())
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := db.Raw().SetTTL([]byte("token"), []byte("x"), time.Second); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // of the bubble's clock
		for _, args := range [][]string{{}, {"--json"}} {
			var out, errs bytes.Buffer
			code := carryOut(cli.NewApp(nil, &out, &errs), append([]string{"watch", dir, "--after", "0", "--limit", "2"}, args...))
			want := map[bool]string{false: " expired token\n", true: `"op":"expired","key":"token"`}[len(args) > 0]
			if code != cli.ExitOK || !strings.Contains(out.String(), want) || strings.Contains(out.String(), "del") {
				t.Errorf("%v: exit code %d, %s%s", args, code, &out, &errs)
			}
		}
		for want, args := range map[string][]string{`"expired":1`: {"log", dir, "--json"}, " expired\n": {"log", dir, "token"}} {
			var out, errs bytes.Buffer
			code := carryOut(cli.NewApp(nil, &out, &errs), args)
			if code != cli.ExitOK || strings.Count(out.String(), want) != 1 {
				t.Errorf("%v: exit code %d, %s%s", args, code, &out, &errs)
			}
		}
	})
}
