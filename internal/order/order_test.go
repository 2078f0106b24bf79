package order_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/order"
	"github.com/copaldb/copal/internal/record"
)

// file is one in memory.
type file []byte

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	if need := int(off) + len(p); need > len(*f) {
		*f = append(*f, make([]byte, need-len(*f))...)
	}
	return copy((*f)[off:], p), nil
}

func (f *file) run(t testing.TB) *order.Run {
	t.Helper()
	r, err := order.Open(bytes.NewReader(*f), int64(len(*f)), 7, 8)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// runOf writes a run of the given marks: key → gone.
func runOf(t testing.TB, marks map[string]bool) (file, *order.Run) {
	t.Helper()
	var f file
	w := order.NewWriter(&f, 7, 8, false)
	for _, key := range slices.Sorted(maps.Keys(marks)) {
		if err := w.Add([]byte(key), marks[key], false); err != nil {
			t.Fatal(err)
		}
	}
	if h, err := w.Finish(); err != nil || h.Keys != int64(len(marks)) {
		t.Fatal(h, err)
	}
	return f, f.run(t)
}

// treeOf makes a tree of the given marks, in the order of rng.
func treeOf(rng *rand.Rand, marks map[string]bool) *order.Tree {
	t := new(order.Tree)
	keys := slices.Sorted(maps.Keys(marks))
	rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for _, key := range keys {
		t.Set([]byte(key), !marks[key])
		t.Set([]byte(key), marks[key])
	}
	return t
}

// item is an item of a walk as text.
func item(key string, gone bool) string { return key + " " + strconv.FormatBool(gone) }

func walked(t testing.TB, c order.Cursor) (list []string) {
	t.Helper()
	for c.Next() {
		list = append(list, item(string(c.Key()), c.Gone()))
	}
	if c.Next() {
		t.Fatal("a walk goes on behind its end")
	}
	if err := c.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

// expect returns the items of a walk over the marks.
func expect(marks map[string]bool, from []byte, down bool) []string {
	return expectOf(slices.Sorted(maps.Keys(marks)), marks, from, down)
}

// expectOf is expect for keys that are sorted already.
func expectOf(keys []string, marks map[string]bool, from []byte, down bool) (list []string) {
	for _, key := range keys {
		if from == nil || !down && key >= string(from) || down && key <= string(from) {
			list = append(list, item(key, marks[key]))
		}
	}
	if down {
		slices.Reverse(list)
	}
	return list
}

// randomMarks have keys that share beginnings, and now and then a long one.
func randomMarks(rng *rand.Rand, n int) map[string]bool {
	marks := map[string]bool{}
	for range n {
		key := strings.Repeat("ab", rng.IntN(4)) + fmt.Sprint(rng.IntN(2*n+1))
		switch rng.IntN(400) {
		case 0:
			key = strings.Repeat("ab", rng.IntN(30000))
		case 1:
			key = string([]byte{byte(rng.IntN(256)), byte(rng.IntN(256))})
		case 2:
			key = ""
		}
		marks[key] = rng.IntN(3) == 0
	}
	return marks
}

func check(t *testing.T, what string, l order.Layer, marks map[string]bool, rng *rand.Rand) {
	t.Helper()
	froms := [][]byte{nil, {}, []byte("\xff\xff\xff")}
	keys := slices.Sorted(maps.Keys(marks))
	for range 20 {
		if len(keys) > 0 {
			key := keys[rng.IntN(len(keys))]
			froms = append(froms, []byte(key), []byte(key+"\x00"), []byte(key[:len(key)/2]))
		}
	}
	for _, down := range []bool{false, true} {
		for _, from := range froms {
			got, want := walked(t, l.Walk(from, down)), expectOf(keys, marks, from, down)
			if !slices.Equal(got, want) {
				t.Fatalf("%s: %d marks walked from %.40q, down %v: %d are yielded, and should be %d", what, len(marks), from, down, len(got), len(want))
			}
		}
	}
}

func TestLayersAgreeWithTheModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 2, 62, 63, 64, 65, 500, 5000} {
		marks := randomMarks(rng, n)
		_, run := runOf(t, marks)
		check(t, "run", run, marks, rng)
		tree := treeOf(rng, marks)
		if tree.Len() != len(marks) {
			t.Errorf("a tree of %d marks has %d", len(marks), tree.Len())
		}
		check(t, "tree", tree, marks, rng)
		memory, err := order.InMemory(tree.Freeze().Walk(nil, false), false)
		if err != nil {
			t.Fatal(err)
		}
		check(t, "run in memory", memory, marks, rng)
	}
}

// A copy of a tree stays as it was, whatever becomes of the tree and of other copies.
func TestFrozenTreesStandStill(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	tree, marks := new(order.Tree), map[string]bool{}
	type copied struct {
		tree  *order.Tree
		marks map[string]bool
	}
	var copies []copied
	for i := range 6000 {
		key, gone := fmt.Sprint(rng.IntN(2000)), rng.IntN(2) == 0
		tree.Set([]byte(key), gone)
		marks[key] = gone
		if i%500 == 0 {
			copies = append(copies, copied{tree.Freeze(), maps.Clone(marks)})
		}
	}
	for i, c := range copies {
		if got := walked(t, c.tree.Walk(nil, false)); !slices.Equal(got, expect(c.marks, nil, false)) {
			t.Errorf("copy %d has changed", i)
		}
		c.tree.Set([]byte("more"), true) // it may go its own way, too
	}
	if got := walked(t, tree.Walk(nil, false)); !slices.Equal(got, expect(marks, nil, false)) {
		t.Error("the tree has changed with its copies")
	}
}

// A key handed over may be changed afterwards.
func TestTreesKeepTheirOwnKeys(t *testing.T) {
	tree, key := new(order.Tree), []byte("a")
	tree.Set(key, false)
	key[0] = 'b'
	if got := walked(t, tree.Walk(nil, false)); !slices.Equal(got, []string{item("a", false)}) {
		t.Error(got)
	}
}

func TestStacksAgreeWithTheModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 60 {
		marks := map[string]bool{}
		var layers []order.Layer
		for range rng.IntN(5) {
			more := randomMarks(rng, rng.IntN(300))
			maps.Copy(marks, more)
			var l order.Layer = treeOf(rng, more)
			if rng.IntN(2) == 0 {
				_, l = runOf(t, more)
			}
			layers = append([]order.Layer{l}, layers...)
		}
		there := maps.Clone(marks)
		maps.DeleteFunc(there, func(_ string, gone bool) bool { return gone })
		for _, down := range []bool{false, true} {
			for _, from := range [][]byte{nil, []byte("1"), []byte("ab2")} {
				if got := walked(t, order.Walk(layers, from, down, true)); !slices.Equal(got, expect(marks, from, down)) {
					t.Fatalf("%d layers: the marks are others", len(layers))
				}
				if got := walked(t, order.Walk(layers, from, down, false)); !slices.Equal(got, expect(there, from, down)) {
					t.Fatalf("%d layers: the keys are others", len(layers))
				}
			}
		}
	}
}

func TestSorterKeepsTheFirst(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, down := range []bool{false, true} {
		var keys []string
		for range 40000 {
			keys = append(keys, strings.Repeat("k", 20)+fmt.Sprint(rng.IntN(100000)))
		}
		want := slices.Compact(slices.Sorted(slices.Values(keys)))
		if down {
			slices.Reverse(want)
		}
		var got []string
		passes := 0
		for all := false; !all; passes++ {
			s := order.NewSorter(300000, down)
			for _, key := range keys {
				if n := len(got); n == 0 || !down && key > got[n-1] || down && key < got[n-1] {
					s.Add([]byte(key))
					if s.Bytes() > 300000 {
						t.Fatalf("it takes %d bytes", s.Bytes())
					}
				}
			}
			var c order.Cursor
			for c, all = s.Cursor(); c.Next(); {
				got = append(got, string(c.Key()))
			}
			if last := s.Last(); string(last) != got[len(got)-1] {
				t.Fatalf("the last is %q", last)
			}
		}
		if !slices.Equal(got, want) || passes < 3 {
			t.Errorf("%d keys after %d passes, and should be %d", len(got), passes, len(want))
		}
	}
}

func TestSorterMakesALayer(t *testing.T) {
	s := order.NewSorter(1<<20, false)
	for _, key := range []string{"b", "a", "c", "a", ""} {
		s.Add([]byte(key))
	}
	l, err := s.Layer()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{item("", false), item("a", false), item("b", false), item("c", false)}
	if got := walked(t, l.Walk(nil, false)); !slices.Equal(got, want) {
		t.Error(got)
	}
}

// Each flipped bit of a run is found by whoever opens it or walks through it.
func TestEveryBitOfARun(t *testing.T) {
	marks := map[string]bool{}
	for i := range 600 {
		marks[fmt.Sprintf("key %d", i)] = i%7 == 0
	}
	f, _ := runOf(t, marks)
	for i := range f {
		for bit := range 8 {
			if testing.Short() && (i*8+bit)%5 != 0 {
				continue
			}
			damaged := bytes.Clone(f)
			damaged[i] ^= 1 << bit
			r, err := order.Open(bytes.NewReader(damaged), int64(len(damaged)), 7, 8)
			if err == nil {
				c := r.Walk(nil, false)
				for c.Next() {
				}
				err = c.Err()
			}
			if !errors.Is(err, record.ErrChecksum) && !errors.Is(err, record.ErrSyntax) && !errors.Is(err, record.ErrVersion) && !errors.Is(err, record.ErrShort) {
				t.Fatalf("bit %d of byte %d is not missed: %v", bit, i, err)
			}
		}
	}
	for n := range f {
		if _, err := order.Open(bytes.NewReader(f[:n]), int64(n), 7, 8); err == nil {
			t.Fatalf("cut to %d bytes it opens", n)
		}
	}
}

func TestRunsOfOthersAreRefused(t *testing.T) {
	f, _ := runOf(t, map[string]bool{"a": false})
	for _, other := range [][2]uint64{{7, 9}, {8, 8}} {
		if _, err := order.Open(bytes.NewReader(f), int64(len(f)), other[0], other[1]); !errors.Is(err, record.ErrSyntax) {
			t.Errorf("store %d, run %d: %v", other[0], other[1], err)
		}
	}
}

// Failed writes are errors, and keys that do not ascend are a mistake of the caller.
func TestWriterTells(t *testing.T) {
	full := errors.New("full")
	w := order.NewWriter(writerFunc(func([]byte, int64) (int, error) { return 0, full }), 7, 8, true)
	w.Add([]byte("a"), false, true)
	if _, err := w.Finish(); err != full {
		t.Error(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("keys may stand still")
		}
	}()
	w = order.NewWriter(new(file), 7, 8, true)
	w.Add([]byte("a"), false, true)
	w.Add([]byte("a"), false, true)
}

type writerFunc func(p []byte, off int64) (int, error)

func (f writerFunc) WriteAt(p []byte, off int64) (int, error) { return f(p, off) }

// A read that fails ends the walk with its error, and the run can be read when that is over.
func TestReadErrors(t *testing.T) {
	f, _ := runOf(t, randomMarks(rand.New(rand.NewPCG(1, 1)), 3000))
	broken := false
	in := readerFunc(func(p []byte, off int64) (int, error) {
		if broken {
			return 0, io.ErrClosedPipe
		}
		return bytes.NewReader(f).ReadAt(p, off)
	})
	r, err := order.Open(in, int64(len(f)), 7, 8)
	if err != nil {
		t.Fatal(err)
	}
	broken = true
	if c := r.Walk(nil, false); c.Next() || c.Err() != io.ErrClosedPipe {
		t.Error(c.Err())
	}
	broken = false
	c := r.Walk(nil, false)
	c.Next()
	broken = true
	for c.Next() {
	}
	if c.Err() != io.ErrClosedPipe || c.Next() {
		t.Error(c.Err())
	}
	broken = false
	if n := len(walked(t, r.Walk(nil, true))); int64(n) != r.Keys() {
		t.Error(n)
	}
}

type readerFunc func(p []byte, off int64) (int, error)

func (f readerFunc) ReadAt(p []byte, off int64) (int, error) { return f(p, off) }

var update = flag.Bool("update", false, "rewrite the golden files")

// The bytes of a run are part of the format.
func TestGoldenRun(t *testing.T) {
	marks := map[string]bool{"": false, "\x7f\x80": true, "alice": false, "albert": false, "bob": true, "\x80": false, "\x81\x01": false, "\x81\x02": true}
	var f file
	w := order.NewWriter(&f, 7, 8, true)
	for _, key := range slices.Sorted(maps.Keys(marks)) {
		if err := w.Add([]byte(key), marks[key], !marks[key] && key < "b"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "golden.order")
	if *update {
		if err := os.WriteFile(path, f, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(f, want) {
		t.Errorf("the run is now\n%q\nand was\n%q, %v", f, want, err)
	}
}

// Keys ascend from block to block as well, whatever the checksums say.
func TestBlocksThatOverlap(t *testing.T) {
	marks := map[string]bool{}
	for i := range 2000 {
		marks[fmt.Sprintf("%05d", i*37%99991)] = false
	}
	f, _ := runOf(t, marks)
	list := f.run(t).Title().List
	for at := int64(256 + 4000); at < 256+4300; at++ { // about the end of the first block
		forged := bytes.Clone(f[:])
		forged[at] = '9'
		r, err := order.OpenUnsealed(forged)
		if err != nil || at >= list {
			t.Fatal(err)
		}
		var last []byte
		for c := r.Walk(nil, false); c.Next(); last = append(last[:0], c.Key()...) {
			if bytes.Compare(last, c.Key()) >= 0 {
				t.Fatalf("with byte %d changed, %q comes after %q", at, c.Key(), last)
			}
		}
	}
}

// Layers know how many keys they show before any key, however the keys came, went, were folded and copied.
func TestLayersCount(t *testing.T) {
	defer order.SetRebuildFrom(order.SetRebuildFrom(50))
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 31))
		has := map[string]bool{}
		tree := new(order.Tree)
		var small, base *order.Run
		fold := func(c order.Cursor) *order.Run {
			var f file
			w := order.NewWriter(&f, 7, 8, true)
			if err := w.AddAll(c); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Finish(); err != nil {
				t.Fatal(err)
			}
			return f.run(t)
		}
		layers := func() (list []order.Layer) {
			list = append(list, tree.Freeze())
			for _, r := range []*order.Run{small, base} {
				if r != nil {
					list = append(list, r)
				}
			}
			return list
		}
		most, steps, folds := 800, 4000, 300
		if seed == 0 { // a tree of three levels
			most, steps, folds = 12000, 60000, 1<<30
		}
		for i := range steps {
			key := fmt.Sprint(rng.IntN(1 + rng.IntN(most)))
			switch {
			case has[key]:
				tree.Went([]byte(key))
				delete(has, key)
			default:
				tree.Came([]byte(key))
				has[key] = true
			}
			switch all := layers(); rng.IntN(folds) {
			case 0:
				base, small, tree = fold(order.Walk(all, nil, false, false)), nil, new(order.Tree)
			case 1, 2:
				if base != nil {
					all = all[:len(all)-1]
				}
				small, tree = fold(order.Walk(all, nil, false, true)), new(order.Tree)
			}
			if i%(steps/41) != 0 {
				continue
			}
			keys := slices.Sorted(maps.Keys(has))
			for range 20 {
				key := fmt.Sprint(rng.IntN(most + 100))
				want, _ := slices.BinarySearch(keys, key)
				got, ok, err := order.Before(layers(), []byte(key))
				if err != nil || !ok || got != int64(want) {
					t.Fatalf("seed %d, step %d: %d keys before %s, %v, %v, and there are %d", seed, i, got, key, ok, err, want)
				}
			}
		}
		keys := slices.Sorted(maps.Keys(has))
		for n := range len(keys) {
			from, to, err := order.Find(layers(), nil, []byte("x"), int64(n))
			if err != nil || from.Before > int64(n) || to.Before < int64(n) || to.Before-from.Before > 400 {
				t.Fatalf("seed %d: key %d is found between %d and %d, %v", seed, n, from.Before, to.Before, err)
			}
			if b := from.Before; string(keys[b]) < string(from.Key) || b > 0 && keys[b-1] >= string(from.Key) {
				t.Fatalf("seed %d: key %d, before which there are %d, is said to come behind %s", seed, n, b, from.Key)
			}
		}
		tree.Came([]byte("y"))
		tree.Came([]byte("y")) // a mark that is made twice is one
		if n, ok, err := order.Before(layers(), []byte("z")); n != int64(len(has)+1) || !ok || err != nil {
			t.Errorf("%d keys, %v, %v, and there are %d", n, ok, err, len(has)+1)
		}
		tree.Set([]byte("x"), true)
		if _, ok, _ := order.Before(layers(), []byte("x")); ok {
			t.Error("a tree that does not know what the layers below show is counted")
		}
	}
}

// Whatever the bytes, opening and walking end without a panic, and the yielded keys ascend.
func FuzzRun(f *testing.F) {
	small, _ := runOf(f, map[string]bool{"": false, "a": true, "ab": false, "b": false})
	f.Add([]byte(small))
	large, _ := runOf(f, randomMarks(rand.New(rand.NewPCG(1, 1)), 300))
	f.Add([]byte(large))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := order.OpenUnsealed(b)
		if err != nil {
			return
		}
		for _, down := range []bool{false, true} {
			var last []byte
			n := int64(0)
			c := r.Walk(nil, down)
			for ; c.Next(); n++ {
				if order := bytes.Compare(last, c.Key()); n > 0 && (order >= 0) != down {
					t.Fatalf("%q comes after %q", c.Key(), last)
				}
				last = append(last[:0], c.Key()...)
			}
			if c.Err() == nil && n != r.Keys() {
				t.Fatalf("%d keys, the first line says %d", n, r.Keys())
			}
		}
	})
}
