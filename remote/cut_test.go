package remote

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/copaldb/copal"
)

// contents are the contents of things, as text.
func (x *things) contents() string {
	list := []string{}
	for k, v := range x.m.All() {
		ttl, _ := x.m.TTL(k)
		list = append(list, fmt.Sprint("m ", k, v, ttl > 0))
	}
	for _, key := range []string{"raw", "x", "y"} {
		value, ok := x.raw.Get([]byte(key))
		list = append(list, fmt.Sprint("raw ", key, string(value), ok))
	}
	for _, name := range []string{"hash", "hash2"} {
		h, _ := copal.OpenHash[string, int](x.db, name)
		ttl, _ := h.TTL()
		for k, v := range h.All() {
			list = append(list, fmt.Sprint(name, " ", k, v, ttl > 0))
		}
	}
	for m := range x.set.All() {
		list = append(list, fmt.Sprint("set ", m))
	}
	for m, s := range x.zset.All() {
		list = append(list, fmt.Sprint("zset ", m, s))
	}
	one, err := copal.Load[int](x.db, "one")
	list = append(list, fmt.Sprint("one ", one, err == nil))
	slices.Sort(list)
	return fmt.Sprint(list, slices.Collect(x.list.All()))
}

// clear empties things, and fills them.
func (x *things) refill() error {
	_, err1 := x.hash.Clear()
	_, err2 := x.set.Clear()
	_, err3 := x.zset.Clear()
	_, err4 := x.list.Clear()
	return errors.Join(err1, err2, err3, err4, x.raw.Clear(), x.fill())
}

// TestCutAtEachByte: a connection that ends at any byte of a call, either way. A write is made once if
// it is acknowledged, at most once if its outcome is unknown, and not at all after another error. A
// read, and a write that was not sent, need not fail.
func TestCutAtEachByte(t *testing.T) {
	for _, at := range inMemory() {
		t.Run(at.name, func(t *testing.T) {
			inBubble(t, at, Config{}, func(t *testing.T, l *line, db *copal.DB, reported func() []error) {
				x, direct := openThings(t, db), openThings(t, l.own)
				for _, v := range verbs {
					if v.copal && at.name != "copal" {
						continue
					}
					run := func(c *cut) (before, after string, passed [2]int, err error) {
						if err := direct.refill(); err != nil {
							t.Fatal(err)
						}
						x.m.Len() // has a connection
						before = direct.contents()
						l.mu.Lock()
						l.cut, l.passed = c, [2]int{}
						l.mu.Unlock()
						err = v.do(x)
						l.mu.Lock()
						l.cut, passed = nil, l.passed
						l.mu.Unlock()
						return before, direct.contents(), passed, err
					}
					if _, _, _, err := run(nil); err != nil { // which declares schemas
						t.Fatal(v.name, err)
					}
					before, made, passed, err := run(nil)
					if err != nil || (before != made) != v.writes {
						t.Fatalf("%s: %v, and the store has\n%s\nafter\n%s", v.name, err, made, before)
					}
					for way, most := range passed {
						step := max(most/5, 1)
						if os.Getenv("COPAL_LONG") == "1" {
							step = 1
						}
						for after := 0; after < most; after += step {
							_, now, _, err := run(&cut{way, after})
							switch unknown := errors.Is(err, copal.ErrUnknown); {
							case now != made && now != before && !(v.many && at.name != "copal" && unknown):
								t.Errorf("%s, cut after %d bytes (way %d): %v, and the store has\n%s\nneither\n%s\nnor\n%s", v.name, after, way, err, now, before, made)
							case err == nil && now != made, err != nil && !unknown && now != before:
								t.Errorf("%s, cut after %d bytes (way %d): %v, and the store has\n%s", v.name, after, way, err, now)
							case unknown && !v.writes:
								t.Errorf("%s, cut after %d bytes (way %d): of a read %v", v.name, after, way, err)
							}
						}
					}
				}
			})
		})
	}
}
