package redisapi

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc64"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"github.com/copaldb/copal/redisapi/internal/commandtest"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi/internal/keys"
)

// worst are commands with a count, a range, a repetition or a product, at their worst. h, l, s, z and x have
// 64 elements of 256 KiB, k and k2 have 12 MiB.
const worst = `HGETALL h|HVALS h|HKEYS wide|HRANDFIELD h -1048576 WITHVALUES|HRANDFIELD h 1048576 WITHVALUES|HSCAN h 0 COUNT 1000000
SMEMBERS s|SRANDMEMBER s -1048576|SRANDMEMBER s 1000|SPOP s 1000000|SUNION s s2|SINTER s s|SDIFF s s2|SUNIONSTORE d s s2|SSCAN s 0 COUNT 100000
LRANGE l 0 -1|LPOP l 1000|RPOP l 1000|LMPOP 1 l LEFT COUNT 1000|BLMPOP 0 1 l LEFT COUNT 1000|LREM l 0 none|SORT l ALPHA|SORT l BY nosort GET # GET # GET #|SORT l ALPHA STORE d
ZRANGE z 0 -1|ZRANGEBYSCORE z -inf inf WITHSCORES|ZRANDMEMBER z -1048576 WITHSCORES|ZPOPMIN z 1000|ZMPOP 1 z MIN COUNT 1000|BZMPOP 0 1 z MAX COUNT 1000
ZUNION 2 z s|ZINTER 2 z z WITHSCORES|ZDIFF 1 z|ZUNIONSTORE d 2 z s|ZRANGESTORE d z 0 -1|ZSCAN z 0 COUNT 100000|ZREMRANGEBYRANK z 0 -1
GEOSEARCH z FROMLONLAT 0 0 BYRADIUS 30000 km WITHDIST|GEOSEARCHSTORE d z FROMLONLAT 0 0 BYBOX 40000 40000 km|GEORADIUS z 0 0 30000 km
XRANGE x - +|XREVRANGE x + - COUNT 100000|XREAD STREAMS x 0|XREADGROUP GROUP g c STREAMS x >|XTRIM x MAXLEN 0
SETRANGE k 500000000 x|SETBIT k 4000000000 1|BITFIELD k SET u8 #500000000 1|APPEND k APPENDED|BITOP OR d k k2|BITOP NOT d k|GETSET k x|SET k x GET|MGET k k k k k k|GETRANGE k 0 -1
LCS k k|LCS k k LEN|LCS small small2|LCS small small2 IDX|DUMP h|DUMP x|COPY h d|COPY k d|RENAME h h3|KEYS *|COPAL.RANGE *|COPAL.STREAM GET x|COPAL.ENTRY k|MEMORY USAGE h SAMPLES 0|OBJECT ENCODING s`

// No command takes more memory than clients may have. A command that needs more fails, and changes
// nothing.
func TestEveryCommandIsBounded(t *testing.T) {
	const memory = 3 << 20
	var log logs
	s, address := newServer(t, onDisk(t, copal.WithMaxMemory(16<<20)), func(s *Server) { s.ClientMemory, s.Logger = memory, slog.New(&log) })
	raw := s.DB.Raw()
	big := strings.Repeat("b", 64<<10)
	name := strings.Repeat("n", 16<<10)
	fill := func() {
		t.Helper()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(raw.Clear())
		p := dial(t, address)
		for i := range 64 {
			id := fmt.Sprintf("%s%d", name, i)
			must(raw.Hash([]byte("h")).Set(id, []byte(big)))
			must(raw.List([]byte("l")).PushBack([]byte(big)))
			must(raw.SortedSet([]byte("z")).Set(id, 3e15+float64(i)))
			p.want(fmt.Sprintf("XADD x %d f %s", i+1, big), fmt.Sprintf(`"%d-0"`, i+1))
		}
		for i := range 200 {
			for _, set := range []string{"s", "s2"} {
				_, err := raw.StringSet([]byte(set)).Add(fmt.Sprintf("%s%s%d", set, name, i))
				must(err)
			}
		}
		for _, key := range []string{"k", "k2"} {
			must(raw.Set([]byte(key), []byte(strings.Repeat("k", 3<<20))))
		}
		must(raw.Set([]byte("small"), []byte(strings.Repeat("ab", 4000))))
		must(raw.Set([]byte("small2"), []byte(strings.Repeat("ba", 4000))))
		p.want("XGROUP CREATE x g 0", "OK")
		p.nc.Close()
		until(func() bool { return len(s.all()) == 0 })
	}
	fill()
	sizes := func() string {
		return fmt.Sprint(raw.Hash([]byte("h")).Len(), raw.List([]byte("l")).Len(), raw.StringSet([]byte("s")).Len(),
			raw.SortedSet([]byte("z")).Len(), raw.Stream([]byte("x")).Len(), raw.Has([]byte("k")), raw.Has([]byte("d")))
	}
	full := sizes()
	failed := 0
	for _, words := range strings.FieldsFunc(worst, func(r rune) bool { return r == '|' || r == '\n' }) {
		for _, form := range []string{"%s", "MULTI|SET before 1|%s|EXEC", "COPAL.BEGIN|SET before 1|%s|COPAL.COMMIT"} {
			p := dial(t, address)
			before := s.written()
			var got string
			for _, each := range strings.Split(fmt.Sprintf(form, words), "|") {
				p.send(each)
				var err error
				if got, err = commandtest.ReadReply(p.r); err != nil {
					got = "(error) closed"
					break
				}
			}
			if len(got) > memory+memory/2 {
				t.Errorf("%s: a reply of %d bytes", words, len(got))
			}
			if strings.Contains(got, "used up") || strings.Contains(got, "longer than") || got == "(error) closed" {
				failed++
				if s.written() != before {
					t.Errorf("%s as %s: %s, and it has written", words, form, got)
				}
			}
			for _, c := range s.all() {
				if n := c.Work.Load(); n != 0 {
					t.Errorf("%s as %s: %d bytes are charged for work that has ended", words, form, n)
				}
			}
			p.nc.Close()
			until(func() bool { return len(s.all()) == 0 })
			if n := s.memory.Used(); n != 0 {
				t.Errorf("%s as %s: %d bytes are charged for nobody", words, form, n)
			}
			if sizes() != full {
				fill()
			}
		}
	}
	t.Logf("%d calls failed", failed)
	if failed < 60 {
		t.Errorf("%d calls failed only", failed)
	}
}

// A command ends when its client is killed, and a second after it has left.
func TestWorkEndsWithItsClient(t *testing.T) {
	s, address := newServer(t)
	for i := range 2000 {
		if err := s.DB.Raw().Set(fmt.Appendf(nil, "%s%d", strings.Repeat("a", 1000), i), nil); err != nil {
			t.Fatal(err)
		}
	}
	other := dial(t, address)
	other.want("SADD s 1 2 3", "3")
	pattern := strings.Repeat("*a", 30_000) + "b"
	for _, words := range []string{"KEYS " + pattern, "SCAN 0 COUNT 1000000 MATCH " + pattern, "DEBUG SLEEP 3000", "SINTERCARD 1 s", "MULTI|KEYS " + pattern + "|EXEC"} {
		for _, leaves := range []bool{false, true} {
			p := dial(t, address)
			for _, each := range strings.Split(words, "|") {
				p.send(each)
			}
			until(func() bool { return len(s.all()) == 2 })
			id := s.ids.Load()
			if leaves {
				p.nc.Close()
			} else {
				other.do(fmt.Sprintf("CLIENT KILL ID %d", id))
			}
			until(func() bool { return len(s.all()) == 1 })
			other.round(1)
		}
	}
}

// Queued requests are charged to the memory of clients until EXEC or DISCARD. The names of channels
// are charged, too.
func TestQueueIsCharged(t *testing.T) {
	s, address := newServer(t, func(s *Server) { s.ClientMemory = 8 << 20 })
	p := dial(t, address)
	value := strings.Repeat("v", 1<<20)
	for _, end := range []string{"EXEC", "DISCARD"} {
		p.want("MULTI", "OK")
		got := "QUEUED"
		for n := 0; got == "QUEUED"; n++ {
			if got = p.do("SET k " + value); n > 8 {
				t.Fatal("all of it is queued")
			}
		}
		if want := "(error) ERR the memory for requests and replies of clients is used up"; got != want {
			t.Errorf("%s", got)
		}
		p.want(end, map[string]string{"EXEC": "(error) EXECABORT Transaction discarded because of previous errors.", "DISCARD": "OK"}[end])
	}
	p.want("EXISTS k", "0")
	p.want("MULTI", "OK")
	p.want("SET k "+value, "QUEUED")
	p.want("EXEC", "[OK]")
	for i := range 200 {
		if got := p.do(fmt.Sprintf("SUBSCRIBE %d%s", i, strings.Repeat("c", 60<<10))); strings.HasPrefix(got, "(error) ERR the memory") {
			if s.memory.Used() > 8<<20 {
				t.Error(s.memory.Used())
			}
			return
		}
	}
	t.Error("names of channels are not charged")
}

// The strings of this dump are 88 times as long as in their compressed form. RESTORE fails instead
// of exceeding the memory of clients.
func TestDumpThatGrows(t *testing.T) {
	s, address := newServer(t, func(s *Server) { s.ClientMemory = 16 << 20 })
	packed := []byte{0, 'x'}
	length := 1
	for length < 1<<20 {
		packed = append(packed, 0xe0, 0xff, 0) // 264 times the byte before
		length += 264
	}
	dump := []byte{1, 0x80}
	const strs = 1000
	dump = binary.BigEndian.AppendUint32(dump, strs)
	for range strs {
		dump = binary.BigEndian.AppendUint32(append(dump, 0xc3, 0x80), uint32(len(packed)))
		dump = binary.BigEndian.AppendUint32(append(dump, 0x80), uint32(length))
		dump = append(dump, packed...)
	}
	dump = append(dump, 9, 0)
	dump = binary.LittleEndian.AppendUint64(dump, ^crc64.Update(^uint64(0), crc64.MakeTable(0x95ac9329ac4bc9b5), dump))
	most := watchMemory()
	p := dial(t, address)
	if _, err := fmt.Fprintf(p.nc, "*4\r\n$7\r\nRESTORE\r\n$1\r\nk\r\n$1\r\n0\r\n$%d\r\n%s\r\n", len(dump), dump); err != nil {
		t.Fatal(err)
	}
	p.wantNext("(error) ERR the memory for requests and replies of clients is used up")
	p.want("EXISTS k", "0")
	wantMemory(t, "a dump", most, 96<<20)
	if n := s.memory.Used(); n > 16<<20 {
		t.Error(n)
	}
}

// A request may have more arguments than a million. Their memory is charged before it is taken.
func TestManyArguments(t *testing.T) {
	_, address := newServer(t)
	const n = 1_200_000
	text := fmt.Sprintf("*%d\r\n$6\r\nEXISTS\r\n", n+1) + strings.Repeat("$1\r\na\r\n", n)
	p := dial(t, address)
	if _, err := io.WriteString(p.nc, text); err != nil {
		t.Fatal(err)
	}
	p.wantNext("0")
	_, address = newServer(t, func(s *Server) { s.ClientMemory = 16 << 20 })
	p = dial(t, address)
	go io.WriteString(p.nc, text)
	p.wantNext("(error) ERR the memory for requests and replies of clients is used up")
}

// A value that a command reads as a whole is charged before it is in memory, because its length is
// known.
func TestLargeValuesAreCharged(t *testing.T) {
	const size = 16 << 20
	s, address := newServer(t, onDisk(t, copal.WithMaxMemory(16<<20)), func(s *Server) { s.ClientMemory = 8 << 20 })
	value, raw := bytes.Repeat([]byte("v"), size), s.DB.Raw()
	for _, err := range []error{raw.Set([]byte("k"), value), raw.Hash([]byte("h")).Set("f", value), raw.List([]byte("l")).PushBack(value)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	value = nil
	p := dial(t, address)
	p.want(`RPUSH s ""`, "1")
	p.want("STRLEN k", fmt.Sprint(size))
	p.want("MEMORY USAGE k", fmt.Sprint(size+keys.RecordBytes+1))
	p.want("MULTI", "OK")
	p.want("STRLEN k", "QUEUED")
	p.want("EXEC", fmt.Sprintf("[%d]", size))
	for _, words := range []string{
		"GET k", "GETRANGE k 0 1", "GETBIT k 0", "BITCOUNT k", "BITPOS k 0", "BITFIELD_RO k GET u8 0", "MGET k", "GETEX k", "SET k x GET", "LCS k k", "COPAL.TYPED GET k",
		"OBJECT ENCODING k", "DUMP k", "HGET h f", "HMGET h f", "HGETALL h", "LINDEX l 0", "LRANGE l 0 -1", "SORT l ALPHA", "SORT s BY none GET k*",
		"APPEND k x", "SETRANGE k 0 x", "SETBIT k 0 1", "BITFIELD k SET u8 0 1", "BITOP NOT b k", "INCR k", "INCRBYFLOAT k 1", "GETSET k x", "GETDEL k", "COPY k c",
		"HINCRBY h f 1", "HINCRBYFLOAT h f 1", "LPOP l", "RPOP l", "LMOVE l s LEFT LEFT",
	} {
		for _, form := range []string{"%s", "MULTI|%s|EXEC", "COPAL.BEGIN|%s"} {
			p := dial(t, address)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var got string
			for _, each := range strings.Split(fmt.Sprintf(form, words), "|") {
				p.send(each)
				got, _ = commandtest.ReadReply(p.r)
			}
			runtime.ReadMemStats(&after)
			if got != "(error) ERR the memory for requests and replies of clients is used up" || after.TotalAlloc-before.TotalAlloc > size/2 {
				t.Errorf("%s as %s: %.100s, and %.1f MiB", words, form, got, mib(int64(after.TotalAlloc-before.TotalAlloc)))
			}
			p.nc.Close()
		}
	}
	until(func() bool { return len(s.all()) == 1 })
	if n := s.memory.Used(); n != 0 {
		t.Errorf("%d bytes stay charged", n)
	}
}
