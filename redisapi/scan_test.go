package redisapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/redisapi/internal/command"
	"github.com/copaldb/copal/redisapi/internal/commandtest"
	"github.com/copaldb/copal/redisapi/internal/elements"
)

// Keys with a prefix are found among many without sorting all.
func TestPrefixesSortNothing(t *testing.T) {
	s, address := newServer(t)
	b := s.DB.Raw().Batch()
	for i := range elements.FewKeys {
		b.Set(fmt.Append(nil, "a", i), nil)
	}
	for _, key := range []string{"b1", "b2", "\xff\xff1", "c"} {
		b.Set([]byte(key), nil)
		b.Set(command.Key(3, []byte(key)), nil)
	}
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	before := s.DB.Stats().IndexBytes
	p := dial(t, address)
	scan := func(match string) (found []string) {
		for cursor, pages := "0", 0; ; pages++ {
			next, keys, _ := strings.Cut(p.do(fmt.Sprintf("SCAN %s COUNT 50000 MATCH %s", cursor, match)), " ")
			found = append(found, commandtest.Split(t, strings.Trim(keys, "[]"))...)
			if cursor = strings.Trim(next, `["`); cursor == "0" || pages > 100 {
				return found
			}
		}
	}
	same := func(got []string, want string) bool {
		slices.Sort(got)
		return strings.Join(got, " ") == want
	}
	for _, db := range []string{"0", "3"} {
		p.want("SELECT "+db, "OK")
		for match, want := range map[string]string{"b*": "b1 b2", `"\xff\xff*"`: "\xff\xff1", "d*": "", "?2": "a2 b2", "c": "c"} {
			if db == "3" {
				want = strings.TrimPrefix(want, "a2 ")
			}
			if got := commandtest.Split(t, strings.Trim(p.do("KEYS "+match), "[]")); !same(got, want) {
				t.Errorf("KEYS %s in %s: %q", match, db, got)
			}
			if got := scan(match); !same(got, want) {
				t.Errorf("SCAN MATCH %s in %s: %q", match, db, got)
			}
		}
	}
	if after := s.DB.Stats().IndexBytes; after != before {
		t.Errorf("the index has %d bytes, and had %d", after, before)
	}
}
