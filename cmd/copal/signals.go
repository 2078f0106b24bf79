package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// catchSignals makes a.ctx end at the first SIGINT or SIGTERM, so that what has been begun
// can be ended in order; a second one ends the process. The returned function takes that
// back. A command that only reads has nothing to end, and the first signal ends it.
func (a *app) catchSignals() (release func()) { return a.catch(os.Interrupt, syscall.SIGTERM) }

func (a *app) catch(signals ...os.Signal) (release func()) {
	before := a.ctx
	ctx, stop := signal.NotifyContext(before, signals...)
	context.AfterFunc(ctx, stop)
	a.ctx = ctx
	return func() {
		stop()
		a.ctx = before
	}
}

// input is standard input, of which a read ends with an error when a.ctx does. A caller
// must not read from a.stdin as well.
func (a *app) input() io.Reader {
	return &input{ctx: a.ctx, from: a.stdin, reads: make(chan readResult, 1)}
}

// input reads ahead in a goroutine, since nothing can end a read of a terminal or a pipe.
type input struct {
	ctx    context.Context
	from   io.Reader
	buf    []byte          // of the read under way
	reads  chan readResult // its outcome
	under  bool            // it is under way
	unread []byte
	err    error // behind unread
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
		return usageError{"there is no standard input here"}
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
