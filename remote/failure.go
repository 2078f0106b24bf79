package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
)

// The meaning of errors.
//
//   - An error reply is definite: the server has not carried out the command.
//   - An error of dialing is definite, too: nothing was sent.
//   - Any other error of a write is ErrUnknown. The client does not report whether the bytes had
//     left when the connection ended, so it counts as sent. A read returns the cause itself.
//
// One case needs care. Calls share connections, and the client makes one with the context of the
// call that happens to need it first. If that context ends, all calls that wait for the connection
// get its error, and none of them was sent. So the error of a context that is not the caller's own
// means that nothing was sent, and the call starts again (foreign).
//
// The end of the time limit is an error of its own (errTimeout), and never an error of a context.

// unsent is the error of a connection that could not be made.
type unsent struct{ error }

func (e unsent) Unwrap() error { return e.error }

// timeoutError is the error of a server that does not answer within the time limit. It is no error
// of a context, so that nothing takes it for the caller's.
type timeoutError struct{}

func (timeoutError) Error() string        { return "it took longer than Config.Timeout" }
func (timeoutError) Timeout() bool        { return true }
func (timeoutError) Is(target error) bool { return target == os.ErrDeadlineExceeded }

var errTimeout error = timeoutError{}

// ended returns the error of a context that has ended, even if the timer of its deadline has not
// fired yet: errTimeout if it was the time limit.
func ended(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done()
	}
	err := ctx.Err()
	if err != nil && context.Cause(ctx) == errTimeout {
		return errTimeout
	}
	return err
}

// foreign reports whether an error comes from another call's context.
func foreign(ctx context.Context, err error) bool {
	if _, not := errors.AsType[unsent](err); not {
		return errors.Is(err, context.Canceled) && ended(ctx) == nil
	}
	return (err == context.Canceled || err == context.DeadlineExceeded) && ended(ctx) == nil
}

// failed is the error of commands without a reply.
func (l *link) failed(ctx context.Context, err error, wrote bool) error {
	var not unsent
	own := ended(ctx)
	sent := !errors.As(err, &not) && err != rueidis.ErrNoSlot
	if own == nil && l.closed.Load() {
		own = copal.ErrClosed
	}
	switch {
	case own == nil && !errors.Is(err, context.DeadlineExceeded), errors.Is(err, errTimeout):
	case own == nil || own == errTimeout && errors.Is(err, context.DeadlineExceeded):
		err = errTimeout // it is not the caller's context
	case !errors.Is(err, own):
		err = errors.Join(own, err)
	}
	switch {
	case wrote && sent:
		return fmt.Errorf("%w: %w", copal.ErrUnknown, err)
	case own != nil && own != errTimeout:
		return own
	case !sent:
		return fmt.Errorf("copal: there is no connection to the store: %w", err)
	}
	return fmt.Errorf("copal: the store does not answer: %w", err)
}

// refusal is an error reply.
func refusal(err error) error {
	reply, ok := err.(*rueidis.RedisError)
	if !ok {
		return fmt.Errorf("copal: the answer of the store: %w", err)
	}
	if codeOf(reply.Error()) == "CONFLICT" {
		return driver.ErrConflict
	}
	return meaning(codeOf(reply.Error()), err)
}

// refused reports whether an error is a reply that begins so.
func refused(err error, codes ...string) bool {
	reply, ok := errors.AsType[*rueidis.RedisError](err)
	if !ok {
		return false
	}
	code := codeOf(reply.Error())
	for _, c := range codes {
		if c == code {
			return true
		}
	}
	return false
}

// fits returns err, and if that says that the key holds something of another type, of which.
func (r *redis) fits(ctx context.Context, key []byte, err error) error {
	reply, ok := errors.AsType[*rueidis.RedisError](err)
	if !ok || !strings.Contains(reply.Error(), "WRONGTYPE") { // the error of a script has it within
		return err
	}
	return r.misfit(ctx, key)
}

// misfit is the error of a key that holds something of another type than the one asked for.
func (r *redis) misfit(ctx context.Context, key []byte) error {
	switch of, err := r.Type(ctx, key); {
	case errors.Is(err, engine.ErrNotFound), err == nil && of == "":
		return fmt.Errorf("%w: key %q has a value, and no collection, or has gone meanwhile", engine.ErrType, key)
	case err != nil:
		return err
	default:
		return &engine.CollectionError{Key: key, Type: string(of)}
	}
}
