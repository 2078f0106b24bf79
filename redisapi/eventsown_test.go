package redisapi

import (
	"strings"
	"testing"
)

// Commands of copal have the events of the changes that they make, and misses within a transaction of COPAL.BEGIN do
// not wait for its end. Where only events that the feed names are on, commands note none.
func TestEventsOfOwnCommands(t *testing.T) {
	s, address := newServer(t)
	p, listening := dial(t, address), dial(t, address)
	listening.do("PSUBSCRIBE __keyevent@0__:*")
	p.want("CONFIG SET notify-keyspace-events EAm", "OK")
	for _, step := range []string{
		"HSET h f 1: hset", "COPAL.SWAP h f IFEQ 1 SET 2: hset", "COPAL.SWAP h f IFEQ 9 SET 3:", "COPAL.SWAP h g: ", "COPAL.SWAP h g SET 3: hset", "COPAL.SWAP h g IFEQ 3: hdel", "COPAL.SWAP h f IFEQ 2: hdel del",
		"COPAL.BEGIN SNAPSHOT:", "GET none: keymiss", "COPAL.ROLLBACK:", "COPAL.BEGIN:", "GET none: keymiss", "SET k v:", "COPAL.COMMIT: set", "SET end 1: set",
	} {
		request, names, _ := strings.Cut(step, ":")
		if got := p.do(request); strings.HasPrefix(got, "(error)") {
			t.Fatalf("%s: %s", request, got)
		}
		for _, name := range strings.Fields(names) {
			if got := listening.read(); !strings.Contains(got, `"__keyevent@0__:`+name+`"`) {
				t.Fatalf("%s: %s, want %s", request, got, name)
			}
		}
	}
	p.want("CONFIG SET notify-keyspace-events Exe", "OK")
	if on := s.shared.Events.On(); on != 0 {
		t.Errorf("commands note %v", on)
	}
	p.want("CONFIG SET notify-keyspace-events Ag", "OK")
	if on := s.shared.Events.On(); on != 0 {
		t.Errorf("without a channel commands note %v", on)
	}
}
