package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/access"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/redisapi"
)

// ofCopal is a store on a server of copal.
var ofCopal = target{name: "copal", start: serveCopal}

// TestTransactions: a transaction counts whole or not at all, sees its own writes, and loses to
// another write.
func TestTransactions(t *testing.T) {
	address := serveCopal(t)
	db, other := store(t, ofCopal.driverOf(t, address)), store(t, ofCopal.driverOf(t, address))
	m, err := copal.OpenMap[string, int](db, "m")
	if err != nil {
		t.Fatal(err)
	}
	theirs, _ := copal.OpenMap[string, int](other, "m")
	h, _ := copal.OpenHash[string, person](db, "h")
	calls := 0
	err = db.Update(func(tx *copal.Tx) error {
		in := m.In(tx)
		n, err := in.Load("a")
		if err != nil && !errors.Is(err, copal.ErrNotFound) {
			return err
		}
		if calls++; calls == 1 {
			if err := theirs.Set("a", 10); err != nil {
				return err
			}
		}
		if err := errors.Join(in.Set("a", n+1), in.Set("b", 2), h.In(tx).Set("f", person{Name: "ann"})); err != nil {
			return err
		}
		if n, ok := in.Get("b"); n != 2 || !ok || in.Len() != 2 {
			t.Errorf("in the transaction there is %d, %v, %d", n, ok, in.Len())
		}
		if _, ok := theirs.Get("b"); ok {
			t.Error("others see the writes of the transaction")
		}
		_, _, err = in.Update("b", func(e *copal.Entry[int]) error { e.Value++; return nil })
		return err
	})
	a, _ := theirs.Get("a")
	b, _ := theirs.Get("b")
	f, _ := h.Get("f")
	if err != nil || calls != 2 || a != 11 || b != 3 || f.Name != "ann" {
		t.Errorf("after %d calls there are %d, %d, %v: %v", calls, a, b, f, err)
	}
	if err := db.Update(func(tx *copal.Tx) error { return errors.Join(m.In(tx).Set("a", 0), errRefused) }); !errors.Is(err, errRefused) {
		t.Error(err)
	}
	var late *copal.Tx
	if err := db.View(func(tx *copal.Tx) error { late = tx; return m.In(tx).Set("a", 0) }); !errors.Is(err, copal.ErrTxReadOnly) {
		t.Error(err)
	}
	if _, err := m.In(late).Load("a"); !errors.Is(err, copal.ErrTxDone) {
		t.Error(err)
	}
	if a, _ := m.Get("a"); a != 11 {
		t.Errorf("there is %d", a)
	}
}

// TestTransactionsAreAllCounted: no transaction of many loses its writes.
func TestTransactionsAreAllCounted(t *testing.T) {
	address := serveCopal(t)
	const goroutines, times = 4, 25
	var wait sync.WaitGroup
	for range goroutines {
		db := store(t, ofCopal.driverOf(t, address))
		m, err := copal.OpenMap[string, int](db, "m")
		if err != nil {
			t.Fatal(err)
		}
		wait.Go(func() {
			for range times {
				err := db.Update(func(tx *copal.Tx) error {
					n, _ := m.In(tx).Get("n")
					return m.In(tx).Set("n", n+1)
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	m, _ := copal.OpenMap[string, int](store(t, ofCopal.driverOf(t, address)), "m")
	if n, _ := m.Get("n"); n != goroutines*times {
		t.Errorf("%d are counted", n)
	}
}

// TestSnapshot: a snapshot does not change, and reads in order.
func TestSnapshot(t *testing.T) {
	db := ofCopal.open(t)
	m, err := copal.OpenMap[int, int](db, "m", copal.Ordered())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1200 {
		if err := m.Set(i-600, i); err != nil {
			t.Fatal(err)
		}
	}
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.DeleteRange(-100, 100); err != nil {
		t.Fatal(err)
	}
	var keys []int
	for k := range m.At(s).All() {
		keys = append(keys, k)
	}
	if !slices.IsSorted(keys) || len(keys) != 1200 || m.At(s).Len() != 1200 || m.Len() != 1000 {
		t.Errorf("there are %d keys, %d, %d", len(keys), m.At(s).Len(), m.Len())
	}
	keys = nil
	for k := range m.Backward().Between(-105, 105) {
		keys = append(keys, k)
	}
	if want := []int{104, 103, 102, 101, 100, -101, -102, -103, -104, -105}; !slices.Equal(keys, want) {
		t.Errorf("there are %v", keys)
	}
	s.Close()
	if _, err := m.At(s).Load(1); err == nil {
		t.Error("a closed snapshot is read")
	}
}

// TestWatch: a watch yields each change once, from its beginning to its end.
func TestWatch(t *testing.T) {
	db := ofCopal.open(t)
	m, err := copal.OpenMap[string, int](db, "m")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan string)
	go func() {
		defer close(told)
		for c, err := range db.Watch(ctx, copal.WithAfter(0), copal.OldValues()) {
			if err != nil {
				told <- fmt.Sprint("error: ", errors.Is(err, context.Canceled))
				return
			}
			v, _ := c.Value()
			old, _ := c.Old()
			told <- fmt.Sprintf("%s %s %s deleted %v range %v %v", c.Key, v, old, c.Deleted, c.Range, c.Covers([]byte("m:ax")))
		}
	}()
	for _, step := range []struct {
		do   func() error
		tell string
	}{
		{func() error { return m.Set("a", 1) }, "m:a 1  deleted false range false false"},
		{func() error { return m.Set("a", 2) }, "m:a 2 1 deleted false range false false"},
		{func() error { _, err := m.Delete("a"); return err }, "m:a  2 deleted true range false false"},
		{func() error { return m.DeleteRange("a", "b") }, "m:a   deleted true range true true"},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if got := <-told; got != step.tell {
			t.Errorf("the watch yields %q, want %q", got, step.tell)
		}
	}
	cancel()
	if got := <-told; got != "error: true" {
		t.Error(got)
	}
	n := 0
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, err := range db.Watch(t.Context(), copal.WithAfter(0), copal.WithUntil(s.Seq())) {
		if n++; err != nil {
			t.Error(err)
		}
	}
	if n == 0 {
		t.Error("there is no old value")
	}
}

// TestEarlierType: a value that was written as an earlier type is read as the one of today, as in a directory.
func TestEarlierType(t *testing.T) {
	address := serveCopal(t)
	type before struct{ Name string }
	type now struct {
		Age  int
		Name string
	}
	first, err := copal.OpenMap[int, before](store(t, ofCopal.driverOf(t, address)), "m", copal.WithCodec(codec.Binary))
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Set(1, before{"ann"}); err != nil {
		t.Fatal(err)
	}
	then, err := copal.OpenMap[int, now](store(t, ofCopal.driverOf(t, address)), "m", copal.WithCodec(codec.Binary))
	if err != nil {
		t.Fatal(err)
	}
	if v, err := then.Load(1); v.Name != "ann" || err != nil {
		t.Errorf("there is %v, %v", v, err)
	}
}

// TestAnotherStore: when another store is served at the address, which does not know the schemas,
// they are declared again.
func TestAnotherStore(t *testing.T) {
	address, stop := serveAt(t, "127.0.0.1:0")
	d := ofCopal.driverOf(t, address)
	m, err := copal.OpenMap[string, int](store(t, d), "m", copal.WithCodec(codec.Binary))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Set("a", 1); err != nil {
		t.Fatal(err)
	}
	stop()
	if _, err := m.Load("a"); err == nil || errors.Is(err, copal.ErrNotFound) {
		t.Errorf("without a server: %v", err)
	}
	if err := m.Set("a", 2); err == nil {
		t.Error("a write is acknowledged without a server")
	}
	_, stop = serveAt(t, address)
	defer stop()
	err = m.Set("b", 2)
	for range mostConnections - 1 {
		if errors.Is(err, copal.ErrUnknown) { // by another connection, which the client took for a good one
			err = m.Set("b", 2)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := d.WriteAll(t.Context(), []*driver.Write{{Key: []byte("k"), Value: []byte{4}, Schema: nameOf(engine.Schema{Codec: "no", Text: "such"})}}); err == nil {
		t.Error("a value of an unknown schema is written")
	}
	if v, err := m.Load("b"); v != 2 || err != nil || m.Len() != 1 {
		t.Errorf("there is %d, %v", v, err)
	}
}

// TestReadsAfterARestart: a read comes through when the server has been away, whichever connections had not noticed.
func TestReadsAfterARestart(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8)) // so that there are as many as there ever are
	address, stop := serveAt(t, "127.0.0.1:0")
	m, err := copal.OpenMap[string, int](store(t, ofCopal.driverOf(t, address)), "m")
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		for range 50 { // each of which goes over any of the connections
			m.Has("a")
		}
		stop()
		_, stop = serveAt(t, address)
		if _, err := m.Load("a"); !errors.Is(err, copal.ErrNotFound) {
			t.Fatal(err)
		}
	}
	stop()
}

// TestEachWriteDeclaresAnew: a store that does not know the schema of a value refuses each sort of write as a whole;
// the driver declares the schema, and makes the write.
func TestEachWriteDeclaresAnew(t *testing.T) {
	schema := engine.Schema{Codec: "binary", Text: "int"}
	for name, write := range map[string]func(*testing.T, driver.Driver, uint64) error{
		"FSync": func(t *testing.T, d driver.Driver, number uint64) error {
			_, err := d.Write(t.Context(), &driver.Write{Key: []byte("b"), Value: []byte{4}, Schema: number, Durability: engine.Power})
			return err
		},
		"batch": func(t *testing.T, d driver.Driver, number uint64) error {
			return d.WriteAll(t.Context(), []*driver.Write{{Key: []byte("a"), Delete: true}, {Key: []byte("b"), Value: []byte{4}, Schema: number}})
		},
		"edit": func(t *testing.T, d driver.Driver, number uint64) error {
			of, next := driver.Of{Key: []byte("h"), Type: engine.HashType}, driver.Element{Sub: []byte("f"), Value: []byte{4}, Schema: number}
			return d.(driver.Collections).Update(t.Context(), of, next.Sub, engine.Process, func(*driver.Element) (*driver.Element, error) { return &next, nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			address := serveCopal(t)
			d := ofCopal.driverOf(t, address)
			if _, err := d.Write(t.Context(), &driver.Write{Key: []byte("a"), Value: []byte("1")}); err != nil {
				t.Fatal(err)
			}
			s := d.(*served).schemas
			s.mu.Lock()
			s.names[schema] = nameOf(schema) // as if it had been declared
			s.keepLocked(nameOf(schema), schema)
			s.mu.Unlock()
			if err := write(t, d, nameOf(schema)); err != nil {
				t.Fatal(err)
			}
			if err := write(t, d, nameOf(engine.Schema{Codec: "no", Text: "such"})); err == nil {
				t.Error("a value of an unknown schema is written")
			}
			has, err := d.Has(t.Context(), []byte("a"))
			if err != nil || has == (name == "batch") {
				t.Errorf("the other key of the batch: %v, %v", has, err)
			}
		})
	}
}

// TestUserOfOneMap: a user with the right to one map has all features in it.
func TestUserOfOneMap(t *testing.T) {
	users, err := access.New(access.User{Name: "u", Tokens: []string{access.Hash("secret")}, Read: []string{"m"}, Write: []string{"m"}})
	if err != nil {
		t.Fatal(err)
	}
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &redisapi.Server{DB: db, Access: users}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Shutdown(context.Background())
		<-ended
		db.Close()
	})
	far, err := Open(t.Context(), "redis://u:secret@"+l.Addr().String(), copal.WithCodec(codec.Binary))
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	m, err := copal.OpenMap[string, []int](far, "m", copal.Ordered())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(m.Set("a", []int{1, 2}), m.SetFSync("b", nil), far.Sync()); err != nil {
		t.Fatal(err)
	}
	if v, err := m.Load("a"); !slices.Equal(v, []int{1, 2}) || err != nil || m.Len() != 2 {
		t.Errorf("there is %v, %v", v, err)
	}
	near, err := copal.OpenMap[string, []int](db, "m", copal.WithCodec(codec.Binary))
	if err != nil {
		t.Fatal(err)
	}
	if v, err := near.Load("a"); !slices.Equal(v, []int{1, 2}) || err != nil {
		t.Errorf("at home there is %v, %v", v, err)
	}
	if _, err := Open(t.Context(), "redis://u:secret@"+l.Addr().String()+"/1"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("database 1: %v", err)
	}
}

// TestWatchedRange: a range covers the keys that were deleted, by the order of the map.
func TestWatchedRange(t *testing.T) {
	db := ofCopal.open(t)
	m, err := copal.OpenMap[int, int](db, "m")
	if err != nil {
		t.Fatal(err)
	}
	changes := m.Watch(t.Context())
	if err := errors.Join(m.DeleteRange(9, 30), m.Clear()); err != nil {
		t.Fatal(err)
	}
	var told []string
	for c, err := range changes {
		if err != nil {
			t.Fatal(err)
		}
		covers := ""
		for _, key := range []int{-9, 1, 8, 9, 10, 29, 30, 100} {
			if c.Covers(key) {
				covers += fmt.Sprint(key, " ")
			}
		}
		told = append(told, fmt.Sprintf("%s-%s: %s", c.Change.Key, c.To, covers))
		if len(told) == 2 {
			break
		}
	}
	if want := []string{"m:9-m:30: 9 10 29 ", "m:-m;: -9 1 8 9 10 29 30 100 "}; !slices.Equal(told, want) {
		t.Errorf("the watch yields %q, want %q", told, want)
	}
}

// TestUnreadOld: the old value of a change is an error if it was a collection.
func TestUnreadOld(t *testing.T) {
	d := ofCopal.driver(t).(*served)
	db := store(t, d)
	raw := db.Raw()
	if err := raw.Hash([]byte("k")).Set("f", []byte("v")); err != nil {
		t.Fatal(err)
	}
	changes := db.Watch(t.Context(), copal.OldValues(), copal.WithKey([]byte("k")))
	if _, err := d.change(t.Context(), engine.Process, plain("COPAL.TYPED", "SET", "k", "\x00\x00\x00\x00\x00\x00\x00\x00new")); err != nil {
		t.Fatal(err)
	}
	for c, err := range changes {
		if err != nil {
			t.Fatal(err)
		}
		if c.Deleted || c.Collection != "" {
			continue
		}
		v, err := c.Value()
		if _, oldErr := c.Old(); string(v) != "new" || err != nil || !errors.Is(oldErr, copal.ErrType) {
			t.Errorf("after the collection there is %q, %v; before: %v", v, err, oldErr)
		}
		break
	}
}

// TestUnreadValues: a value that the server could not read is an error of the change, and not an empty value.
func TestUnreadValues(t *testing.T) {
	d := ofCopal.driver(t).(*served)
	tell := func(pairs ...string) (driver.Change, error) { // a hash is a reply as a change is one
		t.Helper()
		b := d.client.B()
		for _, r := range d.client.DoMulti(t.Context(), b.Arbitrary("DEL").Keys("reply").Build(), b.Arbitrary("HSET").Keys("reply").Args(pairs...).Build()) {
			if err := r.Error(); err != nil {
				t.Fatal(err)
			}
		}
		m, err := d.client.Do(t.Context(), b.Arbitrary("HGETALL").Keys("reply").ReadOnly()).AsMap()
		if err != nil {
			t.Fatal(err)
		}
		return change(m)
	}
	for text, want := range map[string]error{
		"HISTORYLOST the log has it no more":   copal.ErrHistoryLost,
		"WRONGTYPE Operation against a key":    copal.ErrType,
		"ERR the disk is broken":               nil,
		"ERR":                                  nil,
		"OTHER than what is known to a client": nil,
	} {
		c, err := tell("key", "k", "valueerror", text, "olderror", text)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{c.ValueErr, c.OldErr} {
			if err == nil || want != nil && !errors.Is(err, want) || want == nil && (errors.Is(err, copal.ErrType) || errors.Is(err, copal.ErrHistoryLost)) {
				t.Errorf("%q is %v", text, err)
			}
		}
	}
	if c, err := tell("key", "k", "value", "", "old", ""); err != nil || c.ValueErr != nil || c.OldErr != nil || !c.HasOld {
		t.Errorf("an empty value is %+v, %v", c, err)
	}
	if _, err := tell("key", "k", "range", "1", "rest", "sideways k"); err == nil {
		t.Error("a range in an unknown order is yielded")
	}
	if _, err := tell("key", "m:1", "range", "1", "rest", "int n:2"); err == nil {
		t.Error("a range of two maps is yielded")
	}
}

// TestSchemaUnread: when the schema of a value cannot be had, the read has the error, and shows nothing.
func TestSchemaUnread(t *testing.T) {
	address := serveCopal(t)
	type pair struct{ A, B int }
	d := ofCopal.driverOf(t, address).(*served)
	m, err := copal.OpenMap[string, pair](store(t, d), "m", copal.WithCodec(codec.Binary))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Set("k", pair{1, 2}); err != nil {
		t.Fatal(err)
	}
	e, err := d.Get(t.Context(), []byte("m:k"), false)
	if err != nil {
		t.Fatal(err)
	}
	one := []driver.Element{{Sub: []byte("f"), Value: e.Value, Schema: e.Schema}}
	_, err = d.Edit(t.Context(), driver.Of{Key: []byte("h"), Type: engine.HashType}, one, engine.Process)
	_, also := d.Push(t.Context(), driver.Of{Key: []byte("l"), Type: engine.ListType}, one, false, true, engine.Process)
	if err := errors.Join(err, also); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.knownText(t.Context(), "nonesuchvalue"); err == nil {
		t.Error("a value is read whose schema the store does not know")
	}
	for name, read := range map[string]func(db *copal.DB) (string, error){
		"Load": func(db *copal.DB) (string, error) {
			v, err := db.Raw().Load([]byte("m:k"))
			return string(v), err
		},
		"a field": func(db *copal.DB) (string, error) {
			v, err := db.Raw().Hash([]byte("h")).Load("f")
			return string(v), err
		},
		"an element": func(db *copal.DB) (string, error) {
			v, err := db.Raw().List([]byte("l")).Load(0)
			return string(v), err
		},
		"a type": func(db *copal.DB) (string, error) {
			m, err := copal.OpenMap[string, pair](db, "m")
			if err != nil {
				return "", err
			}
			v, err := m.Load("k")
			return fmt.Sprintf(`{"A":%d,"B":%d}`, v.A, v.B), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, by := newProxy(t, address, "COPAL.SCHEMA\r\n$3\r\nGET", dropRequest)
			p.mu.Lock()
			p.always = true
			p.mu.Unlock()
			db := store(t, ofCopal.driverOf(t, by))
			if v, err := read(db); err == nil || errors.Is(err, copal.ErrType) || errors.Is(err, copal.ErrNotFound) {
				t.Errorf("without the schema there is %q, %v", v, err)
			}
			p.wasMet()
			p.mu.Lock()
			p.always = false
			p.mu.Unlock()
			if v, err := read(db); v != `{"A":1,"B":2}` || err != nil {
				t.Errorf("then there is %q, %v", v, err)
			}
		})
	}
}

// TestSessionsTellThatTheyLive: while a program computes, the client sends something for its session, about once a
// second. A server closes sessions that are silent for minutes.
func TestSessionsTellThatTheyLive(t *testing.T) {
	address := serveCopal(t)
	s, err := ofCopal.driverOf(t, address).(*served).Begin(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	other := base(ofCopal.driverOf(t, address))
	until(t, "PING of the session", func() bool {
		m, err := other.get(t.Context(), ask("CLIENT", "LIST"))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := m.ToString()
		for line := range strings.Lines(text) {
			if strings.Contains(line, "flags=x ") && strings.Contains(line, "cmd=ping ") {
				return true
			}
		}
		return false
	})
}

// TestLongWalksTakeFewPages: where keys are not ordered by their bytes, a server sorts all of them for each page.
func TestLongWalksTakeFewPages(t *testing.T) {
	d := ofCopal.driver(t)
	m, err := copal.OpenMap[int, int](store(t, d), "m", copal.Ordered())
	if err != nil {
		t.Fatal(err)
	}
	const n = 20_000
	var writes []*driver.Write
	for i := range n {
		writes = append(writes, &driver.Write{Key: fmt.Appendf(nil, "m:%d", i), Value: fmt.Append(nil, i)})
	}
	if err := d.WriteAll(t.Context(), writes); err != nil {
		t.Fatal(err)
	}
	next := 0
	for k := range m.From(0) {
		if k != next {
			t.Fatalf("after %d comes %d", next-1, k)
		}
		next++
	}
	reply, err := base(d).get(t.Context(), ask("INFO", "commandstats"))
	if err != nil {
		t.Fatal(err)
	}
	stats, err := reply.ToString()
	_, calls, _ := strings.Cut(stats, "cmdstat_copal.range:calls=")
	calls, _, _ = strings.Cut(calls, ",")
	if pages, bad := strconv.Atoi(calls); next != n || bad != nil || pages > 6 || err != nil {
		t.Errorf("%d entries came in %q pages, %v", next, calls, err)
	}
}
