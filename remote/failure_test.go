package remote

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/copaldb/copal"
)

// TestFailed: the meaning of the client's errors, for a read and for a write, with a context that
// has ended or not.
func TestFailed(t *testing.T) {
	ends, cancel := context.WithCancel(t.Context())
	cancel()
	past, stop := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer stop()
	late, over := context.WithDeadlineCause(t.Context(), time.Unix(0, 0), errTimeout)
	defer over()
	notDialed := unsent{&net.OpError{Op: "dial", Err: errors.New("refused")}}
	for name, c := range map[string]struct {
		ctx            context.Context
		err            error
		unknown, other bool // the outcome of a write; the error is of another call's context
		is             error
	}{
		"the connection ends":        {t.Context(), io.EOF, true, false, io.EOF},
		"no connection":              {t.Context(), notDialed, false, false, notDialed.error},
		"no node":                    {t.Context(), rueidis.ErrNoSlot, false, false, rueidis.ErrNoSlot},
		"own context":                {ends, context.Canceled, true, false, context.Canceled},
		"own context, and an end":    {ends, io.EOF, true, false, context.Canceled},
		"own context, while dialing": {ends, unsent{context.Canceled}, false, false, context.Canceled},
		"own deadline":               {past, context.DeadlineExceeded, true, false, context.DeadlineExceeded},
		"another's context":          {t.Context(), context.Canceled, true, true, context.Canceled},
		"another's deadline":         {t.Context(), context.DeadlineExceeded, true, true, os.ErrDeadlineExceeded},
		"the time limit":             {late, context.DeadlineExceeded, true, false, os.ErrDeadlineExceeded},
		"the time limit, and an end": {late, io.EOF, true, false, io.EOF},
		"the limit, while dialing":   {late, unsent{errGreeting}, false, false, errGreeting},
		"another's, while dialing":   {t.Context(), unsent{context.Canceled}, false, true, context.Canceled},
	} {
		l := &link{}
		wrote, read := l.failed(c.ctx, c.err, true), l.failed(c.ctx, c.err, false)
		if errors.Is(wrote, copal.ErrUnknown) != c.unknown || errors.Is(read, copal.ErrUnknown) || !errors.Is(wrote, c.is) || !errors.Is(read, c.is) {
			t.Errorf("%s: of a write %v, of a read %v", name, wrote, read)
		}
		if errors.Is(wrote, context.DeadlineExceeded) != (c.ctx == past) {
			t.Errorf("%s: it is the caller's deadline, or not: %v", name, wrote)
		}
		if foreign(c.ctx, c.err) != c.other {
			t.Errorf("%s: it is another call's, or not", name)
		}
	}
}
