package linear

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

// Many short histories of a few goroutines on a few keys, each checked for an order of its
// operations that explains all their results. Values, keys, codecs, and the memory for decoded
// values vary: with little of it, cells come and go all the time.
//
// COPAL_LONG=1 checks many more.
//
// That the test would notice was tried by breaking the code. Each of these was caught, within the
// time of a default run:
//
//   - Publish without the question whether the index still has the address: a reader brings back a
//     value that has been replaced.
//   - A cell that is dirty, or for memory alone, counts as evictable: acknowledged values vanish.
//   - A synchronous write leaves a dirty cell in place: the old value is shown, and lands after
//     the new one.
//   - settle does not write a deletion that the log does not know: raw reads see the entry.
//   - An update commits without comparing versions: updates are lost.
//   - Compaction moves an entry that has been overwritten meanwhile: readers find a replaced
//     value.
//   - Written makes the cell clean without the new address: readers find the record before.
//   - A transaction commits though an entry that it has read waits to be written; a snapshot does
//     not have it written first.
//
// Deadlines are not part of it. The clock would be part of the state of each key, and as a call may
// read it more than once, many orders would be right; TestExpiryModel is about them, one operation
// after the other.
func TestLinearizable(t *testing.T) {
	var all []shape
	for _, c := range []codec.Codec{codec.JSON, codec.Binary} {
		all = append(all,
			newShape[string, flat](c, "string keys, flat values", func(i int) string { return fmt.Sprint("key ", i) }, flatOf),
			newShape[string, list](c, "string keys, slices", func(i int) string { return fmt.Sprint("key ", i) }, listOf),
			newShape[float64, flat](c, "float keys, flat values", someFloat, flatOf),
			newShape[time.Time, list](c, "times, slices", someTime, listOf))
	}
	rounds := 12
	if os.Getenv("COPAL_LONG") == "1" {
		rounds = 5000
	}
	var histories, operations int
	began := time.Now()
	for r := range rounds {
		for i, s := range all {
			for _, memory := range []int64{1, 600, 2500, 1 << 20} {
				seed := uint64(r)<<32 | uint64(i)<<16 | uint64(memory)
				history := s.run(t, rand.New(rand.NewPCG(seed, seed)), memory)
				if !porcupine.CheckOperations(model, history) {
					t.Errorf("%s, %s, %d bytes of memory, seed %d: no order explains", s.codec.Name(), s.what, memory, seed)
					explain(t, history)
				}
				if t.Failed() {
					t.FailNow()
				}
				histories++
				operations += len(history)
			}
		}
	}
	took := time.Since(began)
	t.Logf("%d histories of %d operations, %.0f histories a second", histories, operations, float64(histories)/took.Seconds())
}

// explain prints the operations of the keys for which there is no order.
func explain(t *testing.T, history []porcupine.Operation) {
	for _, part := range model.Partition(history) {
		if porcupine.CheckOperations(model, part) {
			continue
		}
		slices.SortFunc(part, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
		for _, o := range part {
			t.Logf("%4d–%4d, goroutine %d: %s", o.Call, o.Return, o.ClientId, describe(o.Input.(input), o.Output.(output)))
		}
	}
}

// flat is a value that is kept as given.
type flat struct {
	N    value
	Text string
}

func flatOf(n value) flat    { return flat{n, strings.Repeat("x", int(n)%40)} }
func (f flat) number() value { return f.N }
func (f flat) whole() bool   { return f == flatOf(f.N) }

// list is one that is not.
type list []value

func listOf(n value) list {
	l := list{n}
	for range n % 5 {
		l = append(l, n)
	}
	return l
}

func (l list) number() value { return l[0] }
func (l list) whole() bool   { return slices.Equal(l, listOf(l[0])) }

// someFloat gives one key in forms that are other floats: all NaN, and both zeros.
func someFloat(i int) float64 {
	switch i {
	case 0:
		if rand.IntN(2) == 0 {
			return math.Copysign(0, -1)
		}
		return 0
	case 1:
		return math.Float64frombits(0x7ff8000000000000 + rand.Uint64N(5))
	}
	return float64(i) + 0.5
}

// someTime gives one key in forms that are other times: of one instant in several places.
func someTime(i int) time.Time {
	return time.Unix(int64(i), 5).In(time.FixedZone("", 3600*rand.IntN(12)))
}

// maxKeys is the number of keys in a history, at most. The number of a write, modulo this, is its
// key.
const maxKeys = 4

type numbered interface {
	number() value
	whole() bool
}

// shape is one kind of map, with its types put away.
type shape struct {
	codec codec.Codec
	what  string
	run   func(t *testing.T, rng *rand.Rand, memory int64) []porcupine.Operation
}

func newShape[K comparable, V numbered](c codec.Codec, what string, key func(int) K, of func(value) V) shape {
	return shape{codec: c, what: what, run: func(t *testing.T, rng *rand.Rand, memory int64) []porcupine.Operation {
		return newTrial(t, rng, memory, c, key, of).run()
	}}
}

// trial is one history in the making.
type trial[K comparable, V numbered] struct {
	*testing.T
	db    *copal.DB
	m     *copal.Map[K, V]
	keyOf func(int) K
	of    func(value) V
	raw   [][]byte // the whole keys
	codec codec.Codec

	seeds  []uint64 // of the goroutines
	steps  int
	keys   int
	shadow bool // values for memory alone are among it

	clock  atomic.Int64
	writes atomic.Int32
	mu     sync.Mutex
	all    []porcupine.Operation
}

func newTrial[K comparable, V numbered](t *testing.T, rng *rand.Rand, memory int64, c codec.Codec, key func(int) K, of func(value) V) *trial[K, V] {
	x := &trial[K, V]{T: t, keyOf: key, of: of, codec: c, steps: 8 + rng.IntN(10), keys: 1 + rng.IntN(maxKeys), shadow: rng.IntN(3) == 0}
	for range 4 + rng.IntN(5) {
		x.seeds = append(x.seeds, rng.Uint64())
	}
	var err error
	x.db, err = copal.OpenMemory(copal.WithMaxMemory(memory), copal.WithSyncInterval(time.Millisecond),
		copal.WithErrorHandler(func(err error) { t.Errorf("error handler: %v", err) }))
	if err != nil {
		t.Fatal(err)
	}
	opts := []copal.MapOption{copal.WithCodec(c)}
	if rng.IntN(2) == 0 {
		opts = append(opts, copal.Ordered())
	}
	x.m, err = copal.OpenMap[K, V](x.db, "m", opts...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range x.keys { // the store itself yields the raw names of the keys
		if err := x.m.Set(key(i), of(1)); err != nil {
			t.Fatal(err)
		}
		for k := range x.db.Raw().Keys() {
			x.raw = append(x.raw, k)
		}
		if _, err := x.m.Delete(key(i)); err != nil || len(x.raw) != i+1 {
			t.Fatal(err, x.raw)
		}
	}
	return x
}

func (x *trial[K, V]) run() []porcupine.Operation {
	var workers, syncer sync.WaitGroup
	stop := make(chan struct{})
	for g, seed := range x.seeds {
		workers.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 0))
			for range x.steps {
				x.step(g, rng)
			}
		})
	}
	syncer.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			sync := x.db.Sync
			if i%2 == 0 {
				sync = x.m.Sync
			}
			x.must(sync())
		}
	})
	syncer.Go(func() { // compaction goes on all the time
		for {
			select {
			case <-stop:
				return
			default:
			}
			x.must(x.db.Compact(context.Background(), nil))
		}
	})
	workers.Wait()
	close(stop)
	syncer.Wait()
	for k := range x.keys { // the final entries, in memory and in the log
		x.do(0, input{op: get, key: k, how: "Load at the end"}, x.load)
		x.do(0, input{op: rawGet, key: k, how: "at the end"}, x.rawGet)
		x.do(0, input{op: get, key: k, how: "Get at the end"}, x.get)
	}
	x.must(x.db.Close())
	return x.all
}

func (x *trial[K, V]) must(err error) {
	if err != nil {
		x.Error(err)
	}
}

// do calls f and notes it.
func (x *trial[K, V]) do(g int, in input, f func(input) output) {
	o := porcupine.Operation{ClientId: g, Input: in, Call: x.clock.Add(1)}
	o.Output = f(in)
	o.Return = x.clock.Add(1)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.all = append(x.all, o)
}

// step does one thing by chance.
func (x *trial[K, V]) step(g int, rng *rand.Rand) {
	in := input{key: rng.IntN(x.keys)}
	n := rng.IntN(100)
	if !x.shadow {
		n %= 88
	}
	var f func(input) output
	switch {
	case n < 14:
		in.op, in.how, f = get, "Get", x.get
	case n < 22:
		in.op, in.how, f = get, "Load", x.load
	case n < 24:
		in.op, in.how, f = get, "All", x.fromAll
	case n < 28:
		in.op, in.how, f = rawGet, "Get", x.rawGet
	case n < 30:
		in.op, in.how, f = rawGet, "View", x.inView
	case n < 32:
		in.op, in.how, f = rawGet, "Snapshot", x.inSnapshot
	case n < 34:
		in.op, in.how, f = rawGet, "Scan", x.scan
	case n < 36:
		in.op, in.how, f = txUpdate, "DB.Update", x.inTx
	case n < 42:
		in.op, in.how, f = set, "Set", x.setBy(x.m.Set)
	case n < 52:
		in.op, in.how, f = set, "SetAsync", x.setBy(x.m.SetAsync)
	case n < 53:
		in.op, in.how, f = set, "SetFSync", x.setBy(x.m.SetFSync)
	case n < 57:
		in.op, in.how, f = del, "Delete", x.delBy(x.m.Delete)
	case n < 63:
		in.op, in.how, f = del, "DeleteAsync", x.delBy(x.m.DeleteAsync)
	case n < 65:
		in.op, in.how, f = rawSet, "Put", x.put
	case n < 66:
		in.op, in.how, f = rawSet, "Batch", x.batch
	case n < 68:
		in.op, in.how, f = rawDel, "Delete", x.rawDelete
	case n < 88:
		in.op, in.how, f = x.anyUpdate(rng)
	case n < 94:
		in.op, in.how, f = setMemory, "SetInMemory", x.setBy(x.m.SetInMemory)
	default:
		in.op, in.how, f = updateMemory, "UpdateInMemory", x.updateBy(x.m.UpdateInMemory)
	}
	switch in.op {
	case set, rawSet, txUpdate, update, setMemory, updateMemory:
		in.wrote = x.writes.Add(1)*maxKeys + value(in.key)
	}
	x.do(g, in, f)
}

func (x *trial[K, V]) anyUpdate(rng *rand.Rand) (op, string, func(input) output) {
	o := [...]op{update, update, update, remove, look}[rng.IntN(5)]
	if rng.IntN(2) == 0 {
		return o, "Update", x.updateBy(x.m.Update)
	}
	return o, "UpdateAsync", x.updateBy(x.m.UpdateAsync)
}

// found returns the number of a value that was read. Each value is whole, and was written to this
// key.
func (x *trial[K, V]) found(in input, v V, err error) output {
	switch {
	case errors.Is(err, copal.ErrNotFound):
		return output{}
	case err != nil:
		x.Error(err)
		return output{}
	case !v.whole() || int(v.number())%maxKeys != in.key:
		x.Errorf("%v was not written to key %d", v, in.key)
		return output{}
	}
	return output{found: v.number()}
}

func (x *trial[K, V]) get(in input) output {
	v, ok := x.m.Get(x.keyOf(in.key))
	if !ok {
		return output{}
	}
	return x.found(in, v, nil)
}

func (x *trial[K, V]) load(in input) output {
	v, err := x.m.Load(x.keyOf(in.key))
	return x.found(in, v, err)
}

// fromAll waits for the key to come by. Where it is yielded, it is as if read then; an entry that
// comes or goes meanwhile may be left out, so that nothing can be said of one that is not yielded.
func (x *trial[K, V]) fromAll(in input) output {
	want, seen := x.canonical(x.keyOf(in.key)), 0
	var out output
	for k, v := range x.m.All() {
		if x.canonical(k) == want {
			out = x.found(in, v, nil)
			seen++
		}
	}
	if seen > 1 {
		x.Errorf("All yields %v %d times", want, seen)
	}
	if seen == 0 {
		return x.get(in)
	}
	return out
}

// canonical returns the same text for keys that are the same entry.
func (x *trial[K, V]) canonical(k K) string {
	switch k := any(k).(type) {
	case time.Time:
		return k.UTC().String()
	case float64:
		return fmt.Sprint(k + 0)
	}
	return fmt.Sprint(k)
}

func (x *trial[K, V]) rawGet(in input) output {
	b, err := x.db.Raw().Load(x.raw[in.key])
	return x.decode(in, b, err)
}

func (x *trial[K, V]) scan(in input) output {
	for _, v := range x.db.Raw().Prefix(x.raw[in.key]) {
		return x.decode(in, v, nil)
	}
	return x.rawGet(in) // as for All
}

// decode reads a value of the codec or of put.
func (x *trial[K, V]) decode(in input, b []byte, err error) output {
	var v V
	if err == nil && (x.codec == codec.JSON || b[0] == '{' && b[len(b)-1] == '}' || b[0] == '[') {
		err = json.Unmarshal(b, &v)
	} else if err == nil {
		err = x.unbinary(b, &v)
	}
	return x.found(in, v, err)
}

// unbinary finds a value by its encoding, as there are few of them.
func (x *trial[K, V]) unbinary(b []byte, v *V) error {
	plan, err := compiled[V](x.codec)
	for n := value(1); err == nil && n < (x.writes.Load()+1)*maxKeys; n++ {
		var enc []byte
		*v = x.of(n)
		if enc, err = plan.Append(nil, v); bytes.Equal(enc, b) {
			return err
		}
	}
	return fmt.Errorf("raw bytes %q, which nobody wrote: %v", b, err)
}

func (x *trial[K, V]) setBy(set func(K, V) error) func(input) output {
	return func(in input) output {
		return output{existed: x.done(in, set(x.keyOf(in.key), x.of(in.wrote)))}
	}
}

// done reports whether the write took place: there may be no entry to decorate.
func (x *trial[K, V]) done(in input, err error) bool {
	if (in.op == setMemory || in.op == updateMemory) && errors.Is(err, copal.ErrNotFound) {
		return false
	}
	x.must(err)
	return true
}

func (x *trial[K, V]) delBy(del func(K) (bool, error)) func(input) output {
	return func(in input) output {
		existed, err := del(x.keyOf(in.key))
		x.must(err)
		return output{existed: existed}
	}
}

func (x *trial[K, V]) put(in input) output {
	text, err := json.Marshal(x.of(in.wrote))
	x.must(err)
	x.must(x.db.Raw().Set(x.raw[in.key], text))
	return output{}
}

func (x *trial[K, V]) batch(in input) output {
	text, err := json.Marshal(x.of(in.wrote))
	x.must(err)
	b := x.db.Raw().Batch()
	b.Set(x.raw[in.key], text)
	b.Set([]byte("beside"), text) // or it would be no group
	x.must(b.Commit())
	return output{}
}

// inView reads in a transaction, which sees the values of the log, also those that wait for it.
func (x *trial[K, V]) inView(in input) (out output) {
	x.must(x.db.View(func(tx *copal.Tx) error {
		v, err := x.m.In(tx).Load(x.keyOf(in.key))
		out = x.found(in, v, err)
		return nil
	}))
	return out
}

func (x *trial[K, V]) inSnapshot(in input) output {
	s, err := x.db.Snapshot()
	x.must(err)
	defer s.Close()
	v, err := x.m.At(s).Load(x.keyOf(in.key))
	out := x.found(in, v, err)
	seen := output{}
	for k, v := range x.m.At(s).All() {
		if x.canonical(k) == x.canonical(x.keyOf(in.key)) {
			seen = x.found(in, v, nil)
		}
	}
	if seen != out {
		x.Errorf("Load in a snapshot finds %v, and All %v", out, seen)
	}
	return out
}

// inTx reads and writes in a transaction.
func (x *trial[K, V]) inTx(in input) (out output) {
	x.must(x.db.Update(func(tx *copal.Tx) error {
		m := x.m.In(tx)
		v, err := m.Load(x.keyOf(in.key))
		out = x.found(in, v, err)
		return m.Set(x.keyOf(in.key), x.of(in.wrote))
	}))
	return out
}

func (x *trial[K, V]) rawDelete(in input) output {
	existed, err := x.db.Raw().Delete(x.raw[in.key])
	x.must(err)
	return output{existed: existed}
}

func (x *trial[K, V]) updateBy(by func(K, func(*copal.Entry[V]) error) (V, bool, error)) func(input) output {
	return func(in input) output {
		var out output
		v, exists, err := by(x.keyOf(in.key), func(u *copal.Entry[V]) error {
			if out = (output{}); u.Exists {
				out = x.found(in, u.Value, nil)
			}
			switch in.op {
			case remove:
				u.Delete()
			case look:
				u.Cancel()
			default:
				u.Set(x.of(in.wrote))
			}

			return nil
		})
		if out.existed = x.done(in, err); !out.existed {
			return out
		}
		want := in.wrote
		if in.op == look {
			want = out.found
		}
		if exists != (want != 0) || exists && x.found(in, v, nil).found != want {
			x.Errorf("%s returns %v, %v, want %d", in.how, v, exists, want)
		}
		return out
	}
}

var plans sync.Map

// compiled returns the codec's plan for V.
func compiled[V any](c codec.Codec) (codec.Type, error) {
	t := reflect.TypeFor[V]()
	if p, ok := plans.Load(t); ok {
		return p.(codec.Type), nil
	}
	p, err := c.Compile(t)
	if err == nil {
		plans.Store(t, p)
	}
	return p, err
}
