package importing

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"iter"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/importers"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/copying"
	"github.com/copaldb/copal/internal/ndjson"
)

// An import is verified by a second reading of the source: each of its entries is compared with the
// present entry of the store. A collection has two sums, one of all elements that were read and one
// of all that the store has, so nothing is kept and no order is needed.

// verifier compares the source with the store.
type verifier struct {
	*Intake
	now  *copal.Snapshot // of a server the scratch, with the next entries to compare
	seed maphash.Seed

	server *copying.View    // nil for a directory
	items  []importers.Item // next values to compare
	bytes  int              // in them

	of     importers.Item  // the collection whose elements are read; none if it has no type
	sum    tally           // of its elements
	stream []admin.Element // those of a stream that a Redis has, of which it may keep less
	scored bool            // they are members of a sorted set, with scores
	found  int64           // entries that the store has without a deadline
}

// tally is a sum of elements in any order.
type tally struct {
	count int64
	sum   uint64
}

// Verify reads the source again.
func (in *Intake) Verify() (err error) {
	source := in.source
	source.Bad = func(*ndjson.LineError) error { return nil } // the import has reported it
	source.LeftOut = func(string, []byte) {}
	source.Note = func(string) {}
	switch {
	case in.file != nil:
		if _, err := in.file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		in.read = &countingReader{r: in.file}
		source.In = bufio.NewReaderSize(in.read, importers.HeadBytes)
	case in.read != nil:
		in.note("it was not verified: standard input is read once; give a FILE")
		return nil
	}
	v := &verifier{Intake: in, seed: maphash.MakeSeed()}
	take := v.item
	if in.Far {
		if v.server, err = copying.Look(in.Ctx, in.DB); err != nil {
			return err
		}
		defer v.server.Close()
		take = v.collect
	} else {
		if v.now, err = in.DB.Snapshot(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, v.now.Close()) }()
	}
	in.bar = in.NewProgress("verifying")
	if in.size < 0 {
		in.bar = in.NewCount("verifying", "entries")
	}
	defer in.bar.Clear()
	in.seen = 0
	err = in.format.Read(&source, take)
	switch {
	case err != nil:
	case in.Far:
		err = errors.Join(v.endFar(), v.compare())
	default:
		err = v.end()
	}
	if in.skip == 0 {
		in.Result.Gone = max(0, in.lasting-v.found)
	}
	switch {
	case in.Ctx.Err() != nil:
		return fmt.Errorf("%w; all that was read is in the store, and not yet verified", cli.ErrInterrupted)
	case err != nil:
		return fmt.Errorf("all that was read is in the store, and could not be verified: %s: %w", in.Path, err)
	}
	return nil
}

// collect does the same as item for a server. It gathers values, and asks for many at once.
// Elements of a collection are only added up: the server is asked for the collection when all were
// read.
func (v *verifier) collect(item *importers.Item) error {
	if item.Element != nil {
		return v.item(item)
	}
	if err := v.endFar(); err != nil {
		return err
	}
	if item.Collection != "" {
		if err := v.compare(); err != nil {
			return err
		}
		return v.item(item)
	}
	it := *item
	it.Key, it.Value = bytes.Clone(it.Key), bytes.Clone(it.Value)
	v.items = append(v.items, it)
	if v.bytes += len(it.Key) + len(it.Value); v.bytes < batchBytes && len(v.items) < BatchEntries {
		return nil
	}
	return v.compare()
}

// endFar does the same as end for a server.
func (v *verifier) endFar() error {
	if v.of.Collection == "" {
		return v.end()
	}
	return v.with([][]byte{v.of.Key}, v.end)
}

// compare compares the values that were gathered.
func (v *verifier) compare() error {
	keys := make([][]byte, len(v.items))
	for i := range v.items {
		keys[i] = v.items[i].Key
	}
	err := v.with(keys, func() error {
		for i := range v.items {
			if err := v.item(&v.items[i]); err != nil {
				return err
			}
		}
		return nil
	})
	v.items, v.bytes = v.items[:0], 0
	return err
}

// with calls f while v.now has the server's entries of keys.
func (v *verifier) with(keys [][]byte, f func() error) error {
	list, errs := make([]*admin.Entry, len(keys)), make([]error, len(keys))
	for at := 0; at < len(keys); at += atOnce {
		var wait sync.WaitGroup
		for i := at; i < min(at+atOnce, len(keys)); i++ {
			wait.Go(func() {
				e, err := v.server.Find(keys[i])
				if errors.Is(err, copal.ErrNotFound) {
					e, err = admin.Entry{Key: keys[i], Deleted: true}, nil
				}
				list[i], errs[i] = &e, err
			})
		}
		wait.Wait()
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return v.scratch.Lend(v.Ctx, v.server, v.To.Typed(), list, func(now *copal.Snapshot) error {
		v.now = now
		return f()
	})
}

// item compares an item.
func (v *verifier) item(item *importers.Item) error {
	if v.Ctx.Err() != nil {
		return cli.ErrInterrupted
	}
	if v.seen++; v.seen%1024 == 0 {
		v.show()
	}
	switch {
	case item.Element != nil && v.nameTooLong(item):
		return nil
	case item.Element != nil && item.Score != nil:
		v.scored = true
		v.sum.add(v.seed, item.Element.Name, scoreBytes(*item.Score))
		return nil
	case item.Element != nil && v.of.Collection == "stream" && !v.To.Typed():
		v.stream = append(v.stream, admin.Element{Name: bytes.Clone(item.Element.Name), Value: bytes.Clone(item.Element.Value)})
		return nil
	case item.Element != nil:
		v.sum.add(v.seed, item.Element.Name, item.Element.Value)
		return nil
	}
	if err := v.end(); err != nil || expired(&item.Entry) || v.fits(&item.Entry) != nil {
		return err
	}
	if item.Collection != "" {
		v.of = *item
		v.of.Key = bytes.Clone(item.Key)
		return nil
	}
	want := item.Value
	if item.Codec == codec.Binary.Name() { // the map that the entry came to has it, and it is shown as JSON
		r, err := codec.Binary.(codec.Renders).Renderer(item.Schema)
		if err == nil {
			want, err = r.Render(nil, want)
		}
		if err != nil {
			return err
		}
	}
	var same bool
	err := v.now.Raw().View(item.Key, func(value []byte) error { same = bytes.Equal(value, want); return nil })
	return v.judge(item, same, err)
}

// end compares the collection that was read last, if there is one.
func (v *verifier) end() error {
	of, read, scored, stream := v.of, v.sum, v.scored, v.stream
	v.of, v.sum, v.scored, v.stream = importers.Item{}, tally{}, false, nil
	for e, err := range copying.Dumped(listed(stream)) {
		if err != nil {
			return cli.Named(err, of.Key)
		}
		read.add(v.seed, e.Name, e.Value)
	}
	switch {
	case of.Collection == "":
		return nil
	case read.count == 0: // all elements were left out
		if of.Expires.IsZero() {
			v.found++
		}
		return nil
	}
	var is tally
	kind, err := v.now.Raw().Type(of.Key)
	switch {
	case err != nil || kind != of.Collection:
	case scored:
		for member, score := range v.now.Raw().SortedSet(of.Key).All() {
			is.add(v.seed, []byte(member), scoreBytes(score))
		}
	default:
		for e, failed := range admin.Elements(v.now, of.Key) {
			if failed != nil {
				err = failed
				break
			}
			is.add(v.seed, e.Name, e.Value)
		}
	}
	return v.judge(&of, is == read, err)
}

func listed(list []admin.Element) iter.Seq2[admin.Element, error] {
	return func(yield func(admin.Element, error) bool) {
		for _, e := range list {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func scoreBytes(score float64) []byte { return fmt.Appendf(nil, "%x", math.Float64bits(score)) }

// add adds an element.
func (t *tally) add(seed maphash.Seed, name, value []byte) {
	var h maphash.Hash
	h.SetSeed(seed)
	maphash.WriteComparable(&h, len(name))
	h.Write(name)
	h.Write(value)
	t.count++
	t.sum += h.Sum64()
}

// judge counts an entry. It is the same if its value is, which was looked up with err, and its
// deadline.
func (v *verifier) judge(item *importers.Item, same bool, err error) error {
	deadline, absent := v.now.Raw().Deadline(item.Key)
	if absent == nil && deadline.IsZero() {
		v.found++
	}
	err = cmp.Or(err, absent)
	switch {
	case err != nil && !errors.Is(err, copal.ErrNotFound) && !errors.Is(err, copal.ErrType):
		return err
	case err != nil || !same || !sameTime(deadline, item.Expires, item.Within):
		if expired(&item.Entry) { // meanwhile
			return nil
		}
		if v.Result.Different++; v.Result.Different <= mostShown {
			v.wrong = append(v.wrong, fmt.Sprintf("%q", item.Key))
		}
	default:
		v.Result.Verified++
	}
	return nil
}

func sameTime(a, b time.Time, within time.Duration) bool {
	if a.IsZero() || b.IsZero() {
		return a.IsZero() == b.IsZero()
	}
	return a.Sub(b).Abs() <= within
}

// different returns the error of an import whose verification has found differences.
func (in *Intake) different() error {
	return errors.Join(in.changedThere(), in.deletedThere())
}

// deletedThere returns the error of entries that the source had at the import and not at the
// verification. They are counted and not known. Those with a deadline are not among them, for they
// may have expired.
func (in *Intake) deletedThere() error {
	switch n := in.Result.Gone; n {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("verified: 1 entry is not in %s any more, and still is in the store", in.Path)
	default:
		return fmt.Errorf("verified: %d entries are not in %s any more, and still are in the store", n, in.Path)
	}
}

func (in *Intake) changedThere() error {
	n := in.Result.Different
	if n == 0 {
		return nil
	}
	keys := strings.Join(in.wrong, ", ")
	if n > int64(len(in.wrong)) {
		keys += ", …"
	}
	hint := ""
	if in.format.Live {
		hint = "; what is written to the server during an import has to be imported once more"
	}
	return fmt.Errorf("the store and %s differ in %s: %s%s", in.Path, cli.CountEntries(n), keys, hint)
}
