package remote

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
)

// writes are each sort of write of an entry and of a collection. Each changes the count of tally by
// one when it is carried out once, and the word is only in its request.
var writes = []struct {
	name  string
	do    func(ctx context.Context, d driver.Driver, key []byte) error
	tally string // command that returns how often
	word  string // which is in the request that carries it out
}{
	{"Set", func(ctx context.Context, d driver.Driver, key []byte) error {
		_, err := d.Write(ctx, &driver.Write{Key: key, Value: []byte("cut-here")})
		return err
	}, "EXISTS", "cut-here"},
	{"Set of a new one", func(ctx context.Context, d driver.Driver, key []byte) error {
		_, err := d.Write(ctx, &driver.Write{Key: key, Value: []byte("cut-here"), If: &driver.Entry{}})
		return err
	}, "EXISTS", "cut-here"},
	{"Push", func(ctx context.Context, d driver.Driver, key []byte) error {
		_, err := d.(driver.Collections).Push(ctx, driver.Of{Key: key, Type: engine.ListType}, []driver.Element{{Value: []byte("cut-here")}}, true, true, engine.Process)
		return err
	}, "LLEN", "cut-here"},
	{"Insert", func(ctx context.Context, d driver.Driver, key []byte) error {
		return d.(driver.Collections).Insert(ctx, driver.Of{Key: key, Type: engine.ListType}, 0, []driver.Element{{Value: []byte("cut-here")}}, engine.Process)
	}, "LLEN", "EXEC"},
	{"Update", func(ctx context.Context, d driver.Driver, key []byte) error {
		of, next := driver.Of{Key: key, Type: engine.SetType}, driver.Element{Sub: []byte("cut-here")}
		return d.(driver.Collections).Update(ctx, of, next.Sub, engine.Process, func(*driver.Element) (*driver.Element, error) { return &next, nil })
	}, "SCARD", "EXEC"},
	{"Update of a field", func(ctx context.Context, d driver.Driver, key []byte) error {
		of, next := driver.Of{Key: key, Type: engine.HashType}, driver.Element{Sub: []byte("cut-here"), Value: []byte("1")}
		return d.(driver.Collections).Update(ctx, of, next.Sub, engine.Process, func(*driver.Element) (*driver.Element, error) { return &next, nil })
	}, "HLEN", "EXEC"},
	{"WriteAll", func(ctx context.Context, d driver.Driver, key []byte) error {
		return d.WriteAll(ctx, []*driver.Write{{Key: key, Value: []byte("cut-here")}, {Key: append([]byte("x"), key...), Delete: true}})
	}, "EXISTS", "EXEC"},
}

// wordOf is the word of a write on a server, which knows the scripts from then on.
func wordOf(t *testing.T, at target, address, name, word string, do func(context.Context, driver.Driver, []byte) error) string {
	d := at.driverOf(t, address)
	if err := do(t.Context(), d, []byte("first "+name)); err != nil {
		t.Fatal(err)
	}
	switch {
	case !strings.HasPrefix(name, "Update"):
	case base(d).has.scripts:
		return "EVALSHA"
	case name == "Update of a field" && base(d).schemas != nil:
		return "COPAL.SWAP"
	}
	return word
}

// TestOutcomeIsUnknown: when the connection ends between a write and its reply, the error is
// ErrUnknown, and the write is not sent again: it has happened once if the server got it, else not
// at all.
func TestOutcomeIsUnknown(t *testing.T) {
	each(t, func(t *testing.T, at target) {
		address := at.start(t)
		direct := at.driverOf(t, address)
		for i, w := range writes {
			w.word = wordOf(t, at, address, w.name, w.word, w.do)
			for how, want := range map[int]int64{dropRequest: 0, dropReply: 1} {
				t.Run(fmt.Sprint(w.name, " ", how), func(t *testing.T) {
					p, between := newProxy(t, address, w.word, how)
					d := at.driverOf(t, between)
					key := fmt.Appendf(nil, "key %d %d", i, how)
					err := w.do(t.Context(), d, key)
					if !errors.Is(err, copal.ErrUnknown) || !strings.HasPrefix(err.Error(), "copal: ") {
						t.Errorf("the error is %v", err)
					}
					p.wasMet()
					got, err := base(direct).number(t.Context(), read(w.tally, key))
					if got != want || err != nil {
						t.Errorf("it has happened %d times, not %d: %v", got, want, err)
					}
					if has, err := d.Has(t.Context(), key); has != (want == 1) || err != nil {
						t.Errorf("the next call says %v, %v", has, err)
					}
				})
			}
		}
	})
}

// base is the driver beneath.
func base(d driver.Driver) *redis {
	if s, ok := d.(*served); ok {
		return s.redis
	}
	return d.(*redis)
}

// TestUpdateOfUnknownOutcome: an Update whose write is cut off is not started again.
func TestUpdateOfUnknownOutcome(t *testing.T) {
	each(t, func(t *testing.T, at target) {
		address := at.start(t)
		word := "11111"
		if at.name == "copal by WATCH" || at.name == "Redis by WATCH" {
			word = "EXEC"
		}
		_, between := newProxy(t, address, word, dropReply)
		m, err := copal.OpenMap[string, int](store(t, at.driverOf(t, between)), "numbers")
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Set("n", 11109); err != nil {
			t.Fatal(err)
		}
		add := func(e *copal.Entry[int]) error { e.Value++; return nil }
		if at.name != "copal by WATCH" && at.name != "Redis by WATCH" { // a server that has a script knows it then
			if _, _, err := m.Update("n", add); err != nil {
				t.Fatal(err)
			}
		} else if err := m.Set("n", 11110); err != nil {
			t.Fatal(err)
		}
		calls := 0
		_, _, err = m.Update("n", func(e *copal.Entry[int]) error { calls++; return add(e) })
		if !errors.Is(err, copal.ErrUnknown) || calls != 1 {
			t.Errorf("after %d calls: %v", calls, err)
		}
		if n, err := m.Load("n"); n != 11111 || err != nil {
			t.Errorf("the number is %d, %v", n, err)
		}
	})
}

// TestReadsGoOn: a read whose connection ends is sent again.
func TestReadsGoOn(t *testing.T) {
	each(t, func(t *testing.T, at target) {
		address := at.start(t)
		for _, how := range []int{dropRequest, dropReply} {
			p, between := newProxy(t, address, "cut-this-key", how)
			d := at.driverOf(t, between)
			if _, err := d.Get(t.Context(), []byte("cut-this-key"), false); !errors.Is(err, engine.ErrNotFound) {
				t.Error(err)
			}
			p.wasMet()
		}
	})
}

// TestContextEnds: a call that waits for the server ends with its context, also where it has a connection of its
// own. Of a write it is not known then whether it was made.
func TestContextEnds(t *testing.T) {
	each(t, func(t *testing.T, at target) {
		address := at.start(t)
		calls := append(writes[:len(writes):len(writes)], writes[0])
		calls[len(writes)].name, calls[len(writes)].do = "Get", func(ctx context.Context, d driver.Driver, key []byte) error {
			_, err := d.Get(ctx, append(key, "cut-here"...), true)
			return err
		}
		for _, w := range calls {
			if w.name != "Get" {
				w.word = wordOf(t, at, address, w.name, w.word, w.do)
			}
			t.Run(w.name, func(t *testing.T) {
				p, between := newProxy(t, address, w.word, hold)
				defer close(p.over)
				d := at.connect(t, Config{Addresses: []string{between}, Timeout: time.Hour}) // so that only the context ends it
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					select {
					case <-p.caught:
						cancel()
					case <-t.Context().Done():
					}
				}()
				err := w.do(ctx, d, []byte("key "+w.name))
				if !errors.Is(err, context.Canceled) || errors.Is(err, copal.ErrUnknown) != (w.name != "Get") {
					t.Errorf("the error is %v", err)
				}
				err = w.do(ctx, d, []byte("key "+w.name))
				if !errors.Is(err, context.Canceled) || errors.Is(err, copal.ErrUnknown) {
					t.Errorf("before anything is sent the error is %v", err)
				}
			})
		}
	})
}

// TestTimeout: a server that says nothing is given up.
func TestTimeout(t *testing.T) {
	p, between := newProxy(t, serveCopal(t), "cut-here", hold)
	defer close(p.over)
	db, err := Config{Addresses: []string{between}, Timeout: 200 * time.Millisecond}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Raw().Set([]byte("k"), []byte("cut-here"))
	p.wasMet()
	if !errors.Is(err, copal.ErrUnknown) {
		t.Errorf("the error is %v", err)
	}
}
