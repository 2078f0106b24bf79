package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// The first signal ends the context, and the process goes on.
func TestSignalsEndTheContext(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no process can send a signal to itself")
	}
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		a := NewApp(nil, io.Discard, io.Discard)
		release := a.CatchSignals()
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if err := self.Signal(signal); err != nil {
			t.Fatal(err)
		}
		<-a.Ctx.Done()
		if release(); a.Ctx.Err() != nil {
			t.Errorf("%v: the context of before has ended, too", signal)
		}
	}
}

// A read that nothing can end does not keep a command from ending.
func TestInputEndsWithTheContext(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	a := NewApp(r, io.Discard, io.Discard)
	a.Ctx = ctx
	in := a.Input()
	go w.Write([]byte("abc"))
	p := make([]byte, 2)
	for _, want := range []string{"ab", "c"} {
		n, err := in.Read(p)
		if err != nil || string(p[:n]) != want {
			t.Errorf("%q, %v", p[:n], err)
		}
	}
	cancel()
	if n, err := in.Read(p); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d, %v", n, err)
	}
}

func TestInputIsAllOfStandardInput(t *testing.T) {
	want := strings.Repeat("0123456789", 20_000)
	got, err := io.ReadAll(NewApp(strings.NewReader(want), nil, nil).Input())
	if err != nil || string(got) != want {
		t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
	}
}
