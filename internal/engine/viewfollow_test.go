package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/storetest"
)

// followerView is a view of a follower, and its expected content.
type followerView struct {
	*engine.View
	content map[string]string
}

// A view of a follower does not change while that goes on, and is lost when it begins anew; until then nothing
// in it is lost, and never is anything wrong.
func TestViewOfAFollower(t *testing.T) { logtest.BothWays(t, viewOfAFollower) }

func viewOfAFollower(t *testing.T) {
	checked, lost := 0, 0
	seeds, steps := uint64(3), 150
	if storetest.Long() {
		seeds, steps = 30, 1000
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		f := storetest.NewFollowed(t, seed)
		if _, err := f.Reader.Map("m"); err != nil {
			t.Fatal(err)
		}
		storetest.AttachMap(t, f.Reader, "m")
		var views []followerView
		for n := range steps {
			f.Step(n)
			if n%[]int{3, 10, 60}[seed%3] > 0 {
				continue
			}
			f.Refresh()
			if len(views) < 5 {
				views = append(views, followerView{engine.MustView(t, f.Reader), maps.Clone(f.Content)})
			}
			i := f.Rng.IntN(len(views))
			if v := views[i]; engine.Lost(v.View) {
				engine.WantViewFails(t, v.View, engine.ErrViewLost)
				lost++
			} else {
				engine.WantView(t, v.View, v.content, slices.Collect(maps.Keys(f.Content)))
				checked++
				if f.Rng.IntN(4) > 0 {
					continue
				}
			}
			views[i].Close()
			views = slices.Delete(views, i, i+1)
		}
		v := engine.MustView(t, f.Reader)
		for n := range 400 { // so that it can no longer follow
			storetest.Set(t, f.Writer, fmt.Sprint(n%50), fmt.Sprint("value ", n))
			f.Content[fmt.Sprint(n%50)] = fmt.Sprint("value ", n)
		}
		for range 3 {
			f.Clock.Advance(2 * time.Millisecond) // beyond the window of history, where there is one
			storetest.Set(t, f.Writer, "last", "")
			f.Content["last"] = ""
			if err := storetest.Compact(f.Writer); err != nil {
				t.Fatal(err)
			}
		}
		f.Refresh()
		if engine.WantViewFails(t, v, engine.ErrViewLost); !t.Failed() {
			lost++
		}
		views = append(views, followerView{engine.MustView(t, f.Reader), maps.Clone(f.Content)}) // which is none of those that were lost
		storetest.Set(t, f.Writer, "last", "later")
		f.Content["last"] = "later"
		f.Refresh()
		engine.WantView(t, views[len(views)-1].View, views[len(views)-1].content, nil)
		for _, v := range append(views, followerView{View: v}) {
			v.Close()
		}
		if f.Reader.Stats().Views != 0 {
			t.Errorf("%d views are open", f.Reader.Stats().Views)
		}
		f.Refresh()
		if f.Reader.Retired() {
			t.Errorf("%d bytes of segments are still kept", f.Reader.Stats().HeldBytes)
		}
	}
	if checked < 30 || lost == 0 {
		t.Errorf("%d views were checked, %d lost: this tests too little", checked, lost)
	}
}

// The members of a group that a follower has read before a view was opened, and the commit later, are not in
// the view.
func TestViewBeforeACommit(t *testing.T) {
	f := storetest.NewFollowed(t, 1)
	s := f.Writer
	storetest.Set(t, s, "a", "old")
	members := []*seglog.Pending{
		{Head: record.Head{Op: record.Set, Kind: record.Value}, Key: []byte("a"), Value: []byte("new")},
		{Head: record.Head{Op: record.Set, Kind: record.Value}, Key: []byte("b"), Value: []byte("new")},
	}
	g := &seglog.Group{Log: s.Log()}
	defer g.End()
	if err := g.Ahead(members...); err != nil {
		t.Fatal(err)
	}
	if err := f.Reader.Refresh(); err != nil {
		t.Fatal(err)
	}
	v := engine.MustView(t, f.Reader)
	defer v.Close()
	if v.Seq() < members[1].Seq {
		t.Fatalf("the follower is at %d and has not read the members", v.Seq())
	}
	if _, err := g.Commit(); err != nil {
		t.Fatal(err)
	}
	s.Log().Shown.Add(1)
	if err := f.Reader.Refresh(); err != nil {
		t.Fatal(err)
	}
	storetest.Want(t, f.Reader, "b", "new")
	engine.WantView(t, v, map[string]string{"first": "1", "a": "old"}, []string{"b"})
}
