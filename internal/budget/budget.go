package budget

import (
	"errors"
	"sync"
)

// ErrFull is the error of Take: the memory of all clients is in use, and no other user has more of it.
var ErrFull = errors.New("the memory for requests and replies of clients is used up")

// Budget is a number of bytes that clients share.
type Budget struct {
	most int64

	mu       sync.Mutex
	used     int64
	accounts map[*Account]struct{} // that have bytes
	users    map[string]int64      // the bytes of each user that has some
}

// New returns a budget of so many bytes.
func New(most int64) *Budget {
	return &Budget{most: most, accounts: map[*Account]struct{}{}, users: map[string]int64{}}
}

// Used is the number of bytes that clients have.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Account has the bytes of one client. Its methods may be called by several goroutines.
type Account struct {
	b     *Budget
	evict func()

	user    string // guarded by b.mu, as the fields below
	used    int64
	evicted bool
}

// Open returns an account without bytes for a client of a user. evict ends the client, and is called at most once, with
// no lock of the budget held.
func (b *Budget) Open(user string, evict func()) *Account {
	return &Account{b: b, evict: evict, user: user}
}

// Take adds n bytes to the account. Where the budget has less, it evicts clients until it has n: of the user with
// the most bytes the client with the most. The bytes of an evicted client do not count, although its goroutine may
// need a moment to free them. If that client is the one that asks, Take changes nothing and returns ErrFull. The error
// of an evicted client is ErrFull, too.
func (a *Account) Take(n int64) error {
	evicted, err := a.take(n)
	for _, other := range evicted {
		other.evict()
	}
	return err
}

func (a *Account) take(n int64) (evicted []*Account, err error) {
	b := a.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.evicted {
		return nil, ErrFull
	}
	a.addLocked(n)
	for b.used > b.most {
		largest := b.largestLocked(a)
		if largest == a {
			a.addLocked(-n)
			return evicted, ErrFull
		}
		largest.addLocked(-largest.used)
		largest.evicted = true
		evicted = append(evicted, largest)
	}
	return evicted, nil
}

// Give gives n bytes of the account back.
func (a *Account) Give(n int64) {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	if !a.evicted {
		a.addLocked(-n)
	}
}

// Close gives all bytes of the account back. It may be used again after that, unless it was evicted.
func (a *Account) Close() {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	a.addLocked(-a.used)
}

// Used is the number of bytes of the account.
func (a *Account) Used() int64 {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	return a.used
}

// Belong makes the client one of another user.
func (a *Account) Belong(user string) {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	n := a.used
	a.addLocked(-n)
	a.user = user
	a.addLocked(n)
}

func (a *Account) addLocked(n int64) {
	b := a.b
	a.used += n
	b.used += n
	b.users[a.user] += n
	if b.users[a.user] == 0 {
		delete(b.users, a.user)
	}
	if a.used == 0 {
		delete(b.accounts, a)
	} else {
		b.accounts[a] = struct{}{}
	}
}

// largestLocked is the account with the most bytes of the user with the most: a, if no other has more.
func (b *Budget) largestLocked(a *Account) *Account {
	largest := a
	for other := range b.accounts {
		same := other.user == largest.user
		if same && other.used > largest.used || !same && b.users[other.user] > b.users[largest.user] {
			largest = other
		}
	}
	return largest
}
