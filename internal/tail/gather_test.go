package tail

import (
	"testing"
	"time"

	"github.com/copaldb/copal/internal/clock"
)

// hurried is a clock by which each look at it takes a while, in which somebody else comes to sync.
type hurried struct {
	clock.System
	tails *Tails
	now   time.Time
	asks  int
}

func (h *hurried) Now() time.Time {
	h.asks++
	h.tails.Syncers.Add(1)
	h.now = h.now.Add(gatherFor / 4)
	return h.now
}

// The leader of a sync waits for others for a while only: where the processors are busy, each time
// that it lets them go first takes long.
func TestGatheringEnds(t *testing.T) {
	l := &Tails{}
	h := &hurried{tails: l, now: time.UnixMilli(1e12)}
	l.Init(Owner{Clock: h})
	l.gather()
	if h.asks < 2 || h.asks > 6 {
		t.Errorf("the clock was looked at %d times in a millisecond", h.asks)
	}
}
