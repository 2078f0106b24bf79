package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// CatchSignals makes a.Ctx end at the first SIGINT or SIGTERM, so that a command can end its work
// in order; a second one ends the process. The returned function undoes that. A command that only
// reads has nothing to end, and the first signal ends it.
func (a *App) CatchSignals() (release func()) { return a.Catch(os.Interrupt, syscall.SIGTERM) }

// Catch does the same as CatchSignals for other signals.
func (a *App) Catch(signals ...os.Signal) (release func()) {
	before := a.Ctx
	ctx, stop := signal.NotifyContext(before, signals...)
	context.AfterFunc(ctx, stop)
	a.Ctx = ctx
	return func() {
		stop()
		a.Ctx = before
	}
}

// Input returns standard input. A read of it ends with an error when a.Ctx does. The caller must
// not read from a.Stdin as well.
func (a *App) Input() io.Reader {
	return &input{ctx: a.Ctx, from: a.Stdin, reads: make(chan readResult, 1)}
}

// input reads ahead in a goroutine, since nothing can end a read of a terminal or a pipe.
type input struct {
	ctx    context.Context
	from   io.Reader
	buf    []byte          // of the read under way
	reads  chan readResult // its outcome
	under  bool            // it is under way
	unread []byte
	err    error // after the unread bytes
}

type readResult struct {
	n   int
	err error
}

func (in *input) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(in.unread) == 0 {
		if in.err != nil {
			return 0, in.err
		}
		if err := in.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, in.unread)
	in.unread = in.unread[n:]
	return n, nil
}

func (in *input) fill() error {
	if err := in.ctx.Err(); err != nil {
		return err
	}
	if in.from == nil {
		return UsageError("there is no standard input here")
	}
	if !in.under {
		if in.buf == nil {
			in.buf = make([]byte, 64<<10)
		}
		in.under = true
		go func() {
			n, err := in.from.Read(in.buf)
			in.reads <- readResult{n, err}
		}()
	}
	select {
	case r := <-in.reads:
		in.under, in.unread, in.err = false, in.buf[:r.n], r.err
		return nil
	case <-in.ctx.Done():
		return in.ctx.Err()
	}
}
