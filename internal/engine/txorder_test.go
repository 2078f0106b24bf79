package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/order"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// orderedTx is a store with three maps, of which m is kept in order, and raw keys, and its content.
type orderedTx struct {
	t       *testing.T
	rng     *rand.Rand
	s       *Store
	content map[string]string
}

func newOrderedTx(t *testing.T, seed uint64) *orderedTx {
	o := &orderedTx{t: t, rng: rand.New(rand.NewPCG(seed, 71)), s: mustOpen(t, vfs.NewMem(), func(o *Options) { o.SegmentBytes = 3000 }), content: map[string]string{}}
	t.Cleanup(func() { o.s.Close() })
	for _, name := range []string{"m", "n"} {
		if _, err := o.s.Map(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.s.Order(o.s.spaces[0].maps["m"], keycodec.BytesOrder); err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		key := o.key()
		mustSet(t, o.s, key, fmt.Sprint(i))
		o.content[key] = fmt.Sprint(i)
	}
	return o
}

func (o *orderedTx) key() string {
	return []string{"m:", "n:", ""}[o.rng.IntN(3)] + fmt.Sprint(o.rng.IntN(60))
}

// span is any span of keys that begin with prefix, which they may do without.
func (o *orderedTx) span(prefix string) Span {
	bound := func() []byte {
		if o.rng.IntN(4) == 0 {
			return nil
		}
		return fmt.Append(nil, prefix, o.rng.IntN(60))
	}
	return Span{Low: bound(), High: bound(), LowOpen: o.rng.IntN(2) == 0, HighOpen: o.rng.IntN(2) == 0, Down: o.rng.IntN(2) == 0}
}

// spanned are the keys of a span that begin with prefix, in its order.
func spanned[V any](content map[string]V, prefix string, sp Span) (keys []string) {
	for _, key := range slices.Sorted(maps.Keys(content)) {
		own, has := strings.CutPrefix(key, prefix)
		if !has || sp.Low != nil && (own < string(sp.Low) || sp.LowOpen && own == string(sp.Low)) || sp.High != nil && (own > string(sp.High) || sp.HighOpen && own == string(sp.High)) {
			continue
		}
		keys = append(keys, key)
	}
	if sp.Down {
		slices.Reverse(keys)
	}
	return keys
}

// walk is a walk of a transaction over the keys of a map, or of the whole keys with "".
func (o *orderedTx) walk(tx *Tx, prefix string, sp Span, values bool, yield func(key, value string) bool) {
	items := tx.Scan(sp, true)
	if prefix != "" {
		items = tx.InOrder(o.s.spaces[0].maps[strings.TrimSuffix(prefix, ":")], keycodec.BytesOrder, sp, values)
	}
	for item := range items {
		if item.Err != nil {
			o.t.Fatal(item.Err)
		}
		if !yield(string(item.Key), string(item.Value)) {
			return
		}
	}
}

// TestTxOrder: a transaction goes through keys in order, up and down, over any span, with its own writes, also
// those in the loop.
func TestTxOrder(t *testing.T) {
	for seed := uint64(1); seed <= 8; seed++ {
		o := newOrderedTx(t, seed)
		err := o.s.Transact(Process, func(tx *Tx) error {
			now := maps.Clone(o.content)
			change := func(key string) {
				if o.rng.IntN(3) == 0 {
					delete(now, key)
					if _, err := tx.Delete(nil, nil, []byte(key)); err != nil {
						t.Fatal(err)
					}
					return
				}
				now[key] = fmt.Sprint("new", o.rng.IntN(1000))
				if err := tx.Write(nil, &Write{Key: []byte(key), Value: []byte(now[key])}); err != nil {
					t.Fatal(err)
				}
			}
			for range 60 {
				change(o.key())
				prefix := []string{"m:", "n:", ""}[o.rng.IntN(3)]
				sp, values := o.span(prefix), o.rng.IntN(2) == 0
				if prefix != "" {
					sp = o.span("")
				}
				for range 2 { // a walk may be made twice
					want := spanned(now, prefix, sp)
					n := 0
					o.walk(tx, prefix, sp, values, func(key, value string) bool {
						if n >= len(want) || key != want[n] || (values || prefix == "") && value != now[key] {
							t.Fatalf("seed %d, %q, %+v: %q, %q comes in the place of %q", seed, prefix, sp, key, value, want[n:])
						}
						n++
						if n < len(want) && o.rng.IntN(10) == 0 { // of the next key
							if key := want[n]; o.rng.IntN(2) == 0 {
								now[key] = "changed"
								if err := tx.Write(nil, &Write{Key: []byte(key), Value: []byte("changed")}); err != nil {
									t.Fatal(err)
								}
							} else if _, err := tx.Delete(nil, nil, []byte(key)); err != nil {
								t.Fatal(err)
							} else {
								delete(now, key)
								want = slices.Delete(want, n, n+1)
							}
						}
						return n < 1000
					})
					if n != len(want) {
						t.Fatalf("seed %d, %q, %+v: %d keys come, want %q", seed, prefix, sp, n, want)
					}
				}
			}
			o.content = now
			for _, items := range []func(func(Item) bool){tx.Scan(Span{}, true), tx.InOrder(o.s.spaces[0].maps["m"], keycodec.BytesOrder, Span{}, true)} {
				var n [3]int // a walk that is left early, and made again
				for i := range n {
					for range items {
						if n[i]++; i == 1 {
							break
						}
					}
				}
				if n[0] != n[2] || n[1] != 1 {
					t.Errorf("a walk comes by %d keys, left early and made again", n)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		o.s.wantSame(t, o.content)
	}
}

// TestTxRanges: a change, of a key that was there, that was not, or that goes, is a conflict with a walk over
// the range that the key is in, up to where the walk was left, and with no other.
func TestTxRanges(t *testing.T) {
	conflicts := 0
	for seed := uint64(1); seed <= 150; seed++ {
		o := newOrderedTx(t, seed)
		prefix := []string{"m:", "n:", ""}[o.rng.IntN(3)]
		sp := o.span("")
		if prefix == "" {
			sp = o.span([]string{"m:", "n:", ""}[o.rng.IntN(3)])
		}
		all := spanned(o.content, prefix, sp)
		most := 1 + o.rng.IntN(8)
		other := o.key()
		if len(all) > 0 && o.rng.IntN(3) > 0 { // near where the walk is left
			other = all[o.rng.IntN(min(len(all), 2*most))]
		}
		runs := 0
		err := o.s.Transact(Process, func(tx *Tx) error {
			if runs++; runs > 2 {
				return errors.New("it never comes through")
			}
			if err := tx.Write(nil, &Write{Key: []byte("written"), Value: []byte("1")}); err != nil {
				return err
			}
			n := 0
			o.walk(tx, prefix, sp, o.rng.IntN(2) == 0, func(key, _ string) bool { n++; return n < most })
			if runs == 1 {
				return inAnotherGoroutine(func() error {
					if _, there := o.content[other]; there && o.rng.IntN(2) == 0 {
						_, err := o.s.Delete(nil, []byte(other), Process)
						return err
					}
					return o.s.Set(nil, []byte(other), []byte("other"), 0, Process)
				})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if prefix == "" { // where the transaction's own key comes by, too
			all = append(all, spanned(map[string]string{"written": ""}, "", sp)...)
			slices.Sort(all)
			if sp.Down {
				slices.Reverse(all)
			}
		}
		conflict := len(spanned(map[string]string{other: ""}, prefix, sp)) > 0
		if most <= len(all) {
			last := all[most-1]
			conflict = conflict && (!sp.Down && other <= last || sp.Down && other >= last)
		}
		if conflict != (runs == 2) {
			t.Errorf("seed %d: %d keys of %q in %+v were seen of %q, %q has changed, and it ran %d times", seed, most, prefix, sp, all, other, runs)
		}
		if conflict {
			conflicts++
		}
	}
	if conflicts < 20 || conflicts > 130 {
		t.Errorf("%d conflicts: this has tested nothing", conflicts)
	}
}

func inAnotherGoroutine(f func() error) error {
	done := make(chan error)
	go func() { done <- f() }()
	return <-done
}

// queueTx is a transaction over an ordered map of numbers, and the map's content.
type queueTx struct {
	t     *testing.T
	tx    *Tx
	table *Table
	has   map[string]bool
}

// queueOf calls f with a transaction over a map with n keys, of which a part is in files of keys and another in
// the tree.
func queueOf(t *testing.T, n int, f func(q *queueTx)) {
	t.Helper()
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	table, err := s.Map("m")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Order(table, keycodec.BytesOrder); err != nil {
		t.Fatal(err)
	}
	q := &queueTx{t: t, table: table, has: map[string]bool{}}
	for i := range n {
		q.has[fmt.Sprintf("%05d", i)] = true
		mustSet(t, s, fmt.Sprintf("m:%05d", i), "1")
	}
	if err := s.Transact(Process, func(tx *Tx) error { q.tx = tx; f(q); return nil }); err != nil {
		t.Fatal(err)
	}
}

func (q *queueTx) put(own string) {
	q.has[own] = true
	if err := q.tx.Write(nil, &Write{Key: []byte("m:" + own), Value: []byte("2")}); err != nil {
		q.t.Fatal(err)
	}
}

// peek returns the first key of a span, "" for none.
func (q *queueTx) peek(sp Span) (own string) {
	for item := range q.tx.InOrder(q.table, keycodec.BytesOrder, sp, true) {
		if item.Err != nil {
			q.t.Fatal(item.Err)
		}
		return strings.TrimPrefix(string(item.Key), "m:")
	}
	return ""
}

// pop deletes the first key of a span, and returns it, "" for none.
func (q *queueTx) pop(sp Span) (own string) {
	if own = q.peek(sp); own != "" {
		delete(q.has, own)
		if _, err := q.tx.Delete(nil, nil, []byte("m:"+own)); err != nil {
			q.t.Fatal(err)
		}
	}
	return own
}

// first returns the expected first key of a span.
func (q *queueTx) first(sp Span) string {
	if keys := spanned(q.has, "", sp); len(keys) > 0 {
		return keys[0]
	}
	return ""
}

// TestTxQueue: a transaction that takes the first, or the last, again and again does not step over all that it
// has taken before, and its walks are one range in the end.
func TestTxQueue(t *testing.T) {
	const n = 600
	for name, c := range map[string]struct {
		span Span
		push func(i int) string // after each that goes; "" for nothing
	}{
		"first":                    {Span{}, nil},
		"last":                     {Span{Down: true}, nil},
		"first of a part":          {Span{Low: []byte("00200"), High: []byte("00500")}, nil},
		"last of a part":           {Span{Low: []byte("00200"), High: []byte("00500"), HighOpen: true, Down: true}, nil},
		"first, pushed at the end": {Span{}, func(i int) string { return fmt.Sprintf("9%05d", i) }},
		"last, pushed in front":    {Span{Down: true}, func(i int) string { return fmt.Sprintf("0000/%05d", n-i) }},
		"a stack":                  {Span{Down: true}, func(i int) string { return []string{"", fmt.Sprintf("9%05d", i)}[i%4/3] }},
		"put back in front":        {Span{}, func(i int) string { return []string{"", "00000"}[i%50/49] }},
	} {
		queueOf(t, n, func(q *queueTx) {
			gone := 0
			defer func(f func()) { passedOver = f }(passedOver)
			passedOver = func() { gone++ }
			for i := range n {
				want := q.first(c.span)
				if got := q.pop(c.span); got != want {
					t.Fatalf("%s: %q comes in the place of %q", name, got, want)
				}
				if c.push != nil {
					if own := c.push(i); own != "" {
						q.put(own)
					}
				}
			}
			if gone > 20*n {
				t.Errorf("%s: %d walks have stepped over %d keys that were gone", name, n, gone)
			}
			if len(q.tx.scans) != 1 {
				t.Errorf("%s: the walks are noted as %d ranges", name, len(q.tx.scans))
			}
		})
	}
}

// TestTxWalksOfNothing: where a transaction has deleted all, only its first walk steps over that.
func TestTxWalksOfNothing(t *testing.T) {
	for _, sp := range []Span{{}, {Down: true}, {Low: []byte("00100"), High: []byte("00200")}, {Low: []byte("00100"), High: []byte("00200"), Down: true}} {
		queueOf(t, 300, func(q *queueTx) {
			for i := range 300 {
				if _, err := q.tx.Delete(nil, nil, fmt.Appendf(nil, "m:%05d", i)); err != nil {
					t.Fatal(err)
				}
			}
			gone := 0
			defer func(f func()) { passedOver = f }(passedOver)
			passedOver = func() { gone++ }
			for range 100 {
				if got := q.peek(sp); got != "" {
					t.Fatalf("%+v: there is %q", sp, got)
				}
			}
			if gone > 500 {
				t.Errorf("%+v: 100 walks have stepped over %d keys that were gone", sp, gone)
			}
			q.put("00150")
			if got := q.peek(sp); got != "00150" {
				t.Errorf("%+v: %q is in the place of what was set since", sp, got)
			}
		})
	}
}

// TestTxQueueAgainstAModel: whatever keys a transaction deletes, and sets again in known gaps, its walks yield
// the existing ones.
func TestTxQueueAgainstAModel(t *testing.T) {
	for seed := uint64(1); seed <= 6; seed++ {
		rng := rand.New(rand.NewPCG(seed, 8))
		queueOf(t, 400, func(q *queueTx) {
			spans := []Span{{}, {Down: true}, {Low: []byte("00100"), High: []byte("00300"), LowOpen: true}, {Low: []byte("00100"), High: []byte("00300"), Down: true}}
			for i := range 800 {
				sp := spans[rng.IntN(len(spans))]
				if got, want := q.peek(sp), q.first(sp); got != want {
					t.Fatalf("seed %d, step %d, %+v: %q is in the place of %q", seed, i, sp, got, want)
				}
				switch rng.IntN(12) {
				case 0:
					q.put(fmt.Sprintf("%05d", rng.IntN(400)))
				case 1:
					sp.Low = fmt.Appendf(nil, "%05d", rng.IntN(400))
					fallthrough
				default:
					want := q.first(sp)
					if got := q.pop(sp); got != want {
						t.Fatalf("seed %d, step %d, %+v: %q comes in the place of %q", seed, i, sp, got, want)
					}
				}
				if i%50 == 0 {
					all := spanned(q.has, "", sp)
					for item := range q.tx.InOrder(q.table, keycodec.BytesOrder, sp, false) {
						if len(all) == 0 || "m:"+all[0] != string(item.Key) {
							t.Fatalf("seed %d, step %d, %+v: %q comes in the place of %q", seed, i, sp, item.Key, all)
						}
						all = all[1:]
					}
					if len(all) > 0 {
						t.Fatalf("seed %d, step %d, %+v: %q do not come", seed, i, sp, all)
					}
				}
			}
		})
	}
}

// TestTxOrderEnds: with the transaction.
func TestTxOrderEnds(t *testing.T) {
	o := newOrderedTx(t, 1)
	var ended *Tx
	if err := o.s.Transact(Process, func(tx *Tx) error { ended = tx; return nil }); err != nil {
		t.Fatal(err)
	}
	for _, items := range []func(func(Item) bool){ended.Scan(Span{}, true), ended.InOrder(o.s.spaces[0].maps["m"], keycodec.BytesOrder, Span{}, true)} {
		n := 0
		for item := range items {
			if n++; item.Err != ErrTxDone {
				t.Errorf("a walk of a transaction that has ended: %v", item.Err)
			}
		}
		if n != 1 {
			t.Errorf("a walk of a transaction that has ended comes by %d", n)
		}
	}
}

// TestTxLargeValues: a transaction writes large values to the log at once, so memory has none of them. They are
// read and replaced in the transaction, all count when it commits, and of one that fails, has a conflict or
// dies nothing does.
func TestTxLargeValues(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 4 << 20 })
	value := func(i, round int) string {
		return logtest.Numbered(seglog.PartBytes+1+100*i, fmt.Sprint(round, "/", i))
	}
	mustSet(t, s, "key 0", "old")
	content := map[string]string{"key 0": "old"}
	failed := errors.New("failed")
	for round, fails := range []error{failed, nil} {
		runs := 0
		err := s.Transact(Process, func(tx *Tx) error {
			if runs++; runs == 1 { // a conflict
				if _, err := tx.Get(nil, []byte("counter")); err != ErrNotFound && round == 0 {
					t.Errorf("Get: %v", err)
				}
				if err := inAnotherGoroutine(func() error { return s.Set(nil, []byte("counter"), fmt.Append(nil, round), 0, Process) }); err != nil {
					return err
				}
				content["counter"] = fmt.Sprint(round)
			}
			for i := range 2 {
				for _, now := range []string{logtest.Numbered(2*seglog.PartBytes, "replaced"), value(i, round)} {
					if err := tx.Write(nil, &Write{Key: fmt.Append(nil, "key ", i), Value: []byte(now)}); err != nil {
						return err
					}
				}
			}
			if tx.bytes > seglog.PartBytes {
				t.Errorf("the transaction has %d bytes in memory", tx.bytes)
			}
			for i := range 2 {
				if e, err := tx.Get(nil, fmt.Append(nil, "key ", i)); err != nil || string(e.Value) != value(i, round) {
					t.Errorf("key %d has %d bytes in the transaction: %v", i, len(e.Value), err)
				}
			}
			n := 0
			for item := range tx.Scan(PrefixSpan([]byte("key")), true) {
				if item.Err != nil || string(item.Value) != value(n, round) {
					t.Errorf("%q has %d bytes: %v", item.Key, len(item.Value), item.Err)
				}
				n++
			}
			if fails != nil { // it dies
				again := mustOpen(t, mem.ProcessCrash())
				again.wantSame(t, content)
				mustClose(t, again)
				return fails
			}
			return inAnotherGoroutine(func() error { return s.Compact(context.Background(), nil) })
		})
		if err != fails || fails == nil && runs != 2 {
			t.Errorf("the transaction ran %d times: %v", runs, err)
		}
		if fails == nil {
			for i := range 2 {
				content[fmt.Sprint("key ", i)] = value(i, round)
			}
		}
		s.wantSame(t, content)
		if len(s.log.Parts) > 0 {
			t.Error("there are parts under way")
		}
	}
	if err := s.Compact(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); st.LogBytes > 3*seglog.PartBytes {
		t.Errorf("%d bytes remain of 2 values", st.LogBytes)
	}
	mustClose(t, s)
	s = mustOpen(t, mem)
	defer s.Close()
	s.wantSame(t, content)
}

// The loop over deleted keys of a transaction sets one of them: the next walk yields it.
func TestTxSetsDuringAWalkWhatItDeleted(t *testing.T) {
	for _, down := range []bool{false, true} {
		s, raw := orderedRaw(t)
		mustSet(t, s, "a", "1")
		mustSet(t, s, "c", "1")
		for i := range 2 * order.ManyGone {
			mustSet(t, s, fmt.Sprintf("b%02d", i), "1")
		}
		if err := s.Transact(Process, func(tx *Tx) error {
			for i := range 2 * order.ManyGone {
				if _, err := tx.Delete(nil, nil, fmt.Appendf(nil, "b%02d", i)); err != nil {
					return err
				}
			}
			for round := range 2 {
				var got []string
				for item := range tx.InOrder(raw, keycodec.BytesOrder, Span{Down: down}, true) {
					if item.Err != nil {
						return item.Err
					}
					if got = append(got, string(item.Key)); round == 0 && len(got) == 1 {
						if err := tx.Write(nil, &Write{Key: []byte("b05"), Value: []byte("2")}); err != nil {
							return err
						}
					}
				}
				if round == 1 && len(got) != 3 {
					t.Errorf("down %v: the next walk yields %v, want a, b05 and c", down, got)
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}
