package engine

import (
	"fmt"
	"strings"
	"testing"
)

// A small model of shows.go: two keys, each with a lock, their writers, the opener of a view, and the readers, as a
// few steps each. All orders of the steps are tried. When a rule is left out, some reader must see a wrong state, or
// it is no rule.

// world is the state of the model. Index 0 is key a, 1 is key b.
type world struct {
	at [4]int // which step of each actor comes next

	locked  [2]bool
	seq     int    // of the log
	number  [2]int // of the change of each key, 0 for none yet
	toShow  int
	shown   int
	shows   [2]bool // memory has the new one
	showing [2]int
	done    [2]bool // its change was acknowledged

	dirty    [2]int  // announced cells
	waits    [2]bool // the shown value is not in the log
	opening  int
	late     int
	wasLate  bool
	open     bool // the view is known
	viewSeq  int
	noted    [2]bool // the former state of the key, for the view
	returned bool
	viewHas  [2]bool

	told  bool    // the reader knew that b was done when it began
	after bool    // the reader began when the view had been returned
	found [2]bool // by the reader
}

// step does a step, or reports that it cannot be done yet.
type modelStep = func(w *world) bool

type rules struct{ noLate, noPass, noShowing, noOpening, noNote bool }

func lockStep(k int) modelStep {
	return func(w *world) bool {
		if w.locked[k] {
			return false
		}
		w.locked[k] = true
		return true
	}
}

func passing(k int, when func(w *world) bool) modelStep {
	return func(w *world) bool { return !when(w) || !w.locked[k] }
}

func (w *world) append(keys ...int) {
	w.seq++
	w.toShow++
	for _, k := range keys {
		w.number[k] = w.seq
	}
}

func (r rules) note(w *world, k int) {
	if w.open && w.number[k] > w.viewSeq && !r.noNote {
		w.noted[k] = true
	}
}

// writer changes one key.
func (r rules) writer(k int) []modelStep {
	return []modelStep{
		lockStep(k),
		func(w *world) bool { w.append(k); return true },
		func(w *world) bool { r.note(w, k); return true },
		func(w *world) bool { w.shows[k] = true; return true },
		func(w *world) bool { w.shown++; return true },
		func(w *world) bool { w.locked[k] = false; return true },
		func(w *world) bool { w.done[k] = true; return true },
	}
}

// group changes both keys at once.
func (r rules) group() []modelStep {
	raise := func(n int) modelStep {
		return func(w *world) bool {
			if !r.noShowing {
				w.showing[0] += n
				w.showing[1] += n
			}
			return true
		}
	}
	show := func(k int) modelStep { return func(w *world) bool { r.note(w, k); w.shows[k] = true; return true } }
	return []modelStep{
		lockStep(0), lockStep(1),
		func(w *world) bool { w.append(0, 1); return true },
		raise(1), show(0), show(1), raise(-1),
		func(w *world) bool { w.shown++; return true },
		func(w *world) bool { w.locked = [2]bool{}; w.done = [2]bool{true, true}; return true },
	}
}

// async sets a without the log, unless a view is being opened.
func (r rules) async() []modelStep {
	return []modelStep{
		lockStep(0),
		func(w *world) bool { w.dirty[0]++; return true },
		func(w *world) bool {
			if w.opening > 0 && !r.noOpening {
				w.dirty[0]--
				w.append(0)
				r.note(w, 0)
				w.shown++
			} else {
				w.waits[0] = true
			}
			return true
		},
		func(w *world) bool { w.shows[0] = true; return true },
		func(w *world) bool { w.locked[0] = false; w.done[0] = true; return true },
	}
}

// viewer opens a view, and looks at both keys.
func (r rules) viewer() []modelStep {
	late := func(w *world) bool { return w.wasLate && !r.noPass }
	look := func(k int) modelStep {
		return func(w *world) bool {
			if w.locked[k] {
				return false
			}
			w.viewHas[k] = w.shows[k] && !w.noted[k]
			return true
		}
	}
	return []modelStep{
		func(w *world) bool { w.opening++; return true },
		func(w *world) bool { // the flush
			if w.dirty[0] == 0 {
				return true
			}
			if w.locked[0] {
				return false
			}
			if w.waits[0] {
				w.waits[0] = false
				w.dirty[0]--
				w.append(0)
				w.shown++
			}
			return true
		},
		func(w *world) bool { // nothing is appended meanwhile
			w.open, w.viewSeq, w.wasLate = true, w.seq, w.toShow != w.shown
			if w.wasLate && !r.noLate {
				w.late++
			}
			return true
		},
		passing(0, late), passing(1, late),
		func(w *world) bool {
			if w.wasLate && !r.noLate {
				w.late--
			}
			w.opening--
			w.returned = true
			return true
		},
		look(0), look(1),
	}
}

// reader looks at the keys without their locks, in this order.
func (r rules) reader(when func(w *world) bool, keys ...int) []modelStep {
	steps := []modelStep{func(w *world) bool {
		if !when(w) {
			return false
		}
		w.told, w.after = w.done[1], w.returned
		return true
	}}
	for _, k := range keys {
		steps = append(steps,
			passing(k, func(w *world) bool { return w.late > 0 || w.showing[k] > 0 }),
			func(w *world) bool { w.found[k] = w.shows[k]; return true })
	}
	return steps
}

// explore tries all orders of the steps, and returns a fault at the end of one.
func explore(check func(w *world) string, actors ...[]modelStep) (wrong string, ends int) {
	seen := map[world]bool{}
	var from func(w world) string
	from = func(w world) string {
		if seen[w] {
			return ""
		}
		seen[w] = true
		stuck, ended := true, true
		for i, steps := range actors {
			if w.at[i] == len(steps) {
				continue
			}
			ended = false
			next := w
			if !steps[w.at[i]](&next) {
				continue
			}
			stuck = false
			next.at[i]++
			if what := from(next); what != "" {
				return what
			}
		}
		switch {
		case ended:
			ends++
			return check(&w)
		case stuck:
			return fmt.Sprintf("nobody can go on: %+v", w)
		}
		return ""
	}
	return from(world{}), ends
}

func TestShows(t *testing.T) {
	always := func(*world) bool { return true }
	view := func(w *world) string {
		for k, has := range w.viewHas {
			if want := w.number[k] != 0 && w.number[k] <= w.viewSeq; has != want {
				return fmt.Sprintf("the view has the log up to %d, and of key %d, changed by %d, it has %v", w.viewSeq, k, w.number[k], has)
			}
		}
		switch {
		case w.viewHas[0] && !w.viewHas[1] && w.told && !w.found[0]:
			return "for the view a came before b, and who was told of b has found the old a"
		case w.after && w.viewHas[0] && !w.found[0]:
			return "the view has a, and who looked later has found the old one"
		}
		return ""
	}
	for _, c := range []struct {
		name   string
		broken rules
		wrong  string // the expected fault, "" for none
		check  func(w *world) string
		actors func(r rules) [][]modelStep
	}{
		{"two writers", rules{}, "", view, func(r rules) [][]modelStep {
			return [][]modelStep{r.writer(0), r.writer(1), r.viewer(), r.reader(func(w *world) bool { return w.done[1] }, 0)}
		}},
		{"without late", rules{noLate: true}, "who was told of b", view, func(r rules) [][]modelStep {
			return [][]modelStep{r.writer(0), r.writer(1), r.viewer(), r.reader(func(w *world) bool { return w.done[1] }, 0)}
		}},
		{"without passing the locks", rules{noPass: true}, "who looked later", view, func(r rules) [][]modelStep {
			return [][]modelStep{r.writer(0), r.writer(1), r.viewer(), r.reader(func(w *world) bool { return w.returned }, 0)}
		}},
		{"without versions", rules{noNote: true}, "it has true", view, func(r rules) [][]modelStep {
			return [][]modelStep{r.writer(0), r.writer(1), r.viewer()}
		}},
	} {
		check(t, c.name, c.wrong, c.check, c.actors(c.broken))
	}

	group := func(w *world) string {
		if w.found[0] != w.found[1] && !w.found[1] {
			return "a is new and b, looked at later, is old"
		}
		return wholeGroup(w)
	}
	for broken, wrong := range map[rules]string{{}: "", {noShowing: true}: "is old"} {
		check(t, fmt.Sprintf("a group, %+v", broken), wrong, group, [][]modelStep{broken.group(), broken.viewer(), broken.reader(always, 0, 1)})
	}

	waiting := func(w *world) string {
		if w.viewHas[1] && !w.viewHas[0] {
			return "b was set after a, and is in the view without it"
		}
		return ""
	}
	for broken, wrong := range map[rules]string{{}: "", {noOpening: true}: "without it"} {
		later := broken.writer(1)
		later[0] = func(w *world) bool { return w.done[0] && lockStep(1)(w) }
		check(t, fmt.Sprintf("set asynchronously, %+v", broken), wrong, waiting, [][]modelStep{broken.async(), later, looksAtMemory(broken.viewer())})
	}
}

// wholeGroup says whether a view has a group whole.
func wholeGroup(w *world) string {
	if w.viewHas[0] != w.viewHas[1] {
		return "the view has half of the group"
	}
	return ""
}

// looksAtMemory makes a view look only at keys that have a number: a waiting value has none, and is not in it.
func looksAtMemory(steps []modelStep) []modelStep {
	n := len(steps)
	for k := range 2 {
		look := steps[n-2+k]
		steps[n-2+k] = func(w *world) bool {
			ok := look(w)
			w.viewHas[k] = w.viewHas[k] && w.number[k] != 0 && w.number[k] <= w.viewSeq
			return ok
		}
	}
	return steps
}

func check(t *testing.T, name, wrong string, check func(w *world) string, actors [][]modelStep) {
	t.Helper()
	got, ends := explore(check, actors...)
	switch {
	case wrong == "" && got != "":
		t.Errorf("%s: %s", name, got)
	case wrong != "" && !strings.Contains(got, wrong):
		t.Errorf("%s: %q, and %q should come of it", name, got, wrong)
	case wrong == "" && ends < 3:
		t.Errorf("%s: there are %d ends", name, ends)
	}
}
