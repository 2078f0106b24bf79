package access

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/copaldb/copal/internal/sparing"
)

// A token of NewToken cannot be guessed, but people choose passwords. So wrong tokens cost time, by
// address: a few are answered at once, and then one a second. The token is examined at once and
// only the answer to a wrong one waits, so a right token is taken at once. Few answers wait at a
// time: beyond them a token of an address is refused unexamined, unless it has the form of
// NewToken's. Other addresses are not affected.

const (
	freeGuesses = 10          // wrong tokens of an address that are answered at once
	guessEvery  = time.Second // the time in which it gets back one of them
	mostWaiting = 8           // answers of an address that wait
	mostOrigins = 4096        // addresses that are remembered; all others count as one
)

var (
	// ErrWrongToken: no user has this name and token.
	ErrWrongToken = errors.New("access: unknown name or token")
	// ErrTooManyTokens: the token was not examined, because its address has presented too many
	// wrong ones.
	ErrTooManyTokens = errors.New("access: too many wrong tokens came from this address; try again in a few seconds")
)

// RetryAfter is the time after which an address that got ErrTooManyTokens may present one more
// token.
const RetryAfter = guessEvery

// guesses are the wrong tokens of late.
type guesses struct {
	mu   sync.Mutex
	paid map[netip.Prefix]time.Time // by when an address has paid for its wrong tokens
	log  sparing.Log
}

// Admit is Find for a client at an address, such as 192.0.2.1:1234. After wrong tokens, Admit
// delays its answer to more of them from the same address, for IPv6 the same /64, until ctx ends at
// the latest. It logs them at most once a minute.
func (u *Users) Admit(ctx context.Context, log *slog.Logger, address, name, token string) (*Grant, error) {
	from := sparing.Origin(address)
	if !isMade(token) && u.guesses.areTooMany(from) {
		u.warn(log, address)
		return nil, ErrTooManyTokens
	}
	if g := u.Find(name, token); g != nil {
		return g, nil
	}
	u.warn(log, address)
	late := time.NewTimer(u.guesses.wrong(from))
	defer late.Stop()
	select {
	case <-late.C:
	case <-ctx.Done():
	}
	return nil, ErrWrongToken
}

func (u *Users) warn(log *slog.Logger, address string) {
	u.guesses.log.Warn(log, "a wrong user or token", "address", address)
}

// isMade reports whether a token has the form of NewToken's, which cannot be guessed.
func isMade(token string) bool {
	return strings.HasPrefix(token, madePrefix) && len(token) == len(madePrefix)+madeLetters
}

// owedLocked is the time that an address has yet to pay.
func (g *guesses) owedLocked(from netip.Prefix) time.Duration { return time.Until(g.paid[from]) }

// placeLocked returns the key under which an address is remembered: a common one, if there are too
// many addresses.
func (g *guesses) placeLocked(from netip.Prefix) netip.Prefix {
	if _, known := g.paid[from]; known || len(g.paid) < mostOrigins {
		return from
	}
	return netip.Prefix{}
}

func (g *guesses) areTooMany(from netip.Prefix) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.owedLocked(g.placeLocked(from)) > (freeGuesses+mostWaiting-1)*guessEvery
}

// wrong counts a wrong token, and returns how long its answer has to wait.
func (g *guesses) wrong(from netip.Prefix) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.paid) >= mostOrigins {
		for at := range g.paid {
			if g.owedLocked(at) <= 0 {
				delete(g.paid, at)
			}
		}
	}
	if g.paid == nil {
		g.paid = map[netip.Prefix]time.Time{}
	}
	from = g.placeLocked(from)
	owed := max(g.owedLocked(from), 0) + guessEvery
	if owed > (freeGuesses+mostWaiting)*guessEvery {
		return 0 // it has the form of NewToken's: there is nothing to be learnt from it
	}
	g.paid[from] = time.Now().Add(owed)
	return owed - freeGuesses*guessEvery
}
