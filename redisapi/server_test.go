package redisapi

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/access"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/redisapi/internal/commandtest"
)

// Replies to a pipeline come in the order of its requests, however its bytes are divided, and each
// request sees the effects of those before it.
func TestPipeline(t *testing.T) {
	_, address := newServer(t)
	var requests, want strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&requests, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%d\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", len(strconv.Itoa(i)), i)
		fmt.Fprintf(&want, "+OK\r\n$%d\r\n%d\r\n", len(strconv.Itoa(i)), i)
	}
	for _, piece := range []int{1 << 20, 4096, 1000, 7} {
		p := dial(t, address)
		go func() {
			for rest := requests.String(); rest != ""; {
				n := min(piece, len(rest))
				if _, err := io.WriteString(p.nc, rest[:n]); err != nil {
					t.Error(err)
					return
				}
				rest = rest[n:]
			}
		}()
		got := make([]byte, want.Len())
		if _, err := io.ReadFull(p.r, got); err != nil || string(got) != want.String() {
			t.Fatalf("pieces of %d bytes: %v, %.100q", piece, err, got)
		}
	}
}

func TestLargeValue(t *testing.T) {
	s, address := newServer(t)
	p := dial(t, address)
	value := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
	p.send(fmt.Sprintf("SET k %s", value))
	p.wantNext("OK")
	p.want("STRLEN k", "1048576")
	p.want("GET k", strconv.Quote(string(value)))
	if got, _ := s.DB.Raw().Get([]byte("k")); !bytes.Equal(got, value) {
		t.Errorf("%d bytes", len(got))
	}
}

// An invalid request ends its connection with an error, and no other connection.
func TestProtocolErrors(t *testing.T) {
	_, address := newServer(t)
	other := dial(t, address)
	for text, says := range map[string]string{
		"*1\r\n:1\r\n":                           "-ERR Protocol error: expected '$', got ':'\r\n",
		"*1\r\n$536870913\r\n":                   "-ERR Protocol error: invalid bulk length\r\n",
		"*2147483648\r\n":                        "-ERR Protocol error: invalid multibulk length\r\n",
		"SET \"a\r\n":                            "-ERR Protocol error: unbalanced quotes in request\r\n",
		strings.Repeat("x", 70<<10):              "-ERR Protocol error: too big inline request\r\n",
		"PING\r\n*1\r\n$x\r\n":                   "+PONG\r\n-ERR Protocol error: invalid bulk length\r\n",
		"GET " + strings.Repeat("k", 300<<10>>3): "", // long, and in order
	} {
		nc, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(nc, text) // it may be refused before all of it is there
		if says == "" {
			nc.Close()
			continue
		}
		got, err := io.ReadAll(nc)
		if string(got) != says && !(err != nil && strings.HasPrefix(says, string(got))) { // unread bytes reset a connection
			t.Errorf("%.40q: %q, %v", text, got, err)
		}
		nc.Close()
	}
	other.want("PING", "PONG")
}

// Before a client has given the password it may use few commands, and only short requests.
func TestPassword(t *testing.T) {
	_, address := newServer(t, func(s *Server) { s.Access = users(t, access.Password("secret")) })
	p := dial(t, address)
	p.want("GET k", "(error) NOAUTH Authentication required.")
	p.want("PING", "(error) NOAUTH Authentication required.")
	p.want("HELLO 3", "(error) NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
	p.want("AUTH wrong", "(error) WRONGPASS invalid username-password pair or user is disabled.")
	p.want("AUTH other secret", "(error) WRONGPASS invalid username-password pair or user is disabled.")
	p.want("AUTH secret", "OK")
	p.want("PING", "PONG")
	p.want("RESET", "RESET")
	p.want("PING", "(error) NOAUTH Authentication required.")
	if got := p.do("HELLO 3 AUTH default secret SETNAME me"); !strings.Contains(got, `"proto": 3`) {
		t.Error(got)
	}
	p.want("CLIENT GETNAME", `"me"`)
	for _, text := range []string{"*11\r\n", "*1\r\n$16385\r\n"} {
		p := dial(t, address)
		io.WriteString(p.nc, text)
		if got := p.read(); !strings.HasPrefix(got, "(error) ERR Protocol error: invalid") {
			t.Errorf("%q: %s", text, got)
		}
	}
}

func TestMaxClients(t *testing.T) {
	_, address := newServer(t, func(s *Server) { s.MaxClients = 1 })
	first := dial(t, address)
	first.want("PING", "PONG")
	second := dial(t, address)
	second.wantNext("(error) ERR max number of clients reached")
	first.want("PING", "PONG")
}

// A false length takes no memory: the buffer grows with the bytes that arrive.
func TestLengthThatLies(t *testing.T) {
	_, address := newServer(t)
	before := allocated()
	var list []*peer
	for range 50 {
		p := dial(t, address)
		io.WriteString(p.nc, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\nabc")
		list = append(list, p)
	}
	for _, p := range list { // the server reads all bytes before it closes the connection
		p.nc.(*net.TCPConn).CloseWrite()
		if _, err := p.r.ReadByte(); err != io.EOF {
			t.Error(err)
		}
	}
	if taken := allocated() - before; taken > 16<<20 { // since then, whether or not it is given back
		t.Errorf("%d bytes were taken", taken)
	}
}

func allocated() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.TotalAlloc)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestMaxRequest(t *testing.T) {
	_, address := newServer(t, func(s *Server) { s.MaxRequest = 1 << 20 })
	p := dial(t, address)
	go fmt.Fprintf(p.nc, "*3\r\n$4\r\nMSET\r\n$600000\r\n%0600000d\r\n$600000\r\n%0600000d\r\n", 0, 0)
	if got, err := commandtest.ReadReply(p.r); err == nil && got != "(error) ERR Protocol error: too big request" {
		t.Error(got)
	}
	dial(t, address).want("PING", "PONG")
}

// INCR by many clients at once is exact, and so is a sum over MULTI.
func TestCountTogether(t *testing.T) {
	_, address := newServer(t)
	const clients, each = 20, 50
	var wg sync.WaitGroup
	for range clients {
		p := dial(t, address)
		wg.Go(func() {
			for range each {
				p.do("INCR n")
				p.do("MULTI")
				p.do("INCR a")
				p.do("DECR b")
				p.do("EXEC")
			}
		})
	}
	wg.Wait()
	p := dial(t, address)
	p.want("MGET n a b", `["1000" "1000" "-1000"]`)
}

// Read, think, write if it is still so: each EXEC that is no null counts once.
func TestWatchTogether(t *testing.T) {
	_, address := newServer(t)
	dial(t, address).want("SET n 0", "OK")
	const clients, each = 8, 25
	var wg sync.WaitGroup
	for range clients {
		p := dial(t, address)
		wg.Go(func() {
			for n := 0; n < each; {
				p.do("WATCH n")
				now, _ := strconv.Unquote(p.do("GET n"))
				seen, _ := strconv.Atoi(now)
				p.do("MULTI")
				p.do(fmt.Sprintf("SET n %d", seen+1))
				switch got := p.do("EXEC"); got {
				case "[OK]":
					n++
				case "nil[]":
				default:
					t.Error(got)
					return
				}
			}
		})
	}
	wg.Wait()
	dial(t, address).want("GET n", strconv.Quote(strconv.Itoa(clients*each)))
}

// A change by the program makes EXEC fail after WATCH, too.
func TestWatchOtherDoors(t *testing.T) {
	s, address := newServer(t)
	m, err := copal.OpenMap[string, int](s.DB, "m")
	if err != nil {
		t.Fatal(err)
	}
	p := dial(t, address)
	p.want("WATCH m:a", "OK")
	if err := m.Set("a", 1); err != nil {
		t.Fatal(err)
	}
	p.want("MULTI", "OK")
	p.want("SET x 1", "QUEUED")
	p.want("EXEC", "nil[]")
	p.want("EXISTS x", "0")
	if open := s.DB.Stats().Snapshots; open != 0 {
		t.Errorf("%d snapshots are open", open)
	}
	p.want("WATCH m:a", "OK")
	p.nc.Close()
	q := dial(t, address)
	for s.DB.Stats().Snapshots != 0 { // the server learns that the client is gone
		q.want("PING", "PONG")
	}
}

// Each WATCH that came before EXEC counts, whichever of its keys has changed.
func TestEachWatchCounts(t *testing.T) {
	_, address := newServer(t)
	p, other := dial(t, address), dial(t, address)
	for _, x := range []struct{ changed, reply string }{{"a", "nil[]"}, {"b", "nil[]"}, {"c", "nil[]"}, {"d", "nil[]"}, {"e", "[1]"}} {
		p.want("WATCH a b", "OK")
		p.want("WATCH c", "OK")
		p.want("WATCH a d", "OK")
		other.want("INCR "+x.changed, "1")
		p.want("MULTI", "OK")
		p.want("INCR done", "QUEUED")
		p.want("EXEC", x.reply)
	}
}

// Values of a typed map are shown as JSON, and every command that writes refuses values that the
// type cannot read.
func TestTypedMap(t *testing.T) {
	s, address := newServer(t)
	type user struct {
		Name string
		Age  int8
	}
	users, err := copal.OpenMap[string, user](s.DB, "users", copal.WithCodec(codec.Binary))
	if err != nil {
		t.Fatal(err)
	}
	ages, err := copal.OpenMap[string, int8](s.DB, "ages")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(users.Set("alice", user{"Alice", 28}), ages.Set("alice", 28), ages.Set("bob", 1)); err != nil {
		t.Fatal(err)
	}
	p := dial(t, address)
	p.want("GET users:alice", `"{\"Name\":\"Alice\",\"Age\":28}"`)
	p.want(`SET users:bob "{\"Name\":\"Bob\",\"Age\":7}"`, "OK")
	if bob, err := users.Load("bob"); err != nil || bob != (user{"Bob", 7}) {
		t.Errorf("%v, %v", bob, err)
	}
	p.want("INCR ages:alice", "29")
	for _, words := range []string{
		`SET users:bob hello`, `SET users:bob "{\"Age\":\"old\"}"`, `SET users:bob x NX`, `SET users:eve x NX`, `SETNX users:eve x`, `SETEX users:bob 10 x`, `GETSET users:bob x`, `MSET a 1 users:bob x`,
		`MSETNX b 1 users:eve x`, `SETBIT users:bob 0 1`, `BITFIELD users:bob SET u8 0 1`, `BITOP NOT users:bob ages:bob`, `LPUSH users:eve x`, `HSET users:eve f x`, `SADD users:eve x`, `ZADD users:eve 1 x`, `GEOADD users:eve 1 1 x`, `MSETEX 1 users:bob x`, `APPEND users:bob x`, `SETRANGE users:bob 0 x`, `INCRBY ages:alice 100`, `INCRBYFLOAT ages:alice 0.5`,
	} {
		if got := p.do(words); !strings.HasPrefix(got, "(error) ERR copal: ") && !strings.HasPrefix(got, "(error) ERR key ") && got != "nil" {
			t.Errorf("%s: %s", words, got)
		}
	}
	p.want("MGET a b users:eve", "[nil nil nil]")
	if bob, err := users.Load("bob"); err != nil || bob != (user{"Bob", 7}) {
		t.Errorf("%v, %v", bob, err)
	}
	if age, err := ages.Load("alice"); err != nil || age != 29 {
		t.Errorf("%v, %v", age, err)
	}
	// The same holds if no program has the maps open.
	if err := errors.Join(users.Close(), ages.Close()); err != nil {
		t.Fatal(err)
	}
	p.want(`SET users:alice "{\"Name\":\"A\"}"`, "OK")
	p.want(`MSET users:bob "{\"Name\":\"B\"}" ages:bob 2`, "OK")
	p.want("MULTI", "OK")
	p.want("INCR ages:alice", "QUEUED")
	p.want("EXEC", "[30]")
	p.want("GET users:bob", `"{\"Name\":\"B\",\"Age\":0}"`)
	for _, words := range []string{"SET users:bob x", "SET ages:bob x", "MSET users:bob x", "HSET users:eve f x"} {
		if got := p.do(words); !strings.HasPrefix(got, "(error) ERR ") {
			t.Errorf("%s: %s", words, got)
		}
	}
}

// Effects outside the store come after the commit, and an error of one request leaves the others
// valid.
func TestMultiWithEffects(t *testing.T) {
	_, address := newServer(t)
	p := dial(t, address)
	long := strings.Repeat("k", copal.MaxKeyBytes+1)
	p.want("WATCH k", "OK")
	p.want("MULTI", "OK")
	p.want("UNWATCH", "QUEUED")
	p.want("SET k 1", "QUEUED")
	p.want("SET "+long+" 1", "QUEUED")
	p.want("SET k 2 EXAT 9223372036854775807", "QUEUED")
	p.want("SETRANGE k 9223372036854775807 x", "QUEUED")
	p.want("EXEC", "[OK OK (error) ERR a key is longer than 65536 bytes (error) ERR invalid expire time in 'set' command (error) ERR string exceeds maximum allowed size (proto-max-bulk-len)]")
	p.want("GET k", `"1"`)
}

// A connection with durability fsync has its writes on the disk before their OK, whatever request
// follows in the pipeline.
func TestSyncedBeforeTheAnswer(t *testing.T) {
	for _, behind := range []string{"RESET", "CLIENT DURABILITY write", "PING"} {
		s, address := newServer(t, func(s *Server) { s.Durability = copal.FSync })
		s.init() // Serve may not have come to it
		c := newClient(s, dialled(t, address), 99)
		c.borrow()
		c.dispatch([][]byte{[]byte("SET"), []byte("k"), []byte("v")})
		c.dispatch(bytes.Fields([]byte(behind)))
		if !c.unsynced {
			t.Errorf("%s: the write is forgotten", behind)
		}
		if err := c.sync(); err != nil || c.unsynced {
			t.Errorf("%s: %v", behind, err)
		}
	}
}

func dialled(t *testing.T, address string) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return nc
}

// A closed store is an error, and not an empty one.
func TestReadsOfAClosedStore(t *testing.T) {
	s, address := newServer(t)
	p := dial(t, address)
	p.want("SET k v", "OK")
	if err := s.DB.Close(); err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"EXISTS k", "TOUCH k", "DBSIZE", "KEYS *", "SCAN 0", "RANDOMKEY", "HLEN h", "LLEN l", "SCARD s", "ZCARD z", "SISMEMBER s m", "GET k", "MGET k"} {
		p.want(words, "(error) ERR the store is closed")
	}
}

// A walk by pages returns once each key that is there all the time.
func TestScanWhileKeysChange(t *testing.T) {
	s, address := newServer(t)
	raw := s.DB.Raw()
	for i := range 500 {
		if err := raw.Set(fmt.Appendf(nil, "stays%04d", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	p := dial(t, address)
	seen := map[string]int{}
	for cursor, round := "0", 0; ; round++ {
		for i := range 20 {
			key := fmt.Appendf(nil, "stays%04d-%d", (round*37+i*13)%500, i)
			if err := raw.Set(key, nil); err != nil {
				t.Fatal(err)
			}
			if _, err := raw.Delete(fmt.Appendf(nil, "stays%04d-%d", (round*31+i*7)%500, i)); err != nil {
				t.Fatal(err)
			}
		}
		p.send("SCAN " + cursor + " COUNT 17")
		reply := p.read()
		words := commandtest.Split(t, strings.NewReplacer("[", " ", "]", " ").Replace(reply))
		for _, key := range words[1:] {
			seen[key]++
		}
		if cursor = words[0]; cursor == "0" {
			break
		}
	}
	for i := range 500 {
		if key := fmt.Sprintf("stays%04d", i); seen[key] != 1 {
			t.Errorf("%s came %d times", key, seen[key])
		}
	}
}

// Shutdown answers the requests that have arrived, closes the connections, and ends the server.
func TestShutdown(t *testing.T) {
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, ended := &Server{DB: db}, make(chan error, 1)
	go func() { ended <- s.Run(ctx, l) }()
	idle, busy := dial(t, l.Addr().String()), dial(t, l.Addr().String())
	idle.want("PING", "PONG")
	const n = 5000
	go io.WriteString(busy.nc, strings.Repeat("INCR n\r\n", n))
	if got := busy.read(); got != "1" {
		t.Fatal(got)
	}
	cancel()
	last := 1
	for {
		got, err := commandtest.ReadReply(busy.r)
		if err != nil {
			break
		}
		if last++; got != strconv.Itoa(last) {
			t.Fatalf("%s after %d", got, last-1)
		}
	}
	if _, err := idle.r.ReadByte(); err != io.EOF {
		t.Errorf("an idle client: %v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got, _ := db.Raw().Get([]byte("n")); string(got) != strconv.Itoa(last) {
		t.Errorf("%s in the store, and %d answered", got, last)
	}
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("it takes connections")
	}
	if err := s.Serve(l); !errors.Is(err, ErrServerClosed) {
		t.Error(err)
	}
}

// Clients that wait have no buffers, and few bytes.
func TestIdleClientsAreSmall(t *testing.T) {
	_, address := newServer(t)
	const n = 200
	before := heap()
	var list []net.Conn
	for range n {
		nc, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		fmt.Fprint(nc, "PING\r\n")
		if line, err := bufio.NewReaderSize(nc, 16).ReadString('\n'); line != "+PONG\r\n" {
			t.Fatal(line, err)
		}
		list = append(list, nc)
	}
	if each := (heap() - before) / int64(len(list)); each > 6<<10 { // both ends
		t.Errorf("%d bytes a connection", each)
	}
}

// The goroutine of a client that waits has the smallest stack of Go, 2 KiB, until a command needs
// more. The garbage collector then halves the larger stack, because a client that waits uses little
// of it.
func TestIdleClientsHaveSmallStacks(t *testing.T) {
	if testing.CoverMode() != "" || instrumented() {
		t.Skip("frames are larger")
	}
	_, address := newServer(t)
	const n = 200
	var list []*peer
	connect := func() {
		for range n {
			p := dial(t, address)
			p.want("PING", "PONG")
			list = append(list, p)
		}
	}
	stacks := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.StackInuse)
	}
	none := stacks()
	connect() // so that the collector learns which stacks goroutines need, and begins with such
	some := stacks()
	connect()
	if each := (stacks() - some) / n; each > 3<<10 {
		t.Errorf("a client that waits has a stack of %d bytes", each)
	}
	for _, p := range list {
		p.want("SET k v", "OK")
		p.want("GET k", `"v"`)
	}
	if each := (stacks() - none) / (2 * n); each > 5<<10 {
		t.Errorf("a client that has written has a stack of %d bytes", each)
	}
}

// instrumented reports whether the program looks for races.
func instrumented() bool {
	info, _ := debug.ReadBuildInfo()
	return slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// A client that reads no reply does not keep the server from ending.
func TestShutdownWithAClientThatDoesNotRead(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		deaf := dial()
		deaf.send("PING")
		synctest.Wait() // it writes
		began := time.Now()
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it took %v", took)
		}
	})
}

// The buffers that clients share do not become smaller by requests that are cut off.
func TestBuffersKeepTheirSize(t *testing.T) {
	s := &Server{}
	s.init()
	c := &client{s: s}
	c.openAccount()
	c.borrow()
	c.in = append(c.in, "*2\r\n$3\r\nGET\r\n$60000\r\n"...)
	c.grow(60_000)
	if cap(c.in) < readBytes {
		t.Errorf("the buffer has %d bytes", cap(c.in))
	}
	c.in = c.in[:cap(c.in)]
	c.grow(60_000)
	if cap(c.in) <= readBytes || cap(c.in) > 60_000 {
		t.Errorf("the buffer has %d bytes", cap(c.in))
	}
}

// A client that neither sends nor reads is closed after the time for that. One that listens sends nothing, and stays.
func TestIdleTimeout(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		s.IdleTimeout = time.Minute
		idle, deaf, listener, monitor := dial(), dial(), dial(), dial()
		deaf.send("PING") // and does not read
		listener.do("SUBSCRIBE c")
		monitor.do("MONITOR")
		go io.Copy(io.Discard, monitor.r)
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := len(s.all()); n != 2 {
			t.Errorf("there are %d clients", n)
		}
		dial().want("PUBLISH c x", "1")
		listener.wantNext(`["message" "c" "x"]`)
		listener.do("UNSUBSCRIBE c")
		listener.want("PING", "PONG")
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := len(s.all()); n != 1 {
			t.Errorf("there are %d clients", n)
		}
		idle.nc.Close()
	})
}

// A store that refuses writes says why, and only one that is open for reading alone is a replica.
func TestRefusedWritesSayWhy(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files that are open cannot be removed")
	}
	dir := filepath.Join(t.TempDir(), "store")
	open := func(options ...copal.Option) *copal.DB {
		db, err := copal.Open(dir, append(options, copal.WithErrorHandler(func(error) {}))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return db
	}
	db := open()
	if err := errors.Join(db.Raw().Set([]byte("k"), []byte("v")), db.Close()); err != nil {
		t.Fatal(err)
	}
	_, address := newServer(t, func(s *Server) { s.DB = open(copal.ReadOnly()) })
	dial(t, address).want("SET k w", "(error) READONLY You can't write against a read only replica.")

	db = open()
	_, address = newServer(t, func(s *Server) { s.DB = db })
	p := dial(t, address)
	p.want("SET k w", "OK")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := db.Sync(); err == nil {
		t.Fatal("the directory has gone, and nothing has failed")
	}
	for _, command := range []string{"SET k x", "DEL k", "HSET h f v"} {
		if got := p.do(command); !strings.HasPrefix(got, "(error) MISCONF copal: ") || !strings.Contains(got, "moved the directory") {
			t.Errorf("%s: %s", command, got)
		}
	}
}
