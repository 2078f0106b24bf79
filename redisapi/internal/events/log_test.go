package events

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// published collects events as "name number", with * for events of no change.
type published []string

func (p *published) add(e *Event, seq uint64) {
	number := fmt.Sprint(seq)
	if seq == 1<<64-1 {
		number = "*"
	}
	*p = append(*p, e.Name+" "+number)
}

func named(names string) (list []Event) {
	for _, name := range strings.Fields(names) {
		list = append(list, Event{Name: name})
	}
	return list
}

func (p *published) want(t *testing.T, list ...string) {
	t.Helper()
	if !slices.Equal(*p, list) {
		t.Errorf("%q were published, want %q", *p, list)
	}
	*p = nil
}

// The feed waits for the commits that are open, and then finds the events of a change, or none.
func TestFeedWaitsForOpenCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Log
		l.Note(All)
		var got published
		first, second := l.Open(), l.Open()
		asked := make(chan bool)
		go func() { asked <- l.Publish(7, got.add) }()
		synctest.Wait()
		l.Cancel(second)
		synctest.Wait()
		select {
		case <-asked:
			t.Fatal("the feed has not waited")
		default:
		}
		later := l.Open() // for which the feed need not wait
		l.Settle(first, 9, named("incrby"), true)
		if <-asked {
			t.Error("the change of a program has the events of a command")
		}
		got.want(t)
		l.Settle(later, 8, named("append set"), true)
		if !l.Publish(8, got.add) {
			t.Error("the events of a command are missing")
		}
		got.want(t, "append 8", "set 8")
		if !l.Publish(9, got.add) {
			t.Error("the events of a command are missing")
		}
		got.want(t, "incrby 9")
		l.Settle(l.Open(), 10, named("del"), false)
		if l.Publish(10, got.add) {
			t.Error("the feed does not name the change")
		}
		got.want(t)
	})
}

// Events of commands that have changed nothing follow those that wait for the feed.
func TestEventsWithoutChanges(t *testing.T) {
	var l Log
	l.Note(All)
	var got published
	l.After(named("keymiss"), got.add)
	got.want(t, "keymiss *")
	l.Settle(l.Open(), 3, named("set"), true)
	l.Settle(l.Open(), 5, named("del"), true)
	l.After(named("keymiss"), got.add)
	got.want(t)
	if l.Publish(4, got.add) {
		t.Error("3 is not 4")
	}
	got.want(t, "set 3")
	late := false
	l.Publish(5, func(e *Event, seq uint64) {
		if !late {
			late = true
			l.After(named("sadd"), got.add)
		}
		got.add(e, seq)
	})
	got.want(t, "del 5", "keymiss *", "sadd *")
	l.After(named("keymiss"), got.add)
	got.want(t, "keymiss *")
}

// The log forgets its events when none are asked for, and takes no more than it has room for.
func TestEventsAreBounded(t *testing.T) {
	var l Log
	var got published
	l.Settle(l.Open(), 1, named("set"), true)
	l.Note(All)
	l.Settle(l.Open(), 2, named("set"), true)
	l.Note(0)
	if l.Publish(2, got.add) {
		t.Error("it has forgotten nothing")
	}
	l.Note(All)
	long := []Event{{Name: "set", Key: make([]byte, mostBytes/2)}}
	for seq := uint64(3); seq < 6; seq++ {
		l.Settle(l.Open(), seq, long, true)
	}
	for seq := uint64(3); seq < 6; seq++ {
		if got := l.Publish(seq, func(*Event, uint64) {}); got != (seq == 3) {
			t.Errorf("%d: %v", seq, got)
		}
	}
	l.Settle(l.Open(), 6, long, true)
	if !l.Publish(6, func(*Event, uint64) {}) {
		t.Error("there is no room again")
	}
}

func TestClasses(t *testing.T) {
	for text, want := range map[string]string{"": "", "KEA": "AKE", "g$lshzxetdKE": "AKE", "Ex": "xE", "Kgn": "gKn", "Am": "Am"} {
		classes, ok := Parse(text)
		if got := classes.String(); !ok || got != want {
			t.Errorf("%q is %q", text, got)
		}
	}
	if _, ok := Parse("Kq"); ok {
		t.Error("q is a class")
	}
}

// Misses that come while a group is published follow the next group, or come once it is done. They take a bounded
// room, and a group that comes meanwhile is published once.
func TestMissesWhileAGroupIsPublished(t *testing.T) {
	var l Log
	l.Note(All | Miss)
	var got published
	l.Settle(l.Open(), 9, named("set"), true)
	commit, first := l.Open(), true
	add := func(e *Event, seq uint64) {
		got.add(e, seq)
		if e.Name != "set" || !first {
			return
		}
		first = false
		l.After(named("keymiss"), got.add)
		l.Settle(commit, 8, named("del"), true)
		l.After(named("keymiss"), got.add)
	}
	l.open = map[uint64]bool{} // the feed has waited long enough
	l.Publish(9, add)
	got.want(t, "set 9", "keymiss *", "keymiss *", "del 8")
	if len(l.groups) != 0 || l.bytes != 0 {
		t.Errorf("%d groups are left, and %d bytes", len(l.groups), l.bytes)
	}
	l.Settle(l.Open(), 10, named("set"), true)
	misses := []Event{{Name: "keymiss", Key: make([]byte, 1<<20)}}
	for range 100 {
		l.After(misses, got.add)
	}
	if n := len(l.groups[0].after); n < 50 || n > 64 || l.bytes > mostBytes {
		t.Errorf("%d misses of a MiB wait, counted as %d bytes", n, l.bytes)
	}
	l.Publish(10, func(*Event, uint64) {})
	if len(l.groups) != 0 || l.bytes != 0 {
		t.Errorf("at the end %d groups are left, and %d bytes", len(l.groups), l.bytes)
	}
}
