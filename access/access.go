package access

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/copaldb/copal"
)

// All, in the lists of a User, means all maps and the raw keys that belong to none.
const All = "*"

// User is a client that a server admits, with its rights.
type User struct {
	Name   string
	Tokens []string // the Hash of each token that the user may present
	Read   []string // names of maps, or All
	Write  []string // names of maps that the user may read and write; All also permits administration of the server
}

// Default is the name of the only user of a server with a password. Redis clients that give no name
// log in as this user.
const Default = "default"

// Password returns a user that may do everything, and whose token is a password.
func Password(password string) User {
	return User{Name: Default, Tokens: []string{Hash(password)}, Write: []string{All}}
}

const hashName = "sha256:"

// NewToken returns a token that cannot be guessed: 160 random bits.
func NewToken() string { return madePrefix + (rand.Text() + rand.Text())[:madeLetters] }

const (
	madePrefix  = "copal_"
	madeLetters = 32
)

// Hash returns the form in which a token is kept: its SHA-256. It does not reveal the token unless
// that can be guessed; a token of NewToken cannot.
func Hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hashName + hex.EncodeToString(sum[:])
}

// Users is a list of users, which may be replaced while servers use it. The zero Users is empty.
type Users struct {
	guesses guesses
	setting sync.Mutex
	now     atomic.Pointer[map[[sha256.Size]byte]*Grant] // by the hashes of tokens
}

// New returns Users with the given users. Its errors are those of Set.
func New(users ...User) (*Users, error) {
	u := new(Users)
	return u, u.Set(users...)
}

// Set replaces the users. A user in both lists with the same tokens and rights is not affected; the
// Grant of any other user is revoked. Names must be unique and consist of letters, digits and . _ -
// @; each user needs at least one token, which no other user has; names of maps must not be empty.
// Otherwise Set returns an error, and nothing has changed.
func (u *Users) Set(users ...User) error {
	u.setting.Lock()
	defer u.setting.Unlock()
	before := map[string]*Grant{}
	for _, g := range u.all() {
		before[g.user.Name] = g
	}
	now, names := map[[sha256.Size]byte]*Grant{}, map[string]bool{}
	for _, user := range users {
		switch {
		case !isName(user.Name):
			return fmt.Errorf("access: the name %q has other characters than ASCII letters, digits and . _ - @", user.Name)
		case names[user.Name]:
			return fmt.Errorf("access: there are two users %q", user.Name)
		case len(user.Tokens) == 0:
			return fmt.Errorf("access: %s has no token", user.Name)
		case slices.Contains(user.Read, ""), slices.Contains(user.Write, ""):
			return fmt.Errorf("access: %s: the name of a map is empty", user.Name)
		}
		names[user.Name] = true
		g := before[user.Name]
		if g == nil || !g.user.equal(&user) {
			g = newGrant(user)
		}
		for _, text := range user.Tokens {
			sum, err := parseHash(text)
			switch {
			case err != nil:
				return fmt.Errorf("access: %s: %w", user.Name, err)
			case now[sum] == g:
				return fmt.Errorf("access: %s has a token twice", user.Name)
			case now[sum] != nil:
				return fmt.Errorf("access: %s and %s have the same token", now[sum].user.Name, user.Name)
			}
			now[sum] = g
		}
	}
	stay := map[*Grant]bool{}
	for _, g := range now {
		stay[g] = true
	}
	u.now.Store(&now)
	for _, g := range before {
		if !stay[g] {
			g.revoke()
		}
	}
	return nil
}

func isName(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@") == ""
}

func parseHash(text string) (sum [sha256.Size]byte, err error) {
	digits, ok := strings.CutPrefix(text, hashName)
	if n, err := hex.Decode(sum[:], []byte(digits[:min(len(digits), 2*len(sum))])); !ok || err != nil || n < len(sum) || len(digits) > 2*len(sum) {
		return sum, fmt.Errorf("a token is kept as %s and 64 hexadecimal digits, which Hash returns", hashName)
	}
	if sum == sha256.Sum256(nil) {
		return sum, fmt.Errorf("the token is empty")
	}
	return sum, nil
}

func (u *Users) all() map[[sha256.Size]byte]*Grant {
	if now := u.now.Load(); now != nil {
		return *now
	}
	return nil
}

// Find returns the Grant of the user with a token, nil if no user has it. If name is empty or
// Default, only the token is compared.
func (u *Users) Find(name, token string) *Grant {
	g := u.all()[sha256.Sum256([]byte(token))] // the time that this takes depends on the hash, and not on the token
	if g == nil || name != "" && name != Default && name != g.user.Name {
		return nil
	}
	return g
}

// Names returns the names of the users, sorted.
func (u *Users) Names() (names []string) {
	for _, g := range u.all() {
		names = append(names, g.user.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Grant is the rights of a user. A nil Grant permits nothing.
type Grant struct {
	user        User
	read, write [][]byte // prefixes of keys
	ctx         context.Context
	revoke      context.CancelFunc
}

// Everything is the Grant of every client of a server without users and password: all rights, never
// revoked.
var Everything = &Grant{read: [][]byte{nil}, write: [][]byte{nil}, ctx: context.Background()}

func newGrant(user User) *Grant {
	g := &Grant{user: user, write: prefixes(user.Write)}
	g.user.Tokens, g.user.Read, g.user.Write = slices.Clone(user.Tokens), slices.Clone(user.Read), slices.Clone(user.Write)
	g.read = append(prefixes(user.Read), g.write...)
	g.ctx, g.revoke = context.WithCancel(context.Background())
	return g
}

func prefixes(names []string) (list [][]byte) {
	for _, name := range names {
		if name == All {
			list = append(list, nil)
		} else {
			list = append(list, copal.MapPrefix(name))
		}
	}
	return list
}

func (u *User) equal(v *User) bool {
	same := func(a, b []string) bool {
		return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
	}
	return u.Name == v.Name && same(u.Tokens, v.Tokens) && same(u.Read, v.Read) && same(u.Write, v.Write)
}

// Name returns the name of the user, "" for Everything and for a nil Grant.
func (g *Grant) Name() string {
	if g == nil {
		return ""
	}
	return g.user.Name
}

// MayRead reports whether the user may read all entries whose raw key begins with a prefix:
// copal.MapPrefix(name) for the entries of a map, nil for all entries.
func (g *Grant) MayRead(prefix []byte) bool { return g != nil && anyBegins(g.read, prefix) }

// MayWrite is MayRead for writing.
func (g *Grant) MayWrite(prefix []byte) bool { return g != nil && anyBegins(g.write, prefix) }

// MayWriteSome reports whether the user may write anything at all.
func (g *Grant) MayWriteSome() bool { return g != nil && len(g.write) > 0 }

// MayAdminister reports whether the user may administer the server, as users that may write
// everything do.
func (g *Grant) MayAdminister() bool { return g.MayWrite(nil) }

// Revoked returns a context that ends when the rights of the user change or the user is removed:
// servers then close the user's connections.
func (g *Grant) Revoked() context.Context {
	if g == nil || g.ctx == nil {
		return nobody
	}
	return g.ctx
}

// nobody is the context of a nil Grant: it has ended.
var nobody = func() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}()

func anyBegins(list [][]byte, key []byte) bool {
	for _, prefix := range list {
		if bytes.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}
