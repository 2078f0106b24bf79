package redisapi

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi/internal/elements"

	copaladmin "github.com/copaldb/copal/admin"
)

// KEYS beside the declaration of a map, by which keys move to a table of their own.
func TestKeysBesideADeclaration(t *testing.T) {
	s, address := newServer(t)
	p := dial(t, address)
	const n = elements.FewKeys + 1000
	for i := range n {
		if err := s.DB.Raw().Set(fmt.Appendf(nil, "map%d:%d", i%4, i), nil); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 4 {
		var declared sync.WaitGroup
		declared.Go(func() {
			if err := copaladmin.DeclareMap(s.DB, fmt.Sprint("map", round)); err != nil {
				t.Error(err)
			}
		})
		keys := strings.Fields(strings.Trim(p.do("KEYS *"), "[]"))
		found := map[string]bool{}
		for _, key := range keys {
			found[key] = true
		}
		declared.Wait()
		if len(found) != n || len(keys) != n {
			t.Errorf("%d keys, %d of them different, of %d", len(keys), len(found), n)
		}
	}
}

// A client that waits for a list, and is served by another, is charged with a large element itself, and stays
// connected if there is no memory for it.
func TestLargeElementForAWaitingClient(t *testing.T) {
	s, address := newServer(t, onDisk(t, copal.WithMaxMemory(16<<20)), func(s *Server) { s.ClientMemory = 8 << 20 })
	p := dial(t, address)
	p.send("BLPOP l 0")
	until(func() bool { return s.waiting.count.Load() == 1 })
	l := s.DB.Raw().List([]byte("l"))
	if err := l.PushBack(bytes.Repeat([]byte("v"), 16<<20)); err != nil {
		t.Fatal(err)
	}
	if got := p.read(); !strings.HasPrefix(got, "(error) ERR the memory") {
		t.Errorf("BLPOP: %.100s", got)
	}
	p.want("PING", "PONG")
	if l.Len() != 1 {
		t.Error("the element is gone")
	}
}
