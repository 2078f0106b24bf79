package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// TestClockThatWasAhead: after a record with the time of a day ahead the error handler is called once, in this
// and in each later process until the clock has passed that time. No time between the two names a moment;
// numbers do, and so do earlier times.
func TestClockThatWasAhead(t *testing.T) {
	mem, start := vfs.NewMem(), time.UnixMilli(1_000_000_000_000)
	clock := logtest.NewClockAt(start)
	reported := make(chan error, 100)
	open := func(opts ...func(*Options)) *Store {
		return mustOpen(t, mem, append(opts, func(o *Options) {
			o.Clock, o.OnError = clock, func(err error) {
				if behind := new(seglog.ClockBehindError); errors.As(err, &behind) {
					reported <- err
				}
			}
		})...)
	}
	reports := func(s *Store) (n int) {
		s.reports.wait()
		for ; len(reported) > 0; n++ {
			<-reported
		}
		return n
	}
	// asOf is the value as of some seconds after the start, or the error.
	asOf := func(s *Store, seconds int) string {
		v, err := s.AsOf(seglog.AtTime(uint64(start.Add(time.Duration(seconds) * time.Second).UnixMilli())))
		if err != nil {
			return err.Error()
		}
		defer v.Close()
		e, err := v.Get(nil, []byte("k"))
		if err != nil {
			return err.Error()
		}
		return string(e.Value)
	}
	at := func(seconds int) { clock.Advance(start.Add(time.Duration(seconds) * time.Second).Sub(clock.Now())) }
	const day = 24 * 60 * 60

	s := open()
	mustSet(t, s, "k", "before")
	at(10)
	mustSet(t, s, "k", "just before")
	before := s.log.Last()
	at(day + 10)
	mustSet(t, s, "k", "ahead")
	if n := reports(s); n != 0 {
		t.Errorf("%d reports while the clock is ahead, which is not known then", n)
	}
	at(11)
	for n := range 5 {
		mustSet(t, s, "k", fmt.Sprint("back ", n))
	}
	if n := reports(s); n != 1 {
		t.Errorf("%d reports of a clock that was ahead, want 1", n)
	}
	at(20)
	check := func(life string, s *Store) {
		t.Helper()
		if by := s.Stats().Behind; by < (day-20)*time.Second {
			t.Errorf("%s: the clock is behind by %v", life, by)
		}
		for seconds, want := range map[int]string{1: "before", 10: "just before"} {
			if got := asOf(s, seconds); got != want {
				t.Errorf("%s: as of second %d: %q, want %q", life, seconds, got, want)
			}
		}
		for _, seconds := range []int{11, 15, 20} {
			got := asOf(s, seconds)
			if !strings.Contains(got, "the clock was ahead") || !strings.Contains(got, fmt.Sprint("number ", before)) {
				t.Errorf("%s: as of second %d: %q", life, seconds, got)
			}
		}
		v, err := s.AsOf(seglog.AtSeq(before + 2))
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		if e, err := v.Get(nil, []byte("k")); err != nil || string(e.Value) != "back 0" {
			t.Errorf("%s: by its number: %q, %v", life, e.Value, err)
		}
	}
	check("in the same life", s)
	follower := open(func(o *Options) { o.ReadOnly = true })
	if n := reports(follower); n != 1 {
		t.Errorf("a reader makes %d reports, want 1", n)
	}
	check("a reader", follower)
	mustClose(t, follower)
	mustClose(t, s)

	s = open()
	if n := reports(s); n != 1 {
		t.Errorf("%d reports in the next life, want 1", n)
	}
	check("in the next life", s)
	at(day + 100)
	mustSet(t, s, "k", "passed")
	if by, n := s.Stats().Behind, reports(s); by != 0 || n != 0 {
		t.Errorf("when the clock has passed it is behind by %v, and %d reports", by, n)
	}
	if got := asOf(s, day+100); got != "passed" {
		t.Errorf("as of a time after that: %q", got)
	}
	at(day + 50)
	mustSet(t, s, "k", "again")
	if n := reports(s); n != 1 {
		t.Errorf("%d reports when the clock goes back again, want 1", n)
	}
	mustClose(t, s)
}
