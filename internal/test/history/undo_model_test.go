package history

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

// TestUndoModel runs the scripts of the model of histories, compares moments, and goes back to some
// of them: the differences of two moments, the store after an undo, and every moment before and
// after it must be as the model has them. internal/mutants has bugs that it must notice.
func TestUndoModel(t *testing.T) {
	kit.EachSeed(t, 8, 10_000, func(t *testing.T, seed uint64) {
		x := newHistoryModel(t, seed)
		x.open()
		x.note()
		for i := range 100 {
			x.step()
			switch {
			case t.Failed():
				return
			case i%8 == 7:
				x.undo()
			case i%3 == 2:
				x.diff()
			}
		}
		for range 5 {
			x.compare()
			x.diff()
		}
		kit.MustClose(t, x.db)
	})
}

// prefix is one of some keys.
func (x *historyModel) prefix() string {
	return []string{"", "", "", "m:", "a", "h", "l", "l2", "z", "m:b"}[x.rng.IntN(10)]
}

func spanOf(prefix string) (from, to []byte) {
	if prefix == "" {
		return nil, nil
	}
	return []byte(prefix), append([]byte(prefix[:len(prefix)-1]), prefix[len(prefix)-1]+1)
}

// diff compares two moments.
func (x *historyModel) diff() {
	a, wasA, howA := x.past()
	if a == nil {
		return
	}
	defer a.Close()
	b, wasB, howB := x.past()
	if b == nil {
		return
	}
	defer b.Close()
	x.wantDiff(howA+" and "+howB, x.prefix(), a, b, wasA, wasB)
}

// wantDiff compares two snapshots, which must show two states, and returns the keys in which they
// differ.
func (x *historyModel) wantDiff(how, prefix string, a, b *copal.Snapshot, wasA, wasB historyState) (keys []string) {
	x.t.Helper()
	inA, inB := wasA.texts(a.Time().UnixMilli()), wasB.texts(b.Time().UnixMilli())
	want := map[string]bool{}
	for _, key := range slices.Concat(slices.Collect(maps.Keys(inA)), slices.Collect(maps.Keys(inB))) {
		if strings.HasPrefix(key, prefix) && inA[key] != inB[key] {
			want[key] = true
		}
	}
	from, to := spanOf(prefix)
	for d, err := range admin.Diff(a, b, from, to) {
		x.must(err)
		keys = append(keys, string(d.Key))
		if (d.A != nil) != (inA[string(d.Key)] != "") || (d.B != nil) != (inB[string(d.Key)] != "") {
			x.t.Fatalf("%s, prefix %q: of %s one has %v, the other %v; want %q and %q", how, prefix, d.Key, d.A, d.B, inA[string(d.Key)], inB[string(d.Key)])
		}
		x.wantElements(how, string(d.Key), a, b, wasA, wasB)
	}
	if sorted := slices.Sorted(maps.Keys(want)); !slices.Equal(keys, sorted) {
		x.t.Fatalf("%s, prefix %q: they differ in %q, want %q\n%s\n%s", how, prefix, keys, sorted, short(inA), short(inB))
	}
	return keys
}

// wantElements compares a collection with names in two snapshots.
func (x *historyModel) wantElements(how, key string, a, b *copal.Snapshot, wasA, wasB historyState) {
	if !strings.ContainsRune("hsz", rune(key[0])) {
		return
	}
	before, now := wasA.alive(key, a.Time().UnixMilli()), wasB.alive(key, b.Time().UnixMilli())
	want := map[string]bool{}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(before)), slices.Collect(maps.Keys(now))) {
		v, had := before[name]
		w, has := now[name]
		if had != has || v != w {
			want[name] = true
		}
	}
	got := map[string]bool{}
	for d, err := range admin.DiffElements(a, b, []byte(key)) {
		x.must(err)
		e := d.A
		if e == nil {
			e = d.B
		}
		_, had := before[string(e.Name)]
		_, has := now[string(e.Name)]
		if got[string(e.Name)] = true; (d.A != nil) != had || (d.B != nil) != has {
			x.t.Fatalf("%s: of element %s of %s one has %v, the other %v", how, e.Name, key, d.A, d.B)
		}
	}
	if !maps.Equal(got, want) {
		x.t.Fatalf("%s: of %s these elements differ: %v, want %v", how, key, got, want)
	}
}

// alive returns the elements of a collection, none if it has expired at a time.
func (s historyState) alive(key string, ms int64) map[string]string {
	if c := s.collections[key]; c.deadline == 0 || ms < c.deadline {
		return c.named
	}
	return nil
}

// undo goes back to some moment. Sometimes somebody writes in between.
func (x *historyModel) undo() {
	then, was, how := x.past()
	if then == nil {
		return
	}
	defer then.Close()
	now, err := x.db.Snapshot()
	x.must(err)
	defer now.Close()
	prefix := x.prefix()
	how = "undo of " + how + ", prefix " + prefix
	differ := x.wantDiff(how, prefix, now, then, x.now, was)
	before := x.now.texts(x.ms())
	if x.rng.IntN(3) == 0 {
		key := string(rune('a' + x.rng.IntN(6)))
		if x.rng.IntN(2) == 0 {
			_, err := x.db.Raw().Delete([]byte(key))
			x.must(err)
			x.delete(key)
		} else {
			v := x.value()
			x.must(x.db.Raw().Set([]byte(key), []byte(v)))
			x.now.values[key] = mortalText{v, 0}
		}
		x.note()
	}
	between := x.now.texts(x.ms())
	from, to := spanOf(prefix)
	report, err := admin.Undo(context.Background(), x.db, then, now, from, to)
	x.must(err)
	var changed [][]byte
	for _, key := range differ {
		if before[key] != between[key] {
			changed = append(changed, []byte(key))
			continue
		}
		x.restore(key, was)
	}
	if !slices.EqualFunc(report.Changed, changed, bytes.Equal) {
		x.t.Fatalf("%s: it says that %q have changed, want %q", how, report.Changed, changed)
	}
	x.note()
	present, err := x.db.Snapshot()
	x.must(err)
	defer present.Close()
	x.wantAt(how, present, x.now)
	after := x.now.texts(x.ms())
	written := 0
	for _, key := range differ {
		if between[key] != after[key] {
			written++
		}
	}
	if n := int(report.Restored + report.Deleted); n != written {
		x.t.Fatalf("%s: it has written %d entries, want %d", how, n, written)
	}
}

// restore gives an entry of the model its earlier state.
func (x *historyModel) restore(key string, was historyState) {
	old := was.clone()
	_, isValue := x.now.values[key]
	_, wasValue := old.values[key]
	switch {
	case isValue || wasValue:
		if e, ok := old.values[key]; ok && (e.deadline == 0 || x.ms() < e.deadline) {
			x.now.values[key] = e
			return
		}
		x.delete(key)
	default:
		c, ok := old.collections[key]
		if ok = ok && (c.deadline == 0 || x.ms() < c.deadline); ok {
			x.now.collections[key] = c
		} else if c := x.now.collections[key]; c.deadline == 0 || x.ms() < c.deadline {
			delete(x.now.collections, key)
		}
	}
}
