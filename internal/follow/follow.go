package follow

import (
	"errors"
	"fmt"
	"math"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/seglog"
)

// A Follower looks from time to time for new records of the log, and has them replayed. The tailer
// knows how to read on in the log, and the engine the meaning of a record.
//
//   - When compaction has replaced segments, entries are moved to their copies. The old files have
//     no names any more but stay open until their last reader is done.
//   - A reader that has not looked for long may find that new records were compacted already. It
//     then begins again: the whole log is read, while reads wait. When that fails, the store shows
//     its old state, and the next look tries again.
type Follower struct {
	store  *engine.Store
	log    *seglog.Log
	tailer *seglog.Tailer   // guarded by Store.Replay
	halted *seglog.Manifest // of a look that has halted on its way (To), nil for none
	arrive func()           // called with the progress of a look by a moment
}

// New is the follower of a read-only store that has just been read.
func New(s *engine.Store, r *seglog.Recovery) *Follower {
	f := &Follower{store: s, log: s.Log()}
	f.begin(r)
	return f
}

// Of is the follower of an open store that is read-only.
func Of(s *engine.Store) *Follower { return s.Follower().(*Follower) }

// begin takes over from recovery. Others wait meanwhile.
func (f *Follower) begin(r *seglog.Recovery) {
	f.tailer = seglog.NewTailer(r, f.store.Apply, f.store.ApplyAll)
}

// Keep looks every now and then until stop is closed.
func (f *Follower) Keep(stop <-chan struct{}) {
	opts, told := f.store.Options(), ""
	for {
		timer, cancel := opts.Clock.After(opts.FollowEvery)
		select {
		case <-stop:
			cancel()
			return
		case <-timer:
		}
		text := ""
		if err := f.Look(); err != nil {
			if text = err.Error(); text != told {
				f.log.ReportError("following the log", err)
			}
		}
		told = text
	}
}

// Look replays the new records. It returns when the store shows everything that was written before
// the call.
func (f *Follower) Look() error {
	return f.store.Replay(func() error {
		err := f.look(math.MaxUint64)
		if errors.Is(err, seglog.ErrBehind) {
			return f.beginAnew()
		}
		return err
	})
}

// To replays the records up to a number. A look may halt on its way, and the next one goes on from
// there.
func (f *Follower) To(seq uint64) error {
	return f.store.Replay(func() error {
		for f.tailer.R.Next <= seq {
			before, whole := f.tailer.R.Next, f.halted == nil
			err := f.look(seq)
			if errors.Is(err, seglog.ErrBehind) || err == nil && whole && f.tailer.R.Next == before {
				return seglog.ErrHistoryLost
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Leave closes the files of a look that has halted.
func (f *Follower) Leave() { f.tailer.Leave() }

func (f *Follower) look(until uint64) (err error) {
	for looks := (seglog.Looks{}); ; {
		if err = f.catchUp(until); !errors.Is(err, seglog.ErrBehind) && !errors.Is(err, seglog.ErrCorrupt) {
			return err
		}
		if !looks.Again(err) {
			return err
		}
	}
}

// catchUp is one look, or a part of it.
func (f *Follower) catchUp(until uint64) (err error) {
	t, m := f.tailer, f.halted
	if f.halted = nil; m == nil {
		f.arrive = f.store.Present()
		if m, err = t.Look(f.store.Alone); m == nil || err != nil {
			return err
		}
	}
	halted, err := t.Advance(m, until)
	if err != nil {
		return err
	}
	if halted {
		f.halted = m
		return nil
	}
	f.arrive()
	return f.replace(m)
}

// Replace is replace for a store that does not go on. It reports whether no group is under way.
func (f *Follower) Replace() (whole bool, err error) {
	err = f.store.Replay(func() error {
		m, err := f.tailer.Look(f.store.Alone)
		if m == nil || err != nil {
			return err
		}
		f.tailer.Stay()
		err = f.replace(m)
		whole = len(f.tailer.R.Groups) == 0
		return err
	})
	return whole, err
}

// replace moves entries from the segments that the manifest names no more to those that compaction has
// put into their places, and takes over the manifest.
func (f *Follower) replace(m *seglog.Manifest) error {
	t := f.tailer
	gone, slots := t.ReplacedIn(m)
	if len(gone) == 0 {
		return t.Settle(m)
	}
	err := t.OpenCompacted(m, func(e *seglog.Record, a seglog.Address) error { return f.store.ApplyCopy(e, a, slots) })
	if err == nil {
		err = f.store.TakeOutExpired(slots)
	}
	if err != nil {
		return err
	}
	t.Retire(gone, slots)
	f.store.Retire(gone)
	return t.Settle(m)
}

// beginAnew reads the whole log. On an error nothing has changed.
func (f *Follower) beginAnew() error {
	for looks := (seglog.Looks{}); ; {
		err := f.store.ReadAnew(false, f.begin)
		if err == nil {
			return nil
		}
		if !errors.Is(err, seglog.ErrCorrupt) && !errors.Is(err, seglog.ErrBehind) || !looks.Again(err) {
			if errors.Is(err, seglog.ErrCorrupt) && f.store.ReadAnew(true, f.begin) == nil {
				return nil
			}
			return fmt.Errorf("copal: the store shows an old state, because the log could not be read again: %w", err)
		}
	}
}
