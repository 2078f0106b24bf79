package redisapi

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal/internal/redisstream"
	"github.com/copaldb/copal/redisapi/internal/command"
	"github.com/copaldb/copal/redisapi/internal/events"
)

// All clients that wait for an entry get it, whichever command adds it.
func TestReadersWait(t *testing.T) {
	byCommand := func(words ...string) func(*peer) {
		return func(p *peer) {
			for _, w := range words {
				p.do(w)
			}
		}
	}
	for name, c := range map[string]struct {
		request string
		add     func(*peer)
		reply   string
	}{
		"behind an id":   {"XREAD BLOCK 0 STREAMS s 1-1", byCommand("XADD s 2-2 a 1"), `[["s" [["2-2" ["a" "1"]]]]]`},
		"behind all":     {"XREAD BLOCK 0 STREAMS s $", byCommand("XADD s 2-2 a 1", "XADD s 3-3 b 1"), `[["s" [["2-2" ["a" "1"]]]]]`},
		"a new stream":   {"XREAD BLOCK 0 STREAMS none $", byCommand("XADD none 2-2 a 1"), `[["none" [["2-2" ["a" "1"]]]]]`},
		"of several":     {"XREAD COUNT 5 BLOCK 0 STREAMS none s $ $", byCommand("XADD s 2-2 a 1"), `[["s" [["2-2" ["a" "1"]]]]]`},
		"by MULTI":       {"XREAD BLOCK 0 STREAMS s $", byCommand("MULTI", "XADD s 2-2 a 1", "XADD s 3-3 b 1", "EXEC"), `[["s" [["2-2" ["a" "1"]] ["3-3" ["b" "1"]]]]]`},
		"by RENAME":      {"XREAD BLOCK 0 STREAMS none $", byCommand("XADD x 2-2 a 1", "RENAME x none"), `[["none" [["2-2" ["a" "1"]]]]]`},
		"not of a value": {"XREAD BLOCK 0 STREAMS none 0", byCommand("SET none 1", "DEL none", "XGROUP CREATE none g 0 MKSTREAM", "XADD none 2-2 a 1"), `[["none" [["2-2" ["a" "1"]]]]]`},
		"not lower ones": {"XREAD BLOCK 0 STREAMS s 2-2", byCommand("XADD s 2-1 a 1", "XADD s 2-2 a 1", "XADD s 2-3 a 1"), `[["s" [["2-3" ["a" "1"]]]]]`},
		"another database": {"XREAD BLOCK 0 STREAMS s $", byCommand("SELECT 1", "XADD s 2-2 a 1", "SELECT 0", "XADD s 2-3 a 1"),
			`[["s" [["2-3" ["a" "1"]]]]]`},
	} {
		t.Run(name, func(t *testing.T) {
			piped(t, func(t *testing.T, _ *Server, dial func() *peer) {
				a, b, c3, writer := dial(), dial(), dial(), dial()
				writer.want("XADD s 1-1 first 1", `"1-1"`)
				c3.do("HELLO 3")
				for _, p := range []*peer{a, b, c3} {
					p.begin(c.request)
				}
				c.add(writer)
				a.wantNext(c.reply)
				b.wantNext(c.reply)
				c3.wantNext(strings.NewReplacer(`[["s" [`, `{"s": [`, `[["none" [`, `{"none": [`).Replace(strings.TrimSuffix(c.reply, "]]")) + "}")
				a.want("PING", "PONG")
			})
		})
	}
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		a := dial()
		a.want("XADD s 1-1 first 1", `"1-1"`)
		a.begin("XREAD BLOCK 0 STREAMS s $")
		if err := s.DB.Raw().Stream([]byte("s")).Set(redisstream.EntryName(redisstream.ID{MS: 2, Seq: 2}), redisstream.AppendFields(nil, [][]byte{[]byte("a"), []byte("1")})); err != nil {
			t.Fatal(err)
		}
		a.wantNext(`[["s" [["2-2" ["a" "1"]]]]]`)
		a.want("XREAD BLOCK 10 STREAMS s $", "nil[]")
		a.begin("XREAD BLOCK 10 STREAMS s $")
		a.wantNext("nil[]")
	})
}

// An entry goes to the consumer that has waited longest, and to one of each group.
func TestConsumersWait(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		a, b, other, w := dial(), dial(), dial(), dial()
		w.want("XGROUP CREATE s g $ MKSTREAM", "OK")
		w.want("XGROUP CREATE s h $", "OK")
		a.begin("XREADGROUP GROUP g a BLOCK 0 STREAMS s >")
		b.begin("XREADGROUP GROUP g b COUNT 5 BLOCK 0 STREAMS none s > >")
		b.wantNext("(error) NOGROUP No such key 'none' or consumer group 'g' in XREADGROUP with GROUP option")
		b.begin("XREADGROUP GROUP g b COUNT 5 BLOCK 0 STREAMS s >")
		other.begin("XREADGROUP GROUP h a BLOCK 0 NOACK STREAMS s >")
		w.want("XINFO GROUPS s", `[["name" "g" "consumers" 2 "pending" 0 "last-delivered-id" "0-0" "entries-read" nil "lag" 0] ["name" "h" "consumers" 1 "pending" 0 "last-delivered-id" "0-0" "entries-read" nil "lag" 0]]`)
		w.want("XADD s 1-1 n 1", `"1-1"`)
		a.wantNext(`[["s" [["1-1" ["n" "1"]]]]]`)
		other.wantNext(`[["s" [["1-1" ["n" "1"]]]]]`)
		w.want("XADD s 2-2 n 1", `"2-2"`)
		b.wantNext(`[["s" [["2-2" ["n" "1"]]]]]`)
		w.want("XPENDING s g", `[2 "1-1" "2-2" [["a" "1"] ["b" "1"]]]`)
		w.want("XPENDING s h", `[0 nil nil nil[]]`)
		w.want("XREADGROUP GROUP g a BLOCK 0 STREAMS s 0", `[["s" [["1-1" ["n" "1"]]]]]`)
		// A consumer that asks for new entries does not get its pending one again.
		a.begin("XREADGROUP GROUP g a BLOCK 50 STREAMS s >")
		synctest.Wait()
		a.wantNext("nil[]")
	})
}

// A client that waits for entries of a group learns that there is no such group any more.
func TestGroupsThatGo(t *testing.T) {
	const gone = "(error) NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option"
	for request, reply := range map[string]string{
		"XGROUP DESTROY s g": gone, "DEL s": gone, "FLUSHALL": gone, "FLUSHDB": gone, "RENAME s t": gone, "PEXPIRE s 10": gone,
		"SET s 1": "(error) " + string(command.ErrWrongType),
	} {
		piped(t, func(t *testing.T, s *Server, dial func() *peer) {
			s.notifies(events.Keyevent | events.Expired) // so that expired keys are reported
			a, reader, w := dial(), dial(), dial()
			w.want("XGROUP CREATE s g $ MKSTREAM", "OK")
			a.begin("XREADGROUP GROUP g a BLOCK 0 STREAMS s >")
			reader.begin("XREAD BLOCK 0 STREAMS s $")
			w.do(request)
			time.Sleep(time.Second)
			if got := a.read(); got != reply {
				t.Errorf("%s: %s, want %s", request, got, reply)
			}
			w.do("DEL s")
			w.want("XADD s 1-1 a 1", `"1-1"`)
			reader.wantNext(`[["s" [["1-1" ["a" "1"]]]]]`)
		})
	}
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		a := dial()
		a.want("XGROUP CREATE s g $ MKSTREAM", "OK")
		a.begin("XREADGROUP GROUP g a BLOCK 0 STREAMS s >")
		if _, err := s.DB.Raw().Stream([]byte("s")).Delete("gg"); err != nil {
			t.Fatal(err)
		}
		a.wantNext(gone)
	})
}

// An XREADGROUP that is tried in vain for a client that waits writes nothing, so clients do not
// wake each other.
func TestWaitingConsumersWriteNothing(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		a, b, w := dial(), dial(), dial()
		w.want("XGROUP CREATE s g $ MKSTREAM", "OK")
		a.begin("XREADGROUP GROUP g a BLOCK 0 STREAMS s >")
		b.begin("XREADGROUP GROUP g b BLOCK 0 STREAMS s >")
		time.Sleep(time.Minute)
		before := records(t, s)
		w.want("XSETID s 5-5", "OK")
		synctest.Wait()
		if n := records(t, s) - before; n != 1 {
			t.Errorf("%d records", n)
		}
	})
}

// records returns the number of records that the log has had.
func records(t *testing.T, s *Server) uint64 {
	then, err := s.DB.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer then.Close()
	return then.Seq()
}

// XPENDING and XINFO report the times of deliveries, in milliseconds.
func TestTimesOfConsumers(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		p := dial()
		p.want("XADD s 1-1 n 1", `"1-1"`)
		p.want("XADD s 2-1 n 1", `"2-1"`)
		p.want("XGROUP CREATE s g 0", "OK")
		p.want("XGROUP CREATECONSUMER s g idle", "1")
		p.want("XINFO CONSUMERS s g", `[["name" "idle" "pending" 0 "idle" 0 "inactive" -1]]`)
		time.Sleep(5 * time.Second)
		p.want("XREADGROUP GROUP g a COUNT 1 STREAMS s >", `[["s" [["1-1" ["n" "1"]]]]]`)
		time.Sleep(time.Second)
		p.want("XREADGROUP GROUP g b COUNT 1 STREAMS s >", `[["s" [["2-1" ["n" "1"]]]]]`)
		p.want("XPENDING s g - + 10", `[["1-1" "a" 1000 1] ["2-1" "b" 0 1]]`)
		p.want("XPENDING s g IDLE 1000 - + 10", `[["1-1" "a" 1000 1]]`)
		p.want("XPENDING s g IDLE 1001 - + 10", `[]`)
		p.want("XPENDING s g - + 1", `[["1-1" "a" 1000 1]]`)
		p.want("XPENDING s g (1-1 + 1", `[["2-1" "b" 0 1]]`)
		p.want("XPENDING s g - + 10 b", `[["2-1" "b" 0 1]]`)
		p.want("XPENDING s g IDLE 1 - + 10 b", `[]`)
		time.Sleep(time.Second)
		p.want("XREADGROUP GROUP g a STREAMS s 0", `[["s" [["1-1" ["n" "1"]]]]]`)
		p.want("XPENDING s g - + 10 a", `[["1-1" "a" 0 2]]`)
		p.want("XREADGROUP GROUP g b STREAMS s >", `nil[]`)
		p.want("XINFO CONSUMERS s g", `[["name" "a" "pending" 1 "idle" 0 "inactive" 2000] ["name" "b" "pending" 1 "idle" 0 "inactive" 1000] ["name" "idle" "pending" 0 "idle" 7000 "inactive" -1]]`)
		time.Sleep(999 * time.Millisecond) // which is not noted
		p.want("XREADGROUP GROUP g b STREAMS s >", `nil[]`)
		p.want("XINFO CONSUMERS s g", `[["name" "a" "pending" 1 "idle" 999 "inactive" 2999] ["name" "b" "pending" 1 "idle" 999 "inactive" 1999] ["name" "idle" "pending" 0 "idle" 7999 "inactive" -1]]`)
		p.want("XCLAIM s g a 2000 1-1 2-1 JUSTID", `[]`)
		p.want("XCLAIM s g a 1999 1-1 2-1 JUSTID", `["2-1"]`)
		p.want("XPENDING s g - + 10", `[["1-1" "a" 999 2] ["2-1" "a" 0 1]]`)
		p.want("XCLAIM s g b 0 1-1 IDLE 5000 RETRYCOUNT 9 JUSTID", `["1-1"]`)
		p.want("XPENDING s g - + 10", `[["1-1" "b" 5000 9] ["2-1" "a" 0 1]]`)
		p.want(fmt.Sprint("XCLAIM s g b 0 2-1 JUSTID TIME ", time.Now().UnixMilli()-77), `["2-1"]`)
		p.want("XPENDING s g - + 10", `[["1-1" "b" 5000 9] ["2-1" "b" 77 1]]`)
		p.want("XAUTOCLAIM s g c 100 0", `["0-0" [["1-1" ["n" "1"]]] []]`)
		p.want("XPENDING s g - + 10", `[["1-1" "c" 0 10] ["2-1" "b" 77 1]]`)
		at := time.Now().UnixMilli()
		full := p.do("XINFO STREAM s FULL")
		_, consumers, _ := strings.Cut(full, `"consumers" `)
		want := fmt.Sprintf(`[["name" "a" "seen-time" %d "active-time" %d "pel-count" 0 "pending" []] ["name" "b" "seen-time" %d "active-time" %d "pel-count" 1 "pending" [["2-1" %d 1]]] ["name" "c" "seen-time" %d "active-time" %d "pel-count" 1 "pending" [["1-1" %d 10]]]`,
			at, at, at, at, at-77, at, at, at)
		if !strings.HasPrefix(consumers, want) {
			t.Errorf("%s\nwant %s", consumers, want)
		}
		if !strings.Contains(full, fmt.Sprintf(`"pel-count" 2 "pending" [["1-1" "c" %d 10] ["2-1" "b" %d 1]]`, at, at-77)) {
			t.Error(full)
		}
		p.want("XGROUP DELCONSUMER s g c", "1")
		p.want("XPENDING s g", `[1 "2-1" "2-1" [["b" "1"]]]`)
		p.want("XREADGROUP GROUP g c STREAMS s 0", `[["s" []]]`)
	})
}

// Each entry is delivered to one consumer, whatever consumers do at once. Acknowledged entries are
// no longer pending, and other consumers claim the entries of one that has died.
func TestEachEntryIsDeliveredOnce(t *testing.T) {
	_, address := newServer(t)
	const producers, each, consumers = 3, 150, 5
	setup := dial(t, address)
	setup.want("XGROUP CREATE s g $ MKSTREAM", "OK")
	setup.want("XGROUP CREATE end g $ MKSTREAM", "OK")
	var all sync.WaitGroup
	for n := range producers {
		p := dial(t, address)
		all.Go(func() {
			for i := range each {
				if id := p.do(fmt.Sprintf("XADD s * n %d.%d", n, i)); !strings.Contains(id, "-") {
					t.Error(id)
				}
			}
		})
	}
	entry := regexp.MustCompile(`\["(\d+-\d+)" \["n" "([\d.]+)"\]\]`)
	var mu sync.Mutex
	var delivered, acknowledged []string
	left := map[string]string{} // by those that have died
	for n := range consumers {
		p := dial(t, address)
		all.Go(func() {
			for round := 0; ; round++ {
				reply := p.do(fmt.Sprintf("XREADGROUP GROUP g c%d COUNT 4 BLOCK 0 STREAMS s end > >", n))
				if strings.HasPrefix(reply, "(") {
					t.Error(reply)
					return
				}
				found := entry.FindAllStringSubmatch(reply, -1)
				mu.Lock()
				for _, e := range found {
					delivered = append(delivered, e[2])
				}
				done := len(delivered) >= producers*each
				dies := n == 0 && round == 10
				if dies {
					for _, e := range found {
						left[e[1]] = e[2]
					}
				}
				mu.Unlock()
				if dies {
					p.nc.Close()
					return
				}
				for _, e := range found {
					if got := p.do("XACK s g " + e[1]); got != "1" {
						t.Errorf("%s is acknowledged %s times", e[1], got)
					}
					mu.Lock()
					acknowledged = append(acknowledged, e[2])
					mu.Unlock()
				}
				if done || len(found) == 0 { // an entry of end
					p.do("XADD end * next consumer")
					return
				}
			}
		})
	}
	all.Wait()
	var want []string
	for n := range producers {
		for i := range each {
			want = append(want, fmt.Sprintf("%d.%d", n, i))
		}
	}
	slices.Sort(want)
	slices.Sort(delivered)
	if !slices.Equal(delivered, want) {
		t.Errorf("%d deliveries of %d entries: %q", len(delivered), len(want), delivered)
	}
	reply := setup.do("XAUTOCLAIM s g heir 0 0 COUNT 1000")
	claimed := entry.FindAllStringSubmatch(reply, -1)
	for _, e := range claimed {
		if left[e[1]] != e[2] {
			t.Errorf("%s was not left over", e[1])
		}
		acknowledged = append(acknowledged, e[2])
		setup.want("XACK s g "+e[1], "1")
	}
	if len(claimed) != len(left) || len(left) == 0 {
		t.Errorf("%d claimed of %d", len(claimed), len(left))
	}
	slices.Sort(acknowledged)
	if !slices.Equal(acknowledged, want) {
		t.Errorf("%d are acknowledged of %d", len(acknowledged), len(want))
	}
	setup.want("XPENDING s g", "[0 nil nil nil[]]")
	setup.want("XLEN s", fmt.Sprint(producers*each))
}

// An entry that is added to a stream is one record, and so is one with a limit, for the most part.
func TestRecordsOfStreams(t *testing.T) {
	s, address := newServer(t)
	p := dial(t, address)
	p.do("XADD s 1-1 a 1")
	p.do("XGROUP CREATE s g 0")
	for _, c := range []struct {
		request string
		records uint64
	}{
		{"XADD s * a 1", 1},
		{"XADD s 9999999999999-1 a 1 b 2", 1},
		{"XADD s MAXLEN ~ 2 * a 1", 1},
		{"XGROUP SETID s g 0", 1},
		{"XSETID s 9999999999999-9", 1},
		{"XREADGROUP GROUP g c COUNT 1 STREAMS s >", 5}, // the pending entry twice, group, consumer, commit
		{"XREADGROUP GROUP g c STREAMS other s > >", 0},
		{"XADD s 1-1 a 1", 0},
		{"XACK s g 5-5", 0},
		{"XACK s g 1-1", 3},
		{"XDEL s 5-5", 0},
		{"XDEL s 1-1", 3},
		{"XTRIM s MAXLEN 100", 0},
	} {
		before := records(t, s)
		reply := p.do(c.request)
		if n := records(t, s) - before; n != c.records {
			t.Errorf("%s: %d records, want %d (%s)", c.request, n, c.records, reply)
		}
	}
	for i := range 250 {
		p.do(fmt.Sprintf("XADD t MAXLEN ~ 100 %d a 1", i+1))
	}
	p.want("XLEN t", "150")
	p.want("XTRIM t MAXLEN ~ 49", "100")
	p.want("XTRIM t MINID ~ 250", "0")
	p.want("XINFO GROUPS t", "[]")
	for i := range 250 {
		p.do(fmt.Sprintf("XADD t MAXLEN ~ 50 LIMIT 0 %d a 1", i+1000))
	}
	p.want("XTRIM t MAXLEN ~ 0 LIMIT 99", "0")
	p.want("XLEN t", "100")
	p.want("XTRIM t MINID ~ 2000 LIMIT 100", "100")
	p.want("EXISTS t", "1")
}

// The elements of a stream show the commands of another server.
func TestNotificationsOfStreams(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		s.notifies(events.Keyevent | events.All)
		listener := dial()
		b, end := beside(t, s)
		defer end()
		listener.want("PSUBSCRIBE __key*", `["psubscribe" "__key*" 1]`)
		for _, c := range []struct{ request, events string }{
			{"XADD s 1-1 a 1", "xadd"},
			{"XADD s 2-1 a 1", "xadd"},
			{"XADD s MAXLEN 2 3-1 a 1", "xadd xtrim"},
			{"XADD s 4-1 a 1", "xadd"},
			{"XDEL s 3-1", "xdel"},
			{"XTRIM s MAXLEN 1", "xtrim"},
			{"COPY s t", "xadd t"},
			{"DEL t", "del t"},
			{"XDEL s 9-9", ""},
			{"XSETID s 5-5", "xsetid"},
			{"XGROUP CREATE s g 0", "xgroup-create"},
			{"XGROUP CREATE t g 0 MKSTREAM", "xgroup-create t"},
			{"XGROUP SETID s g 0", "xgroup-setid"},
			{"XGROUP CREATECONSUMER s g a", "xgroup-createconsumer"},
			{"XREADGROUP GROUP g a STREAMS s >", ""},
			{"XREADGROUP GROUP g a STREAMS s 0", ""},
			{"XREADGROUP GROUP g b STREAMS s >", "xgroup-createconsumer"},
			{"XREADGROUP GROUP g b STREAMS s 0", ""},
			{"XACK s g 4-1", ""},
			{"XGROUP SETID s g 0", "xgroup-setid"},
			{"XREADGROUP GROUP g c NOACK STREAMS s >", "xgroup-createconsumer"},
			{"XGROUP DELCONSUMER s g a", "xgroup-delconsumer"},
			{"XGROUP DESTROY s g", "xgroup-destroy"},
			{"DEL s", "del"},
			{"XADD s 1-1 a 1", "xadd"},
		} {
			b.do(c.request)
			for _, name := range strings.Fields(c.events) {
				key := "s"
				if name == "t" {
					continue
				}
				if strings.HasSuffix(c.events, " t") {
					key = "t"
				}
				if got, want := listener.read(), `["pmessage" "__key*" "__keyevent@0__:`+name+`" "`+key+`"]`; got != want {
					t.Errorf("%s: %s, want %s", c.request, got, want)
				}
			}
		}
		dial().do("PUBLISH __key end")
		listener.wantNext(`["pmessage" "__key*" "__key" "end"]`)
	})
}

// Invalid elements that a program writes into a stream cause errors, and nothing worse.
func TestStrangeElements(t *testing.T) {
	s, address := newServer(t)
	s.notifies(events.Keyevent | events.All) // so that each change is reported
	p, waits := dial(t, address), dial(t, address)
	requests := []string{"XADD s * a 1", "XLEN s", "XRANGE s - +", "XREAD STREAMS s 0", "XREADGROUP GROUP g c STREAMS s >", "XREADGROUP GROUP g c STREAMS s 0",
		"XACK s g 1-1", "XPENDING s g", "XPENDING s g - + 10", "XPENDING s g - + 10 c", "XCLAIM s g d 0 1-1", "XAUTOCLAIM s g d 0 0", "XINFO STREAM s", "XINFO STREAM s FULL",
		"XINFO GROUPS s", "XINFO CONSUMERS s g", "XTRIM s MAXLEN 0", "XDEL s 1-1", "XSETID s 9999999999999-1", "XGROUP DELCONSUMER s g c", "XGROUP DESTROY s g"}
	id := string(redisstream.ID{MS: 1, Seq: 1}.Bytes())
	for _, name := range []string{"", "e", "e1", "e" + id, "m", "gg", "g", "c\x01gc", "c", "p\x01g" + id, "p\x01g", "p", "d\x01g\x01c" + id, "d\x01g\x01c", "x"} {
		for _, value := range []string{"", "\xff", "\x80", strings.Repeat("\xff", 40)} {
			p.do("FLUSHALL")
			p.do("XADD s 1-1 a 1")
			p.do("XGROUP CREATE s g 0")
			p.do("XREADGROUP GROUP g c STREAMS s >")
			if err := s.DB.Raw().Stream([]byte("s")).Set(name, []byte(value)); err != nil {
				t.Fatal(err)
			}
			for _, request := range requests {
				p.do(request)
			}
			if _, err := s.DB.Raw().Stream([]byte("s")).Delete(name); err != nil {
				t.Fatal(err)
			}
			waits.send("XREAD BLOCK 0 STREAMS told 0")
			if err := s.DB.Raw().Stream([]byte("told")).Set(redisstream.EntryName(redisstream.ID{MS: 1, Seq: 1}), nil); err != nil {
				t.Fatal(err)
			}
			waits.wantNext(`[["told" [["1-1" nil[]]]]]`)
		}
	}
}
