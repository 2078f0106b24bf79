package copal_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/compaction"
	"github.com/copaldb/copal/internal/opened"
	"github.com/copaldb/copal/internal/vfs"
)

// The model of histories: after each operation of a random script it keeps what the store must have, and of what
// moment. Raw keys, maps, hashes, transactions, deletions of ranges, large values and deadlines come; compaction, clean
// ends and deaths of the process come between. At any time, as of any moment of the window, the store must show what
// the model has kept.
//
// COPAL_SEED=n runs one seed alone.
type historyModel struct {
	t      *testing.T
	rng    *rand.Rand
	clock  *manualClock
	mem    *vfs.Mem
	opts   []copal.Option
	window time.Duration // 0 for none

	db *copal.DB
	m  *copal.Map[string, string]

	now     historyState
	moments []historyMoment
	last    int
	lost    int // moments that were not to be had, and need not have been
	seen    int
}

// historyState is what the store has: values by their whole keys, with deadlines, and hashes.
type historyState struct {
	values map[string]mortalText
	hashes map[string]map[string]string
}

type mortalText struct {
	text     string
	deadline int64 // Unix milliseconds, 0 for none
}

type historyMoment struct {
	seq  uint64
	time int64
	historyState
}

func (s historyState) clone() historyState {
	hashes := map[string]map[string]string{}
	for k, h := range s.hashes {
		hashes[k] = maps.Clone(h)
	}
	return historyState{maps.Clone(s.values), hashes}
}

// TestHistoryModel compares every moment with the model. internal/mutants breaks what it is to notice.
func TestHistoryModel(t *testing.T) {
	eachSeed(t, 300, 10_000, func(t *testing.T, seed uint64) {
		x := &historyModel{t: t, rng: rand.New(rand.NewPCG(seed, 30)), clock: newManualClock(), mem: vfs.NewMem(),
			now: historyState{map[string]mortalText{}, map[string]map[string]string{}}}
		x.window = []time.Duration{0, copal.Forever, 100 * time.Millisecond, 400 * time.Millisecond, 400 * time.Millisecond}[x.rng.IntN(5)]
		x.opts = []copal.Option{copal.WithInline(), copal.WithClock(x.clock), copal.WithMaxMemory([]int64{1, 1 << 20}[x.rng.IntN(2)]),
			copal.WithSegmentBytes(int64(500 + x.rng.IntN(3000))), copal.WithHistory(x.window)}
		if x.rng.IntN(2) == 0 {
			x.opts = append(x.opts, copal.WithoutRing())
		}
		x.run()
	})
}

func (x *historyModel) run() {
	x.open()
	x.note()
	for range 120 {
		x.step()
		if x.t.Failed() {
			return
		}
	}
	for range 10 {
		x.compare()
	}
	mustClose(x.t, x.db)
	if x.window > 0 && x.seen == 0 {
		x.t.Error("no moment was seen")
	}
}

func (x *historyModel) open() {
	x.db = openOn(x.t, x.mem, x.opts...)
	x.m = nil
}

// mapped is the map, which nobody may have opened before.
func (x *historyModel) mapped() *copal.Map[string, string] {
	if x.m == nil {
		x.m = mapOf[string, string](x.t, x.db, "m")
	}
	return x.m
}

func (x *historyModel) ms() int64 { return x.clock.Now().UnixMilli() }

// note keeps the present.
func (x *historyModel) note() {
	s, err := x.db.Snapshot()
	if err != nil {
		x.t.Fatal(err)
	}
	defer s.Close()
	x.moments = append(x.moments, historyMoment{s.Seq(), x.ms(), x.now.clone()})
}

func (x *historyModel) value() string {
	x.last++
	v := fmt.Sprint("value ", x.last)
	if x.rng.IntN(60) == 0 {
		v += strings.Repeat("x", 1<<20+x.rng.IntN(1<<20))
	}
	return v
}

func (x *historyModel) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

// delete takes a key out, unless it has expired: there is no record of that then.
func (x *historyModel) delete(key string) {
	if x.alive(key) {
		delete(x.now.values, key)
	}
}

// alive reports whether a key has a value. What has expired stays in the model: there is no record of that.
func (x *historyModel) alive(key string) bool {
	e, ok := x.now.values[key]
	return ok && (e.deadline == 0 || x.ms() < e.deadline)
}

func (x *historyModel) step() {
	rng, raw := x.rng, x.db.Raw()
	key := string(rune('a' + rng.IntN(6)))
	if rng.IntN(3) > 0 {
		x.clock.Advance(time.Duration(rng.IntN(20)) * time.Millisecond)
	}
	switch rng.IntN(16) {
	case 0, 1:
		v := x.value()
		x.must(raw.Set([]byte(key), []byte(v)))
		x.now.values[key] = mortalText{v, 0}
	case 2:
		v, ttl := x.value(), time.Duration(1+rng.IntN(100))*time.Millisecond
		x.must(raw.SetTTL([]byte(key), []byte(v), ttl))
		x.now.values[key] = mortalText{v, x.ms() + ttl.Milliseconds()}
	case 3:
		_, err := raw.Delete([]byte(key))
		x.must(err)
		x.delete(key)
	case 4, 5:
		v := x.value()
		x.must(x.mapped().Set(key, v))
		x.now.values["m:"+key] = mortalText{v, 0}
	case 6:
		if x.alive("m:" + key) {
			x.must(x.mapped().Expire(key, 30*time.Millisecond))
			x.now.values["m:"+key] = mortalText{x.now.values["m:"+key].text, x.ms() + 30}
		}
	case 7:
		_, err := x.mapped().Delete(key)
		x.must(err)
		x.delete("m:" + key)
	case 8:
		x.hash()
		return
	case 9, 10:
		x.together()
	case 11:
		prefix := []string{"", "m:", key, key, key, "h"}[rng.IntN(6)]
		x.must(raw.DeletePrefix([]byte(prefix)))
		maps.DeleteFunc(x.now.values, func(k string, _ mortalText) bool { return strings.HasPrefix(k, prefix) })
		maps.DeleteFunc(x.now.hashes, func(k string, _ map[string]string) bool { return strings.HasPrefix(k, prefix) })
	case 12:
		x.compact()
	case 13:
		x.again()
	default:
		x.compare()
		return
	}
	x.note()
}

func (x *historyModel) hash() {
	name := []string{"h1", "h2"}[x.rng.IntN(2)]
	h := x.db.Raw().Hash([]byte(name))
	field := string(rune('p' + x.rng.IntN(4)))
	switch x.rng.IntN(4) {
	case 0, 1:
		v := x.value()
		x.must(h.Set(field, []byte(v)))
		if x.now.hashes[name] == nil {
			x.now.hashes[name] = map[string]string{}
		}
		x.now.hashes[name][field] = v
	case 2:
		_, err := h.Delete(field)
		x.must(err)
		if delete(x.now.hashes[name], field); len(x.now.hashes[name]) == 0 {
			delete(x.now.hashes, name)
		}
	case 3:
		_, err := x.db.Raw().Delete([]byte(name))
		x.must(err)
		delete(x.now.hashes, name)
	}
	x.note()
}

// together is a transaction, which may be written ahead in several pieces.
func (x *historyModel) together() {
	x.must(x.db.Update(func(tx *copal.Tx) error {
		for range 1 + x.rng.IntN(5) {
			key := string(rune('a' + x.rng.IntN(6)))
			if x.rng.IntN(3) == 0 {
				if _, err := tx.Raw().Delete([]byte(key)); err != nil {
					return err
				}
				x.delete(key)
				continue
			}
			v := x.value()
			if err := tx.Raw().Set([]byte(key), []byte(v)); err != nil {
				return err
			}
			x.now.values[key] = mortalText{v, 0}
		}
		return nil
	}))
}

func (x *historyModel) compact() {
	if x.rng.IntN(2) == 0 {
		x.must(x.db.Compact(context.Background(), nil))
		return
	}
	compaction.Of(opened.Engine(x.db)).Step()
}

// again ends the process, in one way or the other, and opens the store without the option, which it keeps to.
func (x *historyModel) again() {
	if x.rng.IntN(2) == 0 {
		mustClose(x.t, x.db)
	} else {
		x.mem = x.mem.ProcessCrash()
	}
	x.open()
}

// compare looks at some moment.
func (x *historyModel) compare() {
	at := x.rng.IntN(len(x.moments))
	want := x.moments[at]
	var s *copal.Snapshot
	var err error
	how := ""
	if x.rng.IntN(2) == 0 {
		seq := want.seq // or of any record that came before the next moment, in the midst of a change
		if at+1 < len(x.moments) && x.moments[at+1].seq > seq {
			seq += x.rng.Uint64N(x.moments[at+1].seq - seq)
		}
		how = fmt.Sprint("record ", seq)
		s, err = x.db.AsOfSeq(seq)
		for at+1 < len(x.moments) && x.moments[at+1].seq <= seq {
			at++
		}
	} else {
		ms := want.time + x.rng.Int64N(x.ms()-want.time+1)
		how = fmt.Sprint("time ", ms-x.moments[0].time)
		s, err = x.db.AsOf(time.UnixMilli(ms))
		for at+1 < len(x.moments) && x.moments[at+1].time <= ms {
			at++
		}
		if s != nil && s.Time().UnixMilli() != ms {
			x.t.Errorf("the snapshot as of %d is of %d", ms, s.Time().UnixMilli())
		}
	}
	want = x.moments[at]
	if errors.Is(err, copal.ErrHistoryLost) {
		x.lost++
		if next := x.moments[min(at+1, len(x.moments)-1)]; want.seq == 0 { // the store may not have been made by then
			return
		} else if x.window == copal.Forever || x.window > 0 && next.time > x.ms()-x.window.Milliseconds() {
			x.t.Errorf("%s, %d ms ago: %v", how, x.ms()-next.time, err)
		}
		return
	}
	x.must(err)
	defer s.Close()
	x.seen++
	x.wantAt(how, s, want.historyState)
}

func (x *historyModel) wantAt(how string, s *copal.Snapshot, want historyState) {
	t, ms := x.t, s.Time().UnixMilli()
	raw := x.db.Raw().At(s)
	is := map[string]string{}
	hashes := 0
	for k := range raw.Keys() {
		if k[0] == 'h' {
			hashes++
			continue
		}
		v, err := raw.Load(k)
		if key, of := strings.CutPrefix(string(k), "m:"); of {
			v, err = loaded(x.mapped().At(s), key)
		}
		if is[string(k)] = string(v); err != nil {
			t.Errorf("as of %s: %s: %v", how, k, err)
		}
	}
	if hashes != len(want.hashes) {
		t.Errorf("as of %s there are %d hashes, want %d", how, hashes, len(want.hashes))
	}
	has, inMap := map[string]string{}, 0
	for k, e := range want.values {
		if e.deadline == 0 || ms < e.deadline {
			if has[k] = e.text; strings.HasPrefix(k, "m:") {
				inMap++
			}
		}
	}
	if !maps.Equal(is, has) {
		t.Fatalf("as of %s, at %d, it has %s\nwant %s of %v", how, ms, short(is), short(has), want.values)
	}
	if n := x.mapped().At(s).Len(); n != inMap {
		t.Fatalf("as of %s the map has %d entries, want %d", how, n, inMap)
	}
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		v, ok := raw.Get([]byte(key))
		if w, exists := has[key]; ok != exists || string(v) != w {
			t.Fatalf("as of %s key %s is %.20q, %v, want %.20q", how, key, v, ok, w)
		}
	}
	for _, name := range []string{"h1", "h2"} {
		got := map[string]string{}
		h := raw.Hash([]byte(name))
		for f, v := range h.All() {
			got[f] = string(v)
		}
		if !maps.Equal(got, want.hashes[name]) || h.Len() != len(got) {
			t.Fatalf("as of %s hash %s is %s, of %d, want %s", how, name, short(got), h.Len(), short(want.hashes[name]))
		}
	}
}

func loaded(m *copal.Map[string, string], key string) ([]byte, error) {
	v, err := m.Load(key)
	return []byte(v), err
}

func short(m map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, "%s=%.12q ", k, m[k])
	}
	return b.String()
}
