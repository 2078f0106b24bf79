package redisapi

import (
	"fmt"
	"sync"
	"testing"

	copaladmin "github.com/copaldb/copal/admin"
)

// KEYS beside the declaration of a map, by which keys move to a table of their own.
func TestKeysBesideADeclaration(t *testing.T) {
	s, address := newServer(t)
	p := dial(t, address)
	p.nc.SetDeadline(farAway)
	const n = fewKeys + 1000
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
		p.send("KEYS *")
		found := map[string]bool{}
		keys := p.list()
		for _, key := range keys {
			found[key] = true
		}
		declared.Wait()
		if len(found) != n || len(keys) != n {
			t.Errorf("%d keys, %d of them different, of %d", len(keys), len(found), n)
		}
	}
}
