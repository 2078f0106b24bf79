package engine

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// The crash model with collections. The oracle has a collection as one value, the text of all its elements, so
// each change is found whole or not at all; and the count in the meta is compared with the elements whenever
// one is read. Whatever has been deleted, replaced and renamed before a crash, with sweeps, compactions and
// snapshots among it: a collection that is made anew has none of the old elements, and when the survivor has
// swept, the index has none either.

// collectionItem turns the item of a meta into the item of a value, the text of the collection.
func collectionItem(s *Store, item *Item) error {
	text, err := readHash(s.Collections(), string(item.Key))
	item.Value, item.Schema = []byte(text), 0
	return err
}

// hashOf is the hash of which this is the text; empty for any other.
func hashOf(text string) map[string]string {
	elements := map[string]string{}
	rest, ok := strings.CutPrefix(text, "hash{")
	for ok && rest != "}" {
		sub, _ := strconv.QuotedPrefix(rest)
		rest = rest[len(sub)+1:]
		value, _ := strconv.QuotedPrefix(rest)
		rest = strings.TrimPrefix(rest[len(value):], " ")
		sub, _ = strconv.Unquote(sub)
		value, _ = strconv.Unquote(value)
		elements[sub] = value
	}
	return elements
}

// isHash reports whether the oracle has a hash under key.
func (o *oracle) isHash(key string) bool { return strings.HasPrefix(o.content[key], "hash{") }

// put makes the oracle hold a collection, or none without elements. The deadline stays.
func (o *oracle) put(key string, elements map[string]string) {
	if len(elements) == 0 {
		delete(o.content, key)
		delete(o.deadlines, key)
	} else {
		o.content[key] = hashText(elements)
	}
}

// collectionScript returns a script with many collections, among steps that move and read records.
func collectionScript(rng *rand.Rand, n int) []step {
	script := compactionScript(rng, n)
	keys := []string{"a", "b", "h", "users:1"}
	for i := range script {
		key, to := keys[rng.IntN(len(keys))], keys[rng.IntN(len(keys))]
		switch rng.IntN(16) {
		case 0, 1, 2, 3, 4:
			script[i] = step{kind: []string{"hset", "hset", "hsetfsync"}[rng.IntN(3)], key: key, changes: randomElements(rng, i, 4)}
		case 5:
			script[i] = step{kind: "hset", key: key, changes: randomElements(rng, i, 30)}
		case 6:
			script[i] = step{kind: "hclear", key: key}
		case 7:
			script[i] = step{kind: "hrename", key: key, value: to}
		case 8, 9:
			script[i] = step{kind: "sweep"}
		case 10:
			script[i] = step{kind: "snapshot"}
		case 11, 12:
			script[i] = step{kind: []string{"htx", "htxfsync"}[rng.IntN(2)], key: key, value: to, changes: randomElements(rng, i, 12)}
		case 13:
			script[i] = step{kind: "hmove", key: key}
		case 14:
			script[i] = step{kind: "hcut", key: key}
		}
	}
	return script
}

func randomElements(rng *rand.Rand, i, most int) (list []step) {
	for _, n := range rng.Perm(most)[:1+rng.IntN(most)] {
		st := step{kind: "set", key: fmt.Sprint("e", n), value: fmt.Sprintf("%d of %d", n, i)}
		if rng.IntN(3) == 0 {
			st.kind = "delete"
		}
		list = append(list, st)
	}
	return list
}

func editsOf(list []step) (edits []*Edit) {
	for _, st := range list {
		edits = append(edits, &Edit{Sub: []byte(st.key), Value: []byte(st.value), Delete: st.kind == "delete"})
	}
	return edits
}

// beginCollection makes the oracle expect the result of a step. It reports whether that is possible: otherwise
// the error must be ErrType or ErrNotFound.
func (o *oracle) beginCollection(st step) bool {
	text, there := o.content[st.key]
	elements := hashOf(text)
	switch st.kind {
	case "hset", "hsetfsync":
		if there && !o.isHash(st.key) {
			return false
		}
		for _, c := range st.changes {
			if c.kind == "delete" {
				delete(elements, c.key)
			} else {
				elements[c.key] = c.value
			}
		}
		o.put(st.key, elements)
	case "htx", "htxfsync":
		if !o.isHash(st.key) {
			return false
		}
		for _, c := range st.changes {
			if c.kind == "delete" {
				delete(elements, c.key)
			} else {
				elements[c.key] = c.value
			}
		}
		o.put("users:new", elements)
		delete(o.deadlines, "users:new")
		if st.key != st.value {
			o.put(st.key, nil)
			o.put(st.value, hashOf(text))
		}
	case "hmove", "hcut":
		if there && !o.isHash(st.key) {
			return false
		}
		if there {
			o.put(st.key, stretched(elements, st.kind == "hmove"))
		}
	case "hclear":
		if there && !o.isHash(st.key) {
			return false
		}
		o.put(st.key, nil)
	case "hrename":
		if !o.isHash(st.key) {
			return false
		}
		if st.key != st.value {
			o.put(st.key, nil)
			o.put(st.value, elements)
		}
	}
	o.began()
	return true
}

func doCollection(s *Store, st step) (err error) {
	switch st.kind {
	case "hset", "hsetfsync":
		err = s.Change([]byte(st.key), HashType, durabilityOf(st), func(*Plan) ([]*Edit, error) { return editsOf(st.changes), nil })
	case "hmove", "hcut":
		err = s.Change([]byte(st.key), HashType, Process, func(p *Plan) ([]*Edit, error) { return stretch(p, st.kind == "hmove") })
	case "htx", "htxfsync":
		err = s.Transact(durabilityOf(st), func(tx *Tx) error { return transact(tx, st) })
	case "hclear":
		_, err = s.Clear([]byte(st.key), HashType, Process)
	case "hrename":
		err = s.Rename([]byte(st.key), []byte(st.value), HashType, Process)
	}
	return err
}

// stretch moves the elements from the second one up to the last one but one to other places, as an insertion into a
// list may do, or takes them out.
func stretch(p *Plan, moves bool) (edits []*Edit, err error) {
	span, ok, err := p.Part(1, -1)
	if !ok || err != nil {
		return nil, err
	}
	var subs []string
	err = p.Keys(span, func(sub []byte) bool { subs = append(subs, string(sub)); return true })
	for _, sub := range subs {
		edits = append(edits, hdel(sub)...)
	}
	for _, sub := range subs {
		e, failed := p.Element([]byte(sub))
		if err = errOr(err, failed); err == nil && moves {
			edits = append(edits, hset(moved(sub), string(e.Value))...)
		}
	}
	return edits, err
}

// stretched returns the elements after stretch.
func stretched(elements map[string]string, moves bool) map[string]string {
	subs, now := slices.Sorted(maps.Keys(elements)), map[string]string{}
	for _, i := range []int{0, len(subs) - 1} {
		now[subs[i]] = elements[subs[i]]
	}
	for i := 1; i < len(subs)-1 && moves; i++ {
		now[moved(subs[i])] = elements[subs[i]]
	}
	return now
}

// moved is another place for an element, where another may have been.
func moved(sub string) string { return "e" + strconv.Itoa(len(sub)) + sub[1:] }

// transact moves a hash to another key, and makes a copy of it with changes.
func transact(tx *Tx, st step) error {
	r, key, made := tx.Collections(), []byte(st.key), []byte("users:new")
	if _, err := r.Find(key, HashType); err != nil {
		return err
	}
	if _, err := tx.Delete(nil, nil, made); err != nil {
		return err
	}
	var edits []*Edit
	for item := range r.All(key, HashType, Span{}, true) {
		if item.Err != nil {
			return item.Err
		}
		edits = append(edits, hset(string(item.Key), string(item.Value))...)
	}
	if err := txChange(tx, string(made), append(edits, editsOf(st.changes)...)); err != nil {
		return err
	}
	return tx.Rename(key, []byte(st.value), HashType)
}

func (c *crasher) collectionStep(s *Store, o *oracle, st step) error {
	if st.kind == "sweep" {
		return s.Sweep()
	}
	possible := o.beginCollection(st)
	err := doCollection(s, st)
	if !possible {
		if errors.Is(err, ErrType) || errors.Is(err, ErrNotFound) {
			return nil
		}
		return fmt.Errorf("it is possible: %w", err)
	}
	if err != nil {
		return err
	}
	o.Acked = o.Started
	if durabilityOf(st) == Power {
		o.Durable = o.Acked
	}
	return nil
}

// sweepSurvivor sweeps, and looks for remains.
func sweepSurvivor(s *Store) error {
	if err := s.Sweep(); err != nil {
		return fmt.Errorf("sweeping: %w", err)
	}
	if err := leftover(s); err != nil {
		return fmt.Errorf("after a sweep: %w", err)
	}
	return nil
}

// TestCrashModelCollections is TestCrashModel for collections. Each of these planted bugs was caught:
//
//   - The meta is a record of its own, and no member of the group of the elements.
//   - Compaction takes no snapshot of the index before it drops swept records.
//   - An id is given again after the collection is gone, or the elements of a collection that is gone are not
//     looked for at an opening.
//   - A rename leaves the owner unchanged, or counts as the end of the collection.
func TestCrashModelCollections(t *testing.T) { logtest.BothWays(t, crashModelCollections) }

func crashModelCollections(t *testing.T) {
	want, least := 100, 3 // scripts: each size of groups
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
		c.Again, c.Sparse = 500, 240
		c.Run(vfs.NewCrashMem(), newOracle(nil), collectionScript(c.Rng, 60))
		states, torn, scripts, compacted = states+c.States, torn+c.Torn, scripts+1, compacted+c.compacted
		if c.Failure != "" {
			t.Fatalf("seed %d, after %d states: %s", seed, states, c.Failure)
		}
	}
	t.Logf("%d crash states and %d torn copies of %d scripts, %d segments compacted, 0 violations", states, torn, scripts, compacted)
}

// collectionStep is step for a collection: it has happened, or nothing of it has.
func (f *faulted) collectionStep(i int, st step) {
	if st.kind == "sweep" {
		f.note(f.store.Sweep())
		return
	}
	before := maps.Clone(f.oracle.content)
	if !f.oracle.beginCollection(st) {
		err := doCollection(f.store, st)
		if !errors.Is(err, ErrType) && !errors.Is(err, ErrNotFound) && f.readable(err) && !f.refused {
			f.Fatalf("step %d, %s of what is no hash: %v", i, st.kind, err)
		}
		return
	}
	err := doCollection(f.store, st)
	var failed *seglog.FailedError
	switch {
	case err == nil:
		f.oracle.Acked = f.oracle.Started
		if durabilityOf(st) == Power {
			f.oracle.Durable = f.oracle.Acked
		}
	case errors.As(err, &failed), errors.Is(err, seglog.ErrNoSpace), !f.readable(err):
		f.note(err)
		text, got := readHash(f.store.Collections(), st.key)
		if durabilityOf(st) == Power && (got == nil && text == f.oracle.content[st.key] || got == ErrNotFound && !f.oracle.isHash(st.key)) {
			return // visible, and not known to be durable
		}
		f.oracle.content = before
		if failed != nil || durabilityOf(st) == Power && got != nil && !f.readable(got) {
			f.oracle.began()
			break
		}
		f.oracle.Started--
		f.oracle.states = f.oracle.states[:f.oracle.Started+1]
	default:
		f.Fatalf("step %d, %s: unexpected error %v", i, st.kind, err)
	}
	f.compare(st.key)
	if st.value != "" {
		f.compare(st.value)
	}
}

// TestEveryFaultInCollections is TestEveryFault for scripts with many collections.
func TestEveryFaultInCollections(t *testing.T) {
	script := collectionScript(rand.New(rand.NewPCG(6, 23)), 120)
	for i := range script {
		switch script[i].kind {
		case "reopen":
			script[i] = step{kind: "set", key: "a", value: fmt.Sprint(i)}
		}
	}
	everyFaultOf(t, script, 193)
}
