package copying

import (
	"errors"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/redisserver"
)

// TestSeveralTypesToARedis: values of two types of one map are not copied to a store that would read
// them as one, unless they have the names of their fields.
func TestSeveralTypesToARedis(t *testing.T) {
	type older struct{ From, To string }
	type newer struct{ To, From string }
	for name, c := range map[string]struct {
		codec   codec.Codec
		both    bool
		refused bool
	}{
		"JSON, two":   {codec.JSON, true, false},
		"binary, one": {codec.Binary, false, false},
		"binary, two": {codec.Binary, true, true},
	} {
		dir := t.TempDir()
		db, err := copal.Open(dir)
		must(t, err)
		m, err := copal.OpenMap[string, older](db, "pay", copal.WithCodec(c.codec))
		must(t, err)
		must(t, m.Set("a", older{"ann", "bob"}), db.Close())
		db = open(t, dir)
		if c.both {
			m, err := copal.OpenMap[string, newer](db, "pay", copal.WithCodec(c.codec))
			must(t, err)
			must(t, m.Set("b", newer{"bob", "ann"}))
		}
		_, address := redisserver.Start(t)
		to := dial(t, address)
		for range 2 { // the second goes on after the first
			if err := New(db, to).CatchUp(t.Context()); errors.Is(err, copal.ErrType) != c.refused || err != nil && !c.refused {
				t.Errorf("%s: %v", name, err)
			}
		}
		if !c.refused {
			continue
		}
		written, err := copal.OpenMap[string, newer](db, "pay")
		must(t, err)
		old, err := written.Load("a")
		must(t, err)
		must(t, written.Set("a", old), New(db, to).CatchUp(t.Context()))
		there, err := copal.OpenMap[string, newer](to, "pay", copal.WithCodec(codec.Binary))
		must(t, err)
		if v, err := there.Load("a"); v != (newer{"bob", "ann"}) || err != nil {
			t.Errorf("after all were written anew: %+v, %v", v, err)
		}
	}
}
