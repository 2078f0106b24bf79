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

// All stands for all maps, and for the raw keys that belong to none, in the lists of a User.
const All = "*"

// User is somebody who may come through a door.
type User struct {
	Name   string
	Tokens []string // what Hash returns of each token that the user may show
	Read   []string // names of maps, or All
	Write  []string // names of maps that the user may read, too, or All, which is to look after the server as well
}

// Default is the name of the user of a door that has a password and nobody else. Clients of Redis that give no name
// mean it.
const Default = "default"

// Password is a user who may do everything, and whose token is a password.
func Password(password string) User {
	return User{Name: Default, Tokens: []string{Hash(password)}, Write: []string{All}}
}

const hashName = "sha256:"

// NewToken makes a token that nobody can guess: 160 random bits.
func NewToken() string { return madePrefix + (rand.Text() + rand.Text())[:madeLetters] }

const (
	madePrefix  = "copal_"
	madeLetters = 32
)

// Hash is what is kept of a token: its SHA-256, from which the token is not found as long as nobody can guess it, as
// one of NewToken.
func Hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hashName + hex.EncodeToString(sum[:])
}

// Users are those who may come. They may be set anew while doors ask. The zero Users are nobody.
type Users struct {
	guesses guesses
	setting sync.Mutex
	now     atomic.Pointer[map[[sha256.Size]byte]*Grant] // by the hashes of tokens
}

// New returns users. It fails as Set does.
func New(users ...User) (*Users, error) {
	u := new(Users)
	return u, u.Set(users...)
}

// Set takes other users for those before. A user in both lists with the same tokens and rights goes on undisturbed; the
// Grant of any other user is revoked. On an error nothing has changed: a user has a name of letters, digits and
// . _ - @ that no other has, and a token at least, no two have the same token, and the name of a map is not empty.
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
			return fmt.Errorf("access: a name is of ASCII letters, digits and . _ - @, and not %q", user.Name)
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
		return sum, fmt.Errorf("the empty token is none")
	}
	return sum, nil
}

func (u *Users) all() map[[sha256.Size]byte]*Grant {
	if now := u.now.Load(); now != nil {
		return *now
	}
	return nil
}

// Find returns what the user with a token may do, nil if no user has it. The name may be left out, or be Default: then
// the token alone counts.
func (u *Users) Find(name, token string) *Grant {
	g := u.all()[sha256.Sum256([]byte(token))] // the time that this takes tells of the hash, and nothing of the token
	if g == nil || name != "" && name != Default && name != g.user.Name {
		return nil
	}
	return g
}

// Names are the names of the users, in order.
func (u *Users) Names() (names []string) {
	for _, g := range u.all() {
		names = append(names, g.user.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Grant is what a user may do. A nil Grant is one of nobody, who may do nothing.
type Grant struct {
	user        User
	read, write [][]byte // prefixes of keys
	ctx         context.Context
	revoke      context.CancelFunc
}

// Everything is the grant of everybody at a door that asks for no token.
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

// Name is the name of the user, "" for Everything and for nobody.
func (g *Grant) Name() string {
	if g == nil {
		return ""
	}
	return g.user.Name
}

// MayRead reports whether the user may read all entries whose key in the store, as package copal's Raw has it, begins
// with a prefix: those of a map with copal.MapPrefix(name), all that there are with nil.
func (g *Grant) MayRead(prefix []byte) bool { return g != nil && anyBegins(g.read, prefix) }

// MayWrite is MayRead for writing.
func (g *Grant) MayWrite(prefix []byte) bool { return g != nil && anyBegins(g.write, prefix) }

// MayWriteSome reports whether the user may write anything at all.
func (g *Grant) MayWriteSome() bool { return g != nil && len(g.write) > 0 }

// MayAdminister reports whether the user may look after the server. It is who may write everything.
func (g *Grant) MayAdminister() bool { return g.MayWrite(nil) }

// Revoked is done once the user has other rights, or none: then connections end that the user has opened.
func (g *Grant) Revoked() context.Context {
	if g == nil || g.ctx == nil {
		return nobody
	}
	return g.ctx
}

// nobody is a context that is done.
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
