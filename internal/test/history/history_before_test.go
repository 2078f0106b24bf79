package history

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/copaldb/copal"
)

// The values of entries before they changed, in the model of histories. A watch with OldValues
// begins at some moment of the window, and goes on while the script does.
type pastWatch struct {
	next func() (copal.Change, error, bool)
	stop func()
}

const marker = "marker"

// watched reads the watch up to a marker, and begins one where there is none.
func (x *historyModel) watched() {
	if x.watch == nil {
		from := x.moments[x.rng.IntN(len(x.moments))].seq
		w := &pastWatch{}
		w.next, w.stop = iter.Pull2(x.db.Watch(x.t.Context(), copal.WithAfter(from), copal.OldValues()))
		x.watch = w
	}
	v := x.value()
	x.must(x.db.Raw().Set([]byte(marker), []byte(v)))
	x.now.values[marker] = mortalText{v, 0}
	x.note()
	for {
		c, err, ok := x.watch.next()
		if !ok || errors.Is(err, copal.ErrHistoryLost) {
			if x.window == copal.Forever && x.bytes == 0 && x.moments[0].seq > 0 {
				x.t.Errorf("a watch with all of the history: %v", err)
			}
			x.endWatch()
			return
		}
		x.must(err)
		x.wantBefore(&c)
		if string(c.Key) == marker && c.Seq == x.moments[len(x.moments)-1].seq {
			return
		}
	}
}

func (x *historyModel) endWatch() {
	if x.watch != nil {
		x.watch.stop()
		x.watch = nil
	}
}

// wantBefore compares the replaced entry or element with the last moment before the change.
func (x *historyModel) wantBefore(c *copal.Change) {
	at, _ := slices.BinarySearchFunc(x.moments, c.Seq, func(m historyMoment, seq uint64) int { return int(m.seq) - int(seq) })
	if at == 0 {
		return // the model has begun later
	}
	then, ms := x.moments[at-1], c.Time.UnixMilli()
	got, err := c.Old()
	want, there := "", false
	switch held, isCollection := then.collections[string(c.Key)]; {
	case isCollection && c.Element == nil:
		if held.deadline == 0 || ms < held.deadline {
			if !c.Range && !errors.Is(err, copal.ErrType) {
				x.t.Errorf("record %d: %s was a collection, told is %q, %v", c.Seq, c.Key, got, err)
			}
			return
		}
	case isCollection && held.deadline != 0 && ms >= held.deadline:
	case isCollection && c.Key[0] == 'l':
		if err == nil && !slices.Contains(held.list, string(got)) {
			x.t.Errorf("record %d: the element of %s was %q, of %q", c.Seq, c.Key, got, held.list)
		}
		return
	case isCollection:
		want, there = held.named[string(c.Element)]
	default:
		var e mortalText
		e, there = then.values[string(c.Key)]
		want, there = e.text, there && (e.deadline == 0 || ms < e.deadline) && !c.Range
		if strings.HasPrefix(string(c.Key), "m:") {
			want = strconv.Quote(want)
		}
	}
	if text := fmt.Sprint(brief(string(got)), " ", err); there && text != fmt.Sprint(brief(want), " <nil>") || !there && !errors.Is(err, copal.ErrNotFound) {
		x.t.Errorf("record %d: %s %q was %s, want %s, %v", c.Seq, c.Key, c.Element, text, brief(want), there)
	}
}

func brief(text string) string { return strings.TrimRight(text, "x") + fmt.Sprint(" ", len(text)) }
