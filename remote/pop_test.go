package remote

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/copaldb/copal"
)

// popped is an element whose decoding calls a function.
type popped struct {
	A int `json:",omitempty"`
	B part
}

type part int

// decoding is called once, when a part is decoded next.
var decoding atomic.Pointer[func() error]

func (p *part) UnmarshalJSON(text []byte) error {
	if f := decoding.Swap(nil); f != nil {
		if err := (*f)(); err != nil {
			return err
		}
	}
	return json.Unmarshal(text, (*int)(p))
}

func (p part) MarshalJSON() ([]byte, error) { return json.Marshal(int(p)) }

// A pop that loses an element to another call returns the next one, and nothing of the first.
func TestPopAfterALostPop(t *testing.T) {
	run := func(t *testing.T, db *copal.DB) {
		l, err := copal.OpenList[popped](db, "list")
		if err != nil {
			t.Fatal(err)
		}
		if err := l.PushBack(popped{A: 7, B: 1}, popped{B: 2}); err != nil {
			t.Fatal(err)
		}
		other := func() error { return l.DeleteRange(0, 1) }
		decoding.Store(&other)
		if v, ok, err := l.PopFront(); v != (popped{B: 2}) || !ok || err != nil {
			t.Errorf("popped %+v, %v, %v", v, ok, err)
		}

		// An error of the decoder is not the end of the list.
		if err := l.PushBack(popped{B: 3}); err != nil {
			t.Fatal(err)
		}
		fails := func() error { return fmt.Errorf("it refers to no entry: %w", copal.ErrNotFound) }
		decoding.Store(&fails)
		if v, ok, err := l.PopFront(); ok || err == nil {
			t.Errorf("popped %+v, %v, %v", v, ok, err)
		}
		if v, ok, err := l.PopFront(); v != (popped{B: 3}) || !ok || err != nil {
			t.Errorf("popped %+v, %v, %v", v, ok, err)
		}
		if v, ok, err := l.PopFront(); ok || err != nil {
			t.Errorf("popped %+v, %v, %v of an empty list", v, ok, err)
		}
	}
	t.Run("engine", func(t *testing.T) {
		db, err := copal.OpenMemory()
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		run(t, db)
	})
	each(t, func(t *testing.T, at target) { run(t, at.open(t)) })
}
