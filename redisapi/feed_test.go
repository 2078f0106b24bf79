package redisapi

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi/internal/command"
	"github.com/copaldb/copal/redisapi/internal/events"
)

// beside is a client of another server of the same store. The caller calls end.
func beside(t *testing.T, s *Server) (p *peer, end func()) {
	other := &Server{DB: s.DB, Debug: true}
	other.init()
	here, there := net.Pipe()
	other.accept(there)
	return newPeer(t, here), func() {
		here.Close()
		if err := other.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// Changes of other servers and of programs are named after the kind of the change.
func TestNotificationsOfOthers(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		s.notifies(events.Keyevent | events.All | events.New)
		listener := dial()
		b, end := beside(t, s)
		defer end()
		listener.want("PSUBSCRIBE __key*", `["psubscribe" "__key*" 1]`)
		for _, c := range []struct{ request, events string }{
			{"SET s 1", "set s"},
			{"INCR s", "set s"},
			{"SET s 1 EX 100", "set s,expire s"},
			{"MSET a 1 b 2", "set a,set b"},
			{"DEL a b none", "del a,del b"},
			{"HSET h f 1", "new h,hset h"},
			{"HSET h f 1 g 2", "hset h"},
			{"HDEL h f", "hdel h"},
			{"EXPIRE h 100", "expire h"},
			{"PERSIST h", "persist h"},
			{"RENAME h h2", "rename_from h,rename_to h2"},
			{"HDEL h2 g", "del h2"},
			{"SADD m a b", "new m,sadd m"},
			{"SREM m a", "srem m"},
			{"ZADD z 1 a 2 b", "new z,zadd z"},
			{"ZREM z a b", "del z"},
			{"RPUSH l 1 2", "new l,rpush l"},
			{"LPUSH l 0", "lpush l"},
			{"LPOP l", "lpop l"},
			{"RPOP l", "rpop l"},
			{"UNLINK l", "del l"},
			{"FLUSHALL", ""},
			{"SET s 1", "set s"},
		} {
			b.do(c.request)
			for _, event := range strings.Split(c.events, ",") {
				if event == "" {
					continue
				}
				name, key, _ := strings.Cut(event, " ")
				if got, want := listener.read(), `["pmessage" "__key*" "__keyevent@0__:`+name+`" "`+key+`"]`; got != want {
					t.Errorf("%s: %s, want %s", c.request, got, want)
				}
			}
		}
		// A transaction of the program sends notifications of the classes that are on.
		s.notifies(events.Keyspace | events.String | events.Miss)
		err := s.DB.Update(func(tx *copal.Tx) error {
			tx.Raw().Hash([]byte("h")).Set("f", []byte("1"))
			_, err := tx.Raw().Delete([]byte("s"))
			if err != nil {
				return err
			}
			return tx.Raw().Set([]byte("x"), []byte("1"))
		})
		if err != nil {
			t.Fatal(err)
		}
		listener.wantNext(`["pmessage" "__key*" "__keyspace@0__:x" "set"]`)
		own := dial()
		own.do("GET none")
		listener.wantNext(`["pmessage" "__key*" "__keyspace@0__:none" "keymiss"]`)
		s.notifies(0)
		own.do("SET y 1")
		own.do("PUBLISH __key 1")
		listener.wantNext(`["pmessage" "__key*" "__key" "1"]`)
	})
}

// A change from before notifications began, or before a client subscribed, sends it no message,
// even if the feed reports the change late.
func TestEarlierEventsAreNotTold(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		listener, b := dial(), dial()
		listener.want("PSUBSCRIBE __key*", `["psubscribe" "__key*" 1]`)
		late := []copal.Change{}
		b.do("SET before 1")
		for c, err := range s.DB.Watch(t.Context(), copal.WithAfter(0), copal.WithIdle(time.Second)) {
			if err != nil || c.Idle {
				break
			}
			late = append(late, c)
		}
		if len(late) != 1 || string(late[0].Key) != "before" {
			t.Fatal(late)
		}
		s.notifies(events.Keyevent | events.All)
		s.told(&late[0])
		between := func() {
			if err := s.DB.Raw().Set([]byte("between"), nil); err != nil {
				t.Fatal(err)
			}
		}
		between()
		listener.wantNext(`["pmessage" "__key*" "__keyevent@0__:set" "between"]`)
		s.notifies(events.Keyevent | events.Keyspace | events.All) // of earlier changes there is no message of a class that comes
		late[0].Key, late[0].Seq = []byte("between"), s.written()
		s.told(&late[0])
		listener.wantNext(`["pmessage" "__key*" "__keyevent@0__:set" "between"]`)
		s.notifies(events.Keyevent | events.All)
		second := dial()
		second.want("SUBSCRIBE __keyevent@0__:set", `["subscribe" "__keyevent@0__:set" 1]`)
		late[0].Key, late[0].Seq = []byte("between"), s.written()
		s.told(&late[0])
		listener.wantNext(`["pmessage" "__key*" "__keyevent@0__:set" "between"]`)
		b.do("SET after 1")
		second.wantNext(`["message" "__keyevent@0__:set" "after"]`)
		listener.wantNext(`["pmessage" "__key*" "__keyevent@0__:set" "after"]`)
	})
}

// A feed that has been stopped is not begun again by a command that runs still.
func TestStoppedFeed(t *testing.T) {
	s, _ := newServer(t)
	s.feed.need(s, 1)
	s.feed.stop()
	s.feed.need(s, 1)
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	if s.feed.running {
		t.Error("it runs")
	}
}

func TestExpiredIsTold(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		s.notifies(events.Keyevent | events.Expired)
		listener, b := dial(), dial()
		listener.do("SUBSCRIBE __keyevent@0__:expired")
		b.do("SET s 1 PX 100")
		b.do("SET kept 1")
		b.do("RPUSH l 1")
		b.do("PEXPIRE l 200")
		time.Sleep(time.Second)
		synctest.Wait()
		listener.wantNext(`["message" "__keyevent@0__:expired" "s"]`)
		listener.wantNext(`["message" "__keyevent@0__:expired" "l"]`)
		b.want("EXISTS s l kept", "1")
	})
}

func TestTracking(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		a, b := dial(), dial()
		a.do("HELLO 3")
		a.want("CLIENT TRACKINGINFO", `{"flags": ~["off"] "redirect": -1 "prefixes": []}`)
		a.want("CLIENT GETREDIR", "-1")
		a.want("CLIENT TRACKING ON", "OK")
		a.want("CLIENT TRACKINGINFO", `{"flags": ~["on"] "redirect": 0 "prefixes": []}`)
		a.want("CLIENT GETREDIR", "0")
		b.do("MSET x 1 y 1 z 1")
		synctest.Wait() // the feed has reported it, before a reads
		a.want("GET x", `"1"`)
		a.want("MGET y none", `["1" nil]`)
		b.do("SET z 2") // which a has not read
		b.do("SET x 2")
		a.wantNext(`>["invalidate" ["x"]]`)
		b.do("SET x 3") // and has not read again
		b.do("DEL y")
		a.wantNext(`>["invalidate" ["y"]]`)
		if err := s.DB.Raw().List([]byte("none")).PushBack(nil); err != nil {
			t.Fatal(err)
		}
		a.wantNext(`>["invalidate" ["none"]]`)
		a.want("LLEN none", "1")
		b.do("RENAME none other")
		a.wantNext(`>["invalidate" ["none"]]`)
		a.want("MULTI", "OK")
		a.want("GET x", "QUEUED")
		a.want("EXEC", `["3"]`)
		b.do("SET x 4 PX 100")
		a.wantNext(`>["invalidate" ["x"]]`)
		a.want("GET x", `"4"`)
		time.Sleep(time.Second)
		a.wantNext(`>["invalidate" ["x"]]`)
		a.want("GET z", `"2"`)
		b.do("FLUSHALL")
		a.wantNext(`>["invalidate" nil]`)
		a.want("GET z", "nil")
		a.want("CLIENT TRACKING OFF", "OK")
		b.do("SET z 1")
		a.want("PING", "PONG")
		if len(s.tracking.keys) != 0 || s.feed.needs.Load() != 0 {
			t.Error("keys are tracked, and nobody asks for it")
		}
	})
}

// When the feed has lost changes, a client that tracks keys gets the message that any key may have
// changed.
func TestTrackingOverLostChanges(t *testing.T) {
	for _, lost := range []error{copal.ErrHistoryLost, copal.ErrCorrupt} {
		piped(t, func(t *testing.T, s *Server, dial func() *peer) {
			ctx, cancel := context.WithCancel(t.Context())
			fail := make(chan struct{})
			s.feed.mu.Lock()
			s.feed.running, s.feed.cancel = true, cancel
			s.feed.mu.Unlock()
			s.feed.ended.Go(func() {
				s.feed.run(s, ctx, func(yield func(copal.Change, error) bool) {
					<-fail
					yield(copal.Change{}, lost)
				})
			})
			a, b := dial(), dial()
			a.do("HELLO 3")
			a.want("CLIENT TRACKING ON", "OK")
			b.do("SET x 1")
			a.want("GET x", `"1"`)
			b.do("SET x 2") // which the feed does not report
			close(fail)
			a.wantNext(`>["invalidate" nil]`)
			a.want("GET x", `"2"`)
			b.do("SET x 3")
			a.wantNext(`>["invalidate" ["x"]]`)
		})
	}
}

func TestTrackingOptions(t *testing.T) {
	piped(t, func(t *testing.T, _ *Server, dial func() *peer) {
		a, b, redirected := dial(), dial(), dial()
		a.do("HELLO 3")
		a.want("CLIENT TRACKING ON BCAST PREFIX user: PREFIX item:", "OK")
		a.want("CLIENT TRACKINGINFO", `{"flags": ~["on" "bcast"] "redirect": 0 "prefixes": ["user:" "item:"]}`)
		b.do("SET other 1")
		b.do("SET user:1 1")
		a.wantNext(`>["invalidate" ["user:1"]]`)
		b.do("SET user:1 2")
		a.wantNext(`>["invalidate" ["user:1"]]`)
		a.want("CLIENT TRACKING ON", "(error) ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.")
		a.want("CLIENT TRACKING ON BCAST PREFIX user:1", "(error) ERR Prefix 'user:1' overlaps with an existing prefix 'user:'. Prefixes for a single client must not overlap.")
		a.want("CLIENT TRACKING ON PREFIX x", "(error) ERR PREFIX option requires BCAST mode to be enabled")
		a.want("CLIENT TRACKING ON BCAST OPTIN", "(error) ERR OPTIN and OPTOUT are not compatible with BCAST")
		a.want("CLIENT TRACKING OFF", "OK")
		a.want("CLIENT TRACKING ON OPTIN OPTOUT", "(error) ERR You can't specify both OPTIN mode and OPTOUT mode")
		a.want("CLIENT TRACKING ON REDIRECT 999", "(error) ERR The client ID you want redirect to does not exist")
		a.want("CLIENT TRACKING ON REDIRECT x", "(error) ERR Invalid client ID")
		a.want("CLIENT TRACKING MAYBE", "(error) ERR syntax error")
		a.want("CLIENT TRACKING ON MAYBE", "(error) ERR syntax error")
		a.want("CLIENT CACHING YES", "(error) ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled")

		a.want("CLIENT TRACKING ON OPTIN", "OK")
		a.want("CLIENT CACHING NO", "(error) ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
		a.want("CLIENT CACHING MAYBE", "(error) ERR syntax error")
		a.do("GET x")
		a.want("CLIENT CACHING YES", "OK")
		a.want("CLIENT TRACKINGINFO", `{"flags": ~["on" "optin" "caching-yes"] "redirect": 0 "prefixes": []}`)
		a.want("CLIENT CACHING YES", "OK") // and commands about connections leave it at that
		a.want("CLIENT TRACKINGINFO", `{"flags": ~["on" "optin" "caching-yes"] "redirect": 0 "prefixes": []}`)
		a.do("GET y")
		a.do("GET z")
		for _, key := range []string{"x", "z", "y"} {
			b.do("SET " + key + " 1")
		}
		a.wantNext(`>["invalidate" ["y"]]`)
		a.want("CLIENT TRACKING ON OPTOUT", "(error) ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.")
		a.want("CLIENT TRACKING OFF", "OK")

		a.want("CLIENT TRACKING ON OPTOUT NOLOOP", "OK")
		a.want("CLIENT CACHING NO", "OK")
		a.do("GET y")
		a.do("GET z")
		b.do("SET y 2")
		b.do("SET z 2")
		a.wantNext(`>["invalidate" ["z"]]`)
		a.want("CLIENT TRACKING OFF", "OK")

		// RESP2 gets them by the channel of another connection.
		id := redirected.do("CLIENT ID")
		c := dial()
		c.want("CLIENT TRACKING ON REDIRECT "+id, "OK")
		c.want("CLIENT GETREDIR", id)
		redirected.want("SUBSCRIBE __redis__:invalidate", `["subscribe" "__redis__:invalidate" 1]`)
		c.do("GET x")
		b.do("SET x 1")
		redirected.wantNext(`["message" "__redis__:invalidate" ["x"]]`)
		c.do("GET x")
		redirected.nc.Close()
		synctest.Wait()
		b.do("SET x 2")
		synctest.Wait()
		c.want("CLIENT TRACKINGINFO", `["flags" ["on" "broken_redirect"] "redirect" `+id+` "prefixes" []]`)
	})
}

// A message about a key comes after a reply with its earlier value.
func TestTrackedValuesAreNotStale(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		goOn := make(chan struct{})
		table.ByName["zz"] = &command.Row{Name: "zz", Arity: 1, Run: func(c *command.Call) error {
			<-goOn
			c.OK()
			return nil
		}}
		defer delete(table.ByName, "zz")
		a := dial()
		a.do("HELLO 3")
		a.do("CLIENT TRACKING ON")
		a.do("SET k old")
		if _, err := a.nc.Write([]byte("GET k\r\nZZ\r\n")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := s.DB.Raw().Set([]byte("k"), []byte("new")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		goOn <- struct{}{}
		a.wantNext(`"old"`)
		a.wantNext("OK")
		a.wantNext(`>["invalidate" ["k"]]`)
	})
}

// The bytes of tracked keys are bounded, too. The server invalidates a key before it forgets it.
func TestTrackedKeysAreBounded(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		a := dial()
		a.do("HELLO 3")
		a.do("CLIENT TRACKING ON")
		c := s.all()[0]
		const n = mostTrackedBytes/copal.MaxKeyBytes + 10
		for i := range n {
			key := make([]byte, copal.MaxKeyBytes)
			copy(key, fmt.Sprint(i))
			c.track(table.ByName["get"], [][]byte{nil, key})
		}
		if len(s.tracking.keys) != mostTrackedBytes/copal.MaxKeyBytes || s.tracking.bytes > mostTrackedBytes {
			t.Errorf("there are %d keys of %d bytes", len(s.tracking.keys), s.tracking.bytes)
		}
		for range 10 {
			if got := a.read(); !strings.HasPrefix(got, `>["invalidate" [`) {
				t.Error(got)
			}
		}
		a.do("CLIENT TRACKING OFF")
		if len(s.tracking.keys) != 0 || s.tracking.bytes != 0 {
			t.Errorf("there are %d keys of %d bytes", len(s.tracking.keys), s.tracking.bytes)
		}
	})
}

// FLUSHALL forgets the tracked keys and their bytes, so that later keys have all of the room.
func TestTrackedKeysAfterFlush(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		a := dial()
		a.do("HELLO 3")
		a.do("CLIENT TRACKING ON")
		c, b := s.all()[0], dial()
		for i := range mostTrackedBytes / copal.MaxKeyBytes {
			key := make([]byte, copal.MaxKeyBytes)
			copy(key, fmt.Sprint(i))
			c.track(table.ByName["get"], [][]byte{nil, key})
		}
		b.do("SET one 1")
		b.do("FLUSHALL")
		a.wantNext(`>["invalidate" nil]`)
		a.want("GET one", "nil")
		a.want("GET two", "nil")
		b.do("SET two 2")
		a.wantNext(`>["invalidate" ["two"]]`)
		b.do("SET one 1")
		a.wantNext(`>["invalidate" ["one"]]`)
	})
}
