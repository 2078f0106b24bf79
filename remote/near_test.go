package remote

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"regexp"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/driver"
)

// eachNear runs a test on each target that keeps entries near.
func eachNear(t *testing.T, f func(t *testing.T, at target)) {
	for _, at := range targets() {
		if at.near > 0 {
			t.Run(at.name, func(t *testing.T) { f(t, at) })
		}
	}
}

// carriedOut is how many commands a server has carried out.
func carriedOut(t *testing.T, d driver.Driver) int {
	t.Helper()
	m, err := base(d).get(t.Context(), ask("INFO", "stats"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := m.ToString()
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`total_commands_processed:(\d+)`).FindStringSubmatch(text)
	n, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// until waits for the effect of another client, much longer than that takes.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("it never came: " + what)
		}
	}
}

// TestKeptNear: an entry is read again without the server, until it changes in any way.
func TestKeptNear(t *testing.T) {
	eachNear(t, func(t *testing.T, at target) {
		address := at.start(t)
		d := at.driverOf(t, address)
		plain := target{change: at.change}.driverOf(t, address)
		mine, err := copal.OpenMap[string, person](store(t, d), "m")
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := copal.OpenMap[string, person](store(t, plain), "m")
		if err != nil {
			t.Fatal(err)
		}
		becomes := func(what, name string) {
			t.Helper()
			until(t, what, func() bool { p, _ := mine.Get("a"); return p.Name == name })
			until(t, what+", kept", func() bool { // when all reports of a change of several commands have come
				before := carriedOut(t, plain)
				for range 5 {
					p, err := mine.Load("a")
					if err != nil || p.Name != name || p.Tags[0] != "x" {
						t.Fatalf("%s: it is %v, %v", what, p, err)
					}
					p.Tags[0] = "changed by who got it"
				}
				return carriedOut(t, plain)-before == 1 // which asked
			})
		}
		changes := []struct {
			what string
			do   func(name string) error
		}{
			{"Set", func(name string) error { return theirs.Set("a", person{Name: name, Tags: []string{"x"}}) }},
			{"SetTTL", func(name string) error {
				return theirs.SetTTL("a", person{Name: name, Tags: []string{"x"}}, time.Hour)
			}},
			{"Update", func(name string) error {
				_, _, err := theirs.Update("a", func(e *copal.Entry[person]) error { e.Value.Name = name; return nil })
				return err
			}},
			{"Clear and Set", func(name string) error {
				return errors.Join(theirs.Clear(), theirs.Set("a", person{Name: name, Tags: []string{"x"}}))
			}},
			{"a batch", func(name string) error {
				b := theirs.DB().Raw().Batch()
				b.Set([]byte("m:a"), []byte(`{"Name":"`+name+`","Tags":["x"],"N":0}`))
				return b.Commit()
			}},
		}
		for round := range 2 {
			for _, c := range changes {
				name := fmt.Sprint(c.what, " ", round)
				if err := c.do(name); err != nil {
					t.Fatal(name, err)
				}
				becomes(name, name)
			}
		}
		if _, err := theirs.Delete("a"); err != nil {
			t.Fatal(err)
		}
		until(t, "the deletion", func() bool { return !mine.Has("a") })
		until(t, "the deletion", func() bool { _, ok := mine.Get("a"); return !ok })

		if err := theirs.SetTTL("a", person{Name: "short", Tags: []string{"x"}}, 50*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		until(t, "the deadline", func() bool { _, ok := mine.Get("a"); return !ok })

		// There are no reports of changes when connections have ended.
		if err := theirs.Set("a", person{Name: "before", Tags: []string{"x"}}); err != nil {
			t.Fatal(err)
		}
		becomes("before", "before")
		if _, err := base(plain).get(t.Context(), ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")); err != nil {
			t.Fatal(err)
		}
		until(t, "a connection", func() bool { return theirs.Set("a", person{Name: "behind", Tags: []string{"x"}}) == nil })
		becomes("behind", "behind")
	})
}

// TestOwnWritesAreSeen: whoever has written a key reads that, while others read it all the time.
func TestOwnWritesAreSeen(t *testing.T) {
	eachNear(t, func(t *testing.T, at target) {
		m, err := copal.OpenMap[int, int](at.open(t), "m")
		if err != nil {
			t.Fatal(err)
		}
		rounds := 300
		if testing.Short() {
			rounds = 50
		}
		var writers, readers sync.WaitGroup
		over := make(chan struct{})
		for key := range 4 {
			readers.Go(func() {
				for {
					select {
					case <-over:
						return
					default:
						m.Get(key)
						runtime.Gosched()
					}
				}
			})
			writers.Go(func() {
				for n := range rounds {
					if err := m.Set(key, n); err != nil {
						t.Error(err)
						return
					}
					if got, err := m.Load(key); got != n || err != nil {
						t.Errorf("key %d has %d, and %d was set: %v", key, got, n, err)
						return
					}
				}
			})
		}
		writers.Wait()
		close(over)
		readers.Wait()
	})
}

// TestKeptNearOfTwo: when two clients that keep entries have stopped to write, both read the
// server's entries.
func TestKeptNearOfTwo(t *testing.T) {
	eachNear(t, func(t *testing.T, at target) {
		address := at.start(t)
		var maps [3]*copal.Map[int, int]
		for i := range maps {
			if i == 2 {
				at.near = 0
			}
			var err error
			if maps[i], err = copal.OpenMap[int, int](store(t, at.driverOf(t, address)), "m"); err != nil {
				t.Fatal(err)
			}
		}
		var all sync.WaitGroup
		for i, m := range maps[:2] {
			for g := range 3 {
				all.Go(func() {
					for n := range 500 {
						key := n % 8
						var err error
						switch n % 3 {
						case 0:
							err = m.Set(key, 1000*g+n)
						case 1:
							_, _, err = m.Update(key, func(e *copal.Entry[int]) error { e.Value += i + 1; return nil })
						}
						if _, ok := m.Get((key + g) % 8); err != nil || !ok && n > 100 {
							t.Error(err, ok)
							return
						}
					}
				})
			}
		}
		all.Wait()
		for key := range 8 {
			want, err := maps[2].Load(key)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range maps[:2] {
				until(t, "what the server has", func() bool { got, _ := m.Get(key); return got == want })
			}
		}
	})
}

// TestOwnWritesOfManyKeys: a change of keys that a command does not name is seen at once, too,
// while others read them.
func TestOwnWritesOfManyKeys(t *testing.T) {
	at := ofCopal
	at.near = 1 << 20
	db := at.open(t)
	m, err := copal.OpenMap[int, int](db, "m")
	if err != nil {
		t.Fatal(err)
	}
	l, _ := copal.OpenList[int](db, "list")
	m7, _ := copal.OpenMap[string, int](db, "moved")
	over := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					m.Get(1)
					m7.Load("to") // which may be a list
					runtime.Gosched()
				}
			}
		})
	}
	for n := range 100 {
		if err := m.Set(1, -1); err != nil {
			t.Fatal(err)
		}
		m.Get(1)
		if err := db.Update(func(tx *copal.Tx) error { return m.In(tx).Set(1, n) }); err != nil {
			t.Fatal(err)
		}
		if got, err := m.Load(1); got != n || err != nil {
			t.Fatalf("after a commit of %d there is %d, %v", n, got, err)
		}
		if err := m.Clear(); err != nil {
			t.Fatal(err)
		}
		if got, err := m.Load(1); !errors.Is(err, copal.ErrNotFound) {
			t.Fatalf("after Clear there is %d, %v", got, err)
		}
		if err := errors.Join(m7.Set("to", n), l.PushBack(n)); err != nil {
			t.Fatal(err)
		}
		m7.Get("to")
		if err := db.Raw().List([]byte("list")).Rename("moved:to"); err != nil {
			t.Fatal(err)
		}
		if got, err := m7.Load("to"); !errors.Is(err, copal.ErrType) {
			t.Fatalf("after a list was moved there, there is %d, %v", got, err)
		}
		if _, err := db.Raw().Delete([]byte("moved:to")); err != nil {
			t.Fatal(err)
		}
	}
	close(over)
	readers.Wait()
}

// TestKeptByAMapOfAnotherType: a map that is closed, and opened with another type, decodes the
// cached entries again.
func TestKeptByAMapOfAnotherType(t *testing.T) {
	eachNear(t, func(t *testing.T, at target) {
		db := at.open(t)
		one, err := copal.OpenMap[string, person](db, "m")
		if err != nil {
			t.Fatal(err)
		}
		if err := one.Set("a", person{Name: "ann", N: 7}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if v, err := one.Load("a"); v.N != 7 || err != nil {
				t.Fatal(v, err)
			}
		}
		if err := one.Close(); err != nil && !errors.Is(err, copal.ErrDurability) {
			t.Fatal(err)
		}
		other, err := copal.OpenMap[string, struct{ N int64 }](db, "m")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if v, err := other.Load("a"); v.N != 7 || err != nil {
				t.Fatal(v, err)
			}
		}
	})
}

// TestGetAfterWatch: a read after a change from Watch shows that change, or a later one.
func TestGetAfterWatch(t *testing.T) {
	address := serveCopal(t)
	at := ofCopal
	at.near = 1 << 20
	mine, err := copal.OpenMap[string, int](store(t, at.driverOf(t, address)), "m")
	if err != nil {
		t.Fatal(err)
	}
	theirs, _ := copal.OpenMap[string, int](store(t, ofCopal.driverOf(t, address)), "m")
	if err := theirs.Set("a", -1); err != nil {
		t.Fatal(err)
	}
	const last = 1000
	var writer sync.WaitGroup
	writer.Go(func() {
		for n := range last + 1 {
			if err := theirs.Set("a", n); err != nil {
				t.Error(err)
			}
		}
	})
	defer writer.Wait()
	for c, err := range mine.Watch(t.Context(), copal.WithAfter(0)) {
		if err != nil {
			t.Fatal(err)
		}
		got, missing := mine.Load("a")
		if missing != nil || got < c.Value {
			t.Fatalf("Watch yields %d, and %d is read: %v", c.Value, got, missing)
		}
		if got == last {
			break
		}
	}
}

// TestNearIsForgotten: an entry is not kept for ever, whatever the server says.
func TestNearIsForgotten(t *testing.T) {
	defer func(was time.Duration) { nearAge = was }(nearAge)
	nearAge = time.Millisecond
	n := newNear(1 << 20)
	defer n.close()
	until(t, "the end of what is kept", func() bool {
		key := []byte("a")
		if e, forgotten := n.find(key); e == nil {
			n.keep(key, forgotten, driver.Entry{Key: key})
		}
		sh := n.shard(key)
		sh.mu.Lock()
		defer sh.mu.Unlock()
		return sh.forgotten > 3
	})
}

// TestNearForgetsWhatAFeedTells: the entries of a change from Watch are dropped: one entry for a
// key, and all for a range, a map or a renamed key.
func TestNearForgetsWhatAFeedTells(t *testing.T) {
	a, b := []byte("m:a"), []byte("m:b")
	for name, x := range map[string]struct {
		change driver.Change
		gone   [2]bool // of a and b
	}{
		"a set":            {driver.Change{Key: a}, [2]bool{true, false}},
		"a deletion":       {driver.Change{Key: a, Deleted: true}, [2]bool{true, false}},
		"of another key":   {driver.Change{Key: []byte("m:c")}, [2]bool{}},
		"a range":          {driver.Change{Key: a, Range: true, Deleted: true}, [2]bool{true, true}},
		"a map that goes":  {driver.Change{Key: []byte("m:"), Dropped: true}, [2]bool{true, true}},
		"a key that moves": {driver.Change{Key: []byte("m:c"), From: a}, [2]bool{true, true}},
		"nothing":          {driver.Change{Idle: true}, [2]bool{}},
	} {
		n := newNear(1 << 20)
		for _, key := range [][]byte{a, b} {
			_, forgotten := n.find(key)
			n.keep(key, forgotten, driver.Entry{Key: key})
		}
		n.changed(&x.change)
		for i, key := range [][]byte{a, b} {
			if e, _ := n.find(key); (e == nil) != x.gone[i] {
				t.Errorf("%s: %s is kept: %v", name, key, e != nil)
			}
		}
		n.close()
	}
}

// TestNearKeepsWithinItsBytes counts the cached bytes.
func TestNearKeepsWithinItsBytes(t *testing.T) {
	n := newNear(64 * 4000)
	defer n.close()
	kept := func() (count, bytes int) {
		for i := range n.shards {
			sh, sum := &n.shards[i], 0
			for key, e := range sh.entries {
				if key != string(e.Key) {
					t.Fatalf("under %q there is %q", key, e.Key)
				}
				sum += e.size()
			}
			if sum != sh.bytes || sum > n.most {
				t.Fatalf("a shard has %d bytes, counts %d, and may have %d", sum, sh.bytes, n.most)
			}
			count, bytes = count+len(sh.entries), bytes+sum
		}
		return count, bytes
	}
	put := func(key string, size int) bool {
		_, forgotten := n.find([]byte(key))
		return n.keep([]byte(key), forgotten, driver.Entry{Key: []byte(key), Value: bytes.Repeat([]byte{'v'}, size)}) != nil
	}
	for i := range 5000 {
		if !put(fmt.Sprint(i), i%300) {
			t.Fatal("it is not kept", i)
		}
		if i%7 == 0 {
			n.forget(fmt.Sprint(i))
		}
		if i%100 == 0 {
			kept()
		}
	}
	if count, bytes := kept(); count < 200 || bytes < 64*3000 {
		t.Errorf("%d entries are kept, of %d bytes", count, bytes)
	}
	if put("large", 4000) {
		t.Error("an entry is kept that is larger than a shard")
	}
	_, forgotten := n.find([]byte("past"))
	n.keep([]byte("past"), forgotten, driver.Entry{Key: []byte("past"), Deadline: 1})
	if e, _ := n.find([]byte("past")); e != nil {
		t.Error("an entry is there whose deadline has come")
	}
	kept()
	_, forgotten = n.find([]byte("a"))
	n.forget("a")
	if n.keep([]byte("a"), forgotten, driver.Entry{Key: []byte("a")}) != nil {
		t.Error("an entry read before its change is cached")
	}
	n.told(nil)
	if count, bytes := kept(); count != 0 || bytes != 0 {
		t.Errorf("%d entries are kept, of %d bytes", count, bytes)
	}
}

// TestOpenWithoutTracking: a server that cannot report changes is refused when the store is opened.
func TestOpenWithoutTracking(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				for in := bufio.NewReader(nc); ; {
					request, err := readRequest(in)
					if err != nil {
						return
					}
					reply := "+OK\r\n"
					switch {
					case bytes.Contains(request, []byte("HELLO")):
						reply = "%2\r\n+proto\r\n:3\r\n+version\r\n+7.0.0\r\n"
					case bytes.Contains(request, []byte("TRACKING")):
						reply = "-ERR unknown subcommand 'TRACKING'\r\n"
					}
					nc.Write([]byte(reply))
				}
			}()
		}
	}()
	db, err := Open(t.Context(), "redis://"+l.Addr().String()+"?cache=1000000")
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Open says %v, %v", db, err)
	}
}
