package main

import (
	"fmt"
	"strconv"
)

// The writers that will be killed follow a plan: a writer's action in a step is a function of its
// number, the step's and the files. So a parent that has heard how far each one came knows every
// entry that must be there.

const writerCount = 4

// action is one step of a writer.
type action struct {
	key    string
	remove bool
	fsync  bool
	draft  Draft
}

// planned returns the action of a writer in a step. The paths are those of the sources, sorted.
func planned(files sources, paths []string, writer, step int) action {
	mix := uint32(step*writerCount+writer) * 2654435761 // a multiplicative hash
	f := files[paths[int(mix>>8)%len(paths)]]
	length := min(int(mix>>4)%2000, len(f.Text))
	return action{
		key:    fmt.Sprintf("writer%d/%d", writer, mix>>16%200),
		remove: step%5 == 4,
		fsync:  step%50 == 0,
		draft:  Draft{File: f.Path, Step: step, Length: length, Text: strconv.QuoteToASCII(f.Text[:length])},
	}
}

// expected are the drafts that exist when each writer has done so many steps.
type expected struct {
	files  sources
	paths  []string
	done   [writerCount]int
	drafts map[string]Draft
}

func newExpected(files sources) *expected {
	return &expected{files: files, paths: files.paths(), drafts: map[string]Draft{}}
}

// advance carries out the plan of a writer, on the side, up to a step.
func (e *expected) advance(writer, done int) {
	for ; e.done[writer] < done; e.done[writer]++ {
		if a := planned(e.files, e.paths, writer, e.done[writer]); a.remove {
			delete(e.drafts, a.key)
		} else {
			e.drafts[a.key] = a.draft
		}
	}
}

// settle decides for each writer whether the step in flight when it died has happened:
// the one write that may or may not be there. It returns how many have.
func (e *expected) settle(lib *library) (happened int) {
	for w := range writerCount {
		a := planned(e.files, e.paths, w, e.done[w])
		draft, there := lib.drafts.Get(a.key)
		_, before := e.drafts[a.key]
		if a.remove && before && !there || !a.remove && there && draft == a.draft {
			e.advance(w, e.done[w]+1)
			happened++
		}
	}
	return happened
}

// verify compares every draft.
func (e *expected) verify(lib *library) error {
	for key, want := range e.drafts {
		got, err := lib.drafts.Load(key)
		if err != nil {
			return fmt.Errorf("draft %s of step %d was acknowledged: %w", key, want.Step, err)
		}
		if got != want {
			return fmt.Errorf("draft %s is of step %d, acknowledged was step %d", key, got.Step, want.Step)
		}
	}
	for key := range lib.drafts.Keys() {
		if _, ok := e.drafts[key]; !ok {
			return fmt.Errorf("draft %s is there, though its deletion was acknowledged or it was never written", key)
		}
	}
	return nil
}
