package engine

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/keyrange"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// The crash model with groups. A group is one state of the oracle: it is found whole or not at all. Those that
// are too long for one append are written ahead, some of them with steps of other kinds before the commit, so
// that compaction, snapshots of the index, other writes and other groups come between members and commit.

// groupScript returns a script with many groups, among steps that move and read records.
func groupScript(rng *rand.Rand, n int) []step {
	script := compactionScript(rng, n)
	begun := 0
	for i := range script {
		switch n := rng.IntN(12); {
		case n < 2:
			script[i] = step{kind: "snapshot"}
		case n < 5 && begun < 4:
			script[i], begun = step{kind: "begin", changes: randomChanges(rng, i, 40)}, begun+1
		case n < 8 && begun > 0:
			script[i], begun = step{kind: []string{"commit", "commit", "give up"}[rng.IntN(3)]}, begun-1
		case n < 9:
			script[i] = step{kind: []string{"group", "groupfsync"}[rng.IntN(2)], changes: randomChanges(rng, i, 12)}
		case n < 10:
			script[i] = step{kind: []string{"range", "rangefsync"}[rng.IntN(2)], key: randomPrefix(rng)}
		}
		if script[i].changes != nil && rng.IntN(4) == 0 {
			for range 1 + rng.IntN(2) {
				script[i].prefixes = append(script[i].prefixes, randomPrefix(rng))
			}
		}
	}
	return script
}

func randomPrefix(rng *rand.Rand) string {
	return []string{"", "a", "g", "users:", "users:1", "users", "g4", "nobody"}[rng.IntN(8)]
}

func rangesOf(prefixes []string) (list []Range) {
	for _, p := range prefixes {
		list = append(list, keyrange.Prefix([]byte(p)))
	}
	return list
}

// deleteAll deletes the keys with a prefix.
func (o *oracle) deleteAll(prefix string) {
	for key := range o.content {
		if strings.HasPrefix(key, prefix) {
			delete(o.content, key)
			delete(o.deadlines, key)
		}
	}
}

// randomChanges are those of one group, each of another key.
func randomChanges(rng *rand.Rand, i, most int) []step {
	var list []step
	for _, n := range rng.Perm(20)[:1+rng.IntN(min(most, 20))] {
		key := []string{"a", "b", "users:1", "users:2"}[n%4]
		if n >= 8 {
			key = fmt.Sprint("users:", n)
		} else if n >= 4 {
			key = fmt.Sprint("g", n)
		}
		st := step{kind: "set", key: key, value: fmt.Sprintf("group %d of %s%s", i, key, strings.Repeat("x", rng.IntN(40)))}
		if rng.IntN(4) == 0 {
			st.kind = "delete"
		}
		if !contains(list, st) {
			list = append(list, st)
		}
	}
	return list
}

func contains(list []step, st step) bool {
	for _, other := range list {
		if other.key == st.key {
			return true
		}
	}
	return false
}

func changesOf(list []step) []*Change {
	var changes []*Change
	for _, st := range list {
		changes = append(changes, &Change{Write: Write{Key: []byte(st.key), Value: []byte(st.value), Delete: st.kind == "delete"}})
	}
	return changes
}

// beginAll is begin for writes that count together.
func (o *oracle) beginAll(prefixes []string, list []step) {
	for _, p := range prefixes {
		o.deleteAll(p)
	}
	for _, st := range list {
		delete(o.deadlines, st.key)
		if st.kind == "delete" {
			delete(o.content, st.key)
		} else {
			o.content[st.key] = st.value
		}
	}
	o.began()
}

// openGroup is a group whose members are in the log, and whose commit is yet to come.
type openGroup struct {
	*together
	step step
}

// commit is the second half of commitAll.
func (g *openGroup) commit(s *Store) (err error) {
	if len(g.ranges) > 0 {
		if g.view, err = s.OpenView(); err != nil {
			return err
		}
		defer g.view.Close()
	}
	if err = g.gather(); err != nil {
		return err
	}
	in, err := g.use()
	if err != nil {
		return err
	}
	defer s.life.leave(in)
	if _, err = g.lockAndCommit(); err == nil {
		err = g.sweep()
	}
	return err
}

func (c *crasher) groupStep(s *Store, o *oracle, st step) error {
	switch st.kind {
	case "begin":
		g := &openGroup{&together{store: s, changes: changesOf(st.changes), ranges: rangesOf(st.prefixes)}, st}
		g.group.Log = s.log
		c.groups = append(c.groups, g)
		return g.prepare()
	case "give up":
		if g := c.anyGroup(); g != nil {
			g.finish(nil)
		}
		return nil
	case "commit":
		g := c.anyGroup()
		if g == nil {
			return nil
		}
		defer g.finish(nil)
		o.beginAll(g.step.prefixes, g.step.changes)
		if err := g.commit(s); err != nil {
			return err
		}
	default:
		o.beginAll(st.prefixes, st.changes)
		if err := writeGroup(s, st); err != nil {
			return err
		}
	}
	o.Acked = o.Started
	if durabilityOf(st) == Power {
		o.Durable = o.Acked
	}
	return nil
}

// writeGroup writes a group at once.
func writeGroup(s *Store, st step) error {
	if len(st.prefixes) == 0 {
		return s.WriteAll(changesOf(st.changes), durabilityOf(st))
	}
	return s.deleteRanges(&together{store: s, changes: changesOf(st.changes), ranges: rangesOf(st.prefixes)}, durabilityOf(st))
}

// anyGroup takes out one of the open groups, nil if there is none.
func (c *crasher) anyGroup() *openGroup {
	if len(c.groups) == 0 {
		return nil
	}
	i := c.Rng.IntN(len(c.groups))
	g := c.groups[i]
	c.groups = slices.Delete(c.groups, i, i+1)
	return g
}

// giveUp ends the open groups of the store.
func (c *crasher) giveUp(s *Store) {
	c.groups = slices.DeleteFunc(c.groups, func(g *openGroup) bool {
		if g.store == s {
			g.finish(nil)
		}
		return g.store == s
	})
}

// TestCrashModelGroups is TestCrashModel for groups. That it would notice was tried by breaking the code. Each
// of these was caught, within a default run:
//
//   - Members count without their commit.
//   - A snapshot of the index covers members of a group that is under way, or does not know of a group whose
//     commit it covers.
//   - Compaction begins with segments that have members of a group under way, drops a commit that members need, drops
//     members whose commit is beyond the run, or keeps deletions by their own number.
//   - Members count by their own number, and not by the commit's.
func TestCrashModelGroups(t *testing.T) { logtest.BothWays(t, crashModelGroups) }

func crashModelGroups(t *testing.T) {
	want, least := 400, 3
	if longTest() {
		want = 1_000_000
	}
	states, torn, scripts, compacted := 0, 0, 0, int64(0)
	for seed := uint64(1); states < want || scripts < least; seed++ {
		c := compactionCrasher(t, seed)
		options := c.options
		c.options = func(o *Options) {
			options(o)
			o.GroupBytes = []int64{300, 500, 1 << 20}[seed%3]
			o.NoSnapshot = seed%4 == 3
		}
		c.Again, c.Sparse = 500, 120
		c.Run(vfs.NewCrashMem(), newOracle(nil), groupScript(c.Rng, 40))
		states, torn, scripts, compacted = states+c.States, torn+c.Torn, scripts+1, compacted+c.compacted
		if c.Failure != "" {
			t.Fatalf("seed %d, after %d states: %s", seed, states, c.Failure)
		}
	}
	t.Logf("%d crash states and %d torn copies of %d scripts, %d segments compacted, 0 violations", states, torn, scripts, compacted)
}

// groupStep is step for a group: it has happened, or nothing of it has.
func (f *faulted) groupStep(i int, st step) {
	if st.kind == "begin" { // it is without its commit when the process is killed
		g := &openGroup{&together{store: f.store, changes: changesOf(st.changes)}, st}
		g.group.Log = f.store.log
		f.groups = append(f.groups, g)
		f.note(g.prepare())
		return
	}
	before := maps.Clone(f.oracle.content)
	f.oracle.beginAll(st.prefixes, st.changes)
	err := writeGroup(f.store, st)
	var failed *seglog.FailedError
	switch {
	case err == nil && f.refused:
		f.Fatalf("step %d, %s, succeeds after a failure", i, st.kind)
	case err == nil:
		f.acknowledged(durabilityOf(st) == Power)
	case errors.As(err, &failed), errors.Is(err, seglog.ErrNoSpace), !f.readable(err):
		f.note(err)
		shown, readable := f.shows(append(deleted(st, before), st.changes...), before)
		if st.kind == "groupfsync" && shown {
			return // visible, and not known to be durable
		}
		f.oracle.content = before
		if failed != nil || st.kind == "groupfsync" && !readable {
			f.oracle.began()
			break
		}
		f.oracle.Started--
		f.oracle.states = f.oracle.states[:f.oracle.Started+1]
	default:
		f.Fatalf("step %d, %s: unexpected error %v", i, st.kind, err)
	}
}

// deleted are the entries that the ranges of a group delete, but for those that it sets.
func deleted(st step, before map[string]string) (list []step) {
	for key := range before {
		gone := step{kind: "delete", key: key}
		if hasRange(rangesOf(st.prefixes), []byte(key)) && !contains(st.changes, gone) {
			list = append(list, gone)
		}
	}
	return list
}

// shows reports whether the store shows the changes, all that can be read or none, and whether any can be read.
func (f *faulted) shows(list []step, before map[string]string) (shown, readable bool) {
	hidden := false
	for _, st := range list {
		was, had := before[st.key]
		if had && was == st.value || !had && st.kind == "delete" {
			continue
		}
		e, err := f.store.Get(nil, []byte(st.key))
		if err != nil && !errors.Is(err, ErrNotFound) {
			continue
		}
		if now := err == nil; now == (st.kind != "delete") && (!now || string(e.Value) == st.value) {
			shown = true
		} else {
			hidden = true
		}
	}
	if shown && hidden {
		f.Fatalf("some changes of a group show, and others do not")
	}
	return shown, shown || hidden
}

// groupedRanges is groupScript with range deletions in groups only, whose possible states are known.
func groupedRanges(rng *rand.Rand, n int) []step {
	script := groupScript(rng, n)
	for i := range script {
		if st := &script[i]; strings.HasPrefix(st.kind, "range") {
			*st = step{kind: strings.Replace(st.kind, "range", "group", 1), prefixes: []string{st.key}, changes: []step{{kind: "set", key: "g1", value: fmt.Sprint(i)}}}
		}
	}
	return script
}

// TestEveryFaultInGroups is TestEveryFault for scripts with many groups.
func TestEveryFaultInGroups(t *testing.T) {
	script := groupedRanges(rand.New(rand.NewPCG(4, 23)), 120)
	for i := range script {
		switch script[i].kind {
		case "begin":
			script[i].kind = "group"
		case "reopen", "commit", "give up":
			script[i] = step{kind: "set", key: "a", value: fmt.Sprint(i)}
		}
	}
	everyFaultOf(t, script, 157)
}
