package collections

import (
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
)

// Count and KeysBetween of a hash agree with Between, for fields of any type, in both directions,
// by each handle.
func TestFieldsBetween(t *testing.T) {
	db := kit.Memory(t)
	numbers := must2(copal.OpenHash[int, int](db, "numbers"))(t)
	names := must2(copal.OpenHash[string, int](db, "names"))(t)
	r := rand.New(rand.NewPCG(1, 2))
	name := func() string { return string([]byte{byte('a' + r.IntN(26)), byte('a' + r.IntN(3))}) }
	for range 60 {
		kit.Must(t, numbers.Set(r.IntN(2000)-1000, 1))
		kit.Must(t, names.Set(name(), 1))
	}
	s := must2(db.Snapshot())(t)
	defer s.Close()
	kit.Must(t, db.Update(func(tx *copal.Tx) error {
		for range 20 {
			if _, err := names.In(tx).Delete(name()); err != nil {
				return err
			}
		}
		if err := names.In(tx).Set("m", 1); err != nil {
			return err
		}
		compareFields(t, "in a transaction", names.In(tx), name)
		return nil
	}))
	number := func() int { return r.IntN(2400) - 1200 }
	compareFields(t, "numbers", numbers, number)
	compareFields(t, "numbers backward", numbers.Backward(), number)
	compareFields(t, "names", names, name)
	compareFields(t, "names backward", names.Backward(), name)
	compareFields(t, "names then", names.At(s), name)
	compareFields(t, "nothing", must2(copal.OpenHash[string, int](db, "none"))(t), name)
}

func compareFields[F comparable](t *testing.T, what string, h *copal.HashOf[F, int], field func() F) {
	t.Helper()
	for range 100 {
		from, to := field(), field()
		var want []F
		for f := range h.Between(from, to) {
			want = append(want, f)
		}
		if got := slices.Collect(h.KeysBetween(from, to)); !slices.Equal(got, want) {
			t.Errorf("%s, [%v, %v): keys %v, want %v", what, from, to, got, want)
		}
		if got := h.Count(from, to); got != len(want) {
			t.Errorf("%s, [%v, %v): %d fields, want %d", what, from, to, got, len(want))
		}
	}
}

// Ranked is a part of All, for fields and members of any type, in both directions, by each handle.
func TestRankedIsAPartOfAll(t *testing.T) {
	db := kit.Memory(t)
	numbers := must2(copal.OpenHash[int, int](db, "numbers"))(t)
	names := must2(copal.OpenHash[string, int](db, "names"))(t)
	set := must2(copal.OpenSet[string](db, "set"))(t)
	times := must2(copal.OpenSet[float64](db, "times"))(t)
	scores := must2(copal.OpenSortedSet[string](db, "scores"))(t)
	r := rand.New(rand.NewPCG(1, 1))
	name := func(n int) string { return string([]byte{byte('a' + n%26), byte('a' + n/26)}) }
	for range 60 {
		n := r.IntN(200)
		kit.Must(t, numbers.Set(n, n))
		kit.Must(t, names.Set(name(n), n))
		kit.Must(t, scores.Set(name(n), float64(n%7)))
		_, err := set.Add(name(n))
		kit.Must(t, err)
		_, err = times.Add(float64(n) / 3)
		kit.Must(t, err)
	}
	s := must2(db.Snapshot())(t)
	defer s.Close()
	kit.Must(t, db.Update(func(tx *copal.Tx) error {
		if _, err := names.In(tx).Delete(name(1), name(2), name(3)); err != nil {
			return err
		}
		if err := names.In(tx).Set("0", 7); err != nil {
			return err
		}
		comparePairs(t, r, "in a transaction", names.In(tx).All(), names.In(tx).Ranked)
		return nil
	}))
	comparePairs(t, r, "numbers", numbers.All(), numbers.Ranked)
	comparePairs(t, r, "numbers backward", numbers.Backward().All(), numbers.Backward().Ranked)
	comparePairs(t, r, "names", names.All(), names.Ranked)
	comparePairs(t, r, "names backward", names.Backward().All(), names.Backward().Ranked)
	comparePairs(t, r, "names then", names.At(s).All(), names.At(s).Ranked)
	comparePairs(t, r, "a set", keyed(set.All()), func(from, to int) iter.Seq2[string, int] { return keyed(set.Ranked(from, to)) })
	comparePairs(t, r, "a set backward", keyed(set.Backward().All()), func(from, to int) iter.Seq2[string, int] { return keyed(set.Backward().Ranked(from, to)) })
	comparePairs(t, r, "times", keyed(times.All()), func(from, to int) iter.Seq2[float64, int] { return keyed(times.Ranked(from, to)) })

	// Counts of scores, and members by their names.
	for range 200 {
		from, to := float64(r.IntN(10)-1), float64(r.IntN(10)-1)
		n := 0
		for range scores.Between(from, to) {
			n++
		}
		if got := scores.Count(from, to); got != n {
			t.Errorf("from %v to %v: %d members, and Count says %d", from, to, n, got)
		}
	}
	if got := scores.Count(math.Inf(-1), math.Inf(1)); got != scores.Len() {
		t.Errorf("%d of %d", got, scores.Len())
	}
	if got := scores.Count(math.NaN(), 1) + scores.Count(0, math.NaN()); got != 0 {
		t.Errorf("%d members at NaN", got)
	}
	var all []string
	for m := range scores.All() {
		all = append(all, m)
	}
	slices.Sort(all)
	for _, from := range []string{"", "m", all[3], "zz"} {
		var got []string
		for m, score := range scores.MembersFrom(from) {
			if now, ok := scores.Get(m); now != score || !ok {
				t.Errorf("%s has %v, and %v", m, score, now)
			}
			got = append(got, m)
		}
		at, _ := slices.BinarySearch(all, from)
		if !slices.Equal(got, all[at:]) {
			t.Errorf("from %q: %q, want %q", from, got, all[at:])
		}
	}
}

func must2[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		kit.Must(t, err)
		return v
	}
}

func keyed[K any](keys iter.Seq[K]) iter.Seq2[K, int] {
	return func(yield func(K, int) bool) {
		for k := range keys {
			if !yield(k, 0) {
				return
			}
		}
	}
}

func comparePairs[K comparable](t *testing.T, r *rand.Rand, what string, all iter.Seq2[K, int], ranked func(from, to int) iter.Seq2[K, int]) {
	t.Helper()
	type pair struct {
		key   K
		value int
	}
	gather := func(seq iter.Seq2[K, int]) (list []pair) {
		for k, v := range seq {
			list = append(list, pair{k, v})
		}
		return list
	}
	whole := gather(all)
	if len(whole) < 20 {
		t.Fatalf("%s: there are %d", what, len(whole))
	}
	for range 100 {
		from, to := r.IntN(len(whole)+6)-3, r.IntN(len(whole)+6)-3
		low := min(max(from, 0), len(whole))
		high := max(min(max(to, 0), len(whole)), low)
		if got := gather(ranked(from, to)); !slices.Equal(got, whole[low:high]) {
			t.Fatalf("%s: %d to %d: %v, want %v", what, from, to, got, whole[low:high])
		}
	}
}
