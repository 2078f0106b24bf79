package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/keyrange"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// Reading a store in spite of damage. Whatever byte of a segment is changed, a read-only store opens and reports
// the damage. A key whose newest record is damaged, and still names it, is an error and never shows an older value;
// every other key has its newest value. No writer takes such a store.

// lostVictim is a store of several segments, and the newest record of each key.
type lostVictim struct {
	mem    *vfs.Mem
	all    []original
	newest map[string]int // place in all of the newest record of a key
}

// newLostVictim makes one that was closed or killed, with a snapshot of the index of some of it or without.
func newLostVictim(t *testing.T, end ending, snapshot bool) *lostVictim {
	t.Helper()
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes, o.NoSnapshot = 600, !snapshot })
	rnd := rand.New(rand.NewPCG(7, 7))
	for i := range 60 {
		key := fmt.Sprintf("key %d", rnd.IntN(12))
		switch {
		case i%9 == 8:
			if _, err := s.Delete(nil, []byte(key), Process); err != nil && !errors.Is(err, ErrNotFound) {
				t.Fatal(err)
			}
		case i%11 == 10:
			if err := s.Transact(Process, func(tx *Tx) error {
				for _, k := range []string{key, "other " + key} {
					if err := tx.Write(nil, &Write{Key: []byte(k), Value: fmt.Appendf(nil, "member %d", i)}); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		default:
			mustSet(t, s, key, fmt.Sprintf("value %d", i))
		}
		if snapshot && i == 40 {
			mustClose(t, s)
			s = mustOpen(t, mem, func(o *Options) { o.SegmentBytes, o.NoSnapshot = 600, true })
		}
	}
	if end == closed {
		mustClose(t, s)
	} else if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	v := &lostVictim{mem: mem.ProcessCrash(), newest: map[string]int{}}
	v.all = readOriginals(t, v.mem, "db")
	groups := map[uint64][]int{}
	for i, o := range v.all {
		switch {
		case o.Op == record.Commit:
			for _, m := range groups[o.Group] {
				v.newest[v.all[m].key] = m
			}
		case o.Group != 0:
			groups[o.Group] = append(groups[o.Group], i)
		default:
			v.newest[o.key] = i
		}
	}
	return v
}

// readLost opens an image to read it, and returns the store with the errors reported.
func readLost(t *testing.T, image *vfs.Mem) (*Store, *[]error) {
	t.Helper()
	told := new([]error)
	s, err := Open("db", testOptions(image, func(o *Options) {
		o.ReadOnly, o.OnError = true, func(err error) { *told = append(*told, err) }
	}))
	if err != nil {
		t.Fatalf("it does not open to be read: %v", err)
	}
	return s, told
}

func TestReadInSpiteOfDamage(t *testing.T) {
	for _, end := range []ending{closed, killed} {
		for _, snapshot := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, snapshot %v", end, snapshot), func(t *testing.T) {
				v := newLostVictim(t, end, snapshot)
				step := int64(1)
				if os.Getenv("COPAL_LONG") == "" {
					step = 13
				}
				for at, o := range v.all {
					for offset := o.at + o.at%step; offset < o.at+int64(len(o.bytes)); offset += step {
						v.damage(t, at, offset, 1, snapshot)
						v.damage(t, at, offset, 90, snapshot)
					}
				}
			})
		}
	}
}

// damage changes bytes from one of a record on, and looks at everything.
func (v *lostVictim) damage(t *testing.T, at int, offset, bytes int64, snapshot bool) {
	t.Helper()
	o := v.all[at]
	image := v.mem.ProcessCrash()
	path := filepath.Join("db", o.id.FileName())
	if logtest.SizeOf(t, image, path) < offset+bytes {
		return // it is in the ring
	}
	logtest.Change(t, image, path, func(f vfs.File) error {
		if bytes == 1 {
			return logtest.Flip(f, offset, 1)
		}
		_, err := f.WriteAt(make([]byte, bytes), offset)
		return err
	})
	what := fmt.Sprintf("%d bytes from %d of %s on, of record %d of %q", bytes, offset-o.at, path, o.Seq, o.key)

	writer, writeErr := Open("db", testOptions(image.ProcessCrash()))
	if writeErr == nil {
		mustClose(t, writer) // a snapshot of the index covers it, or the ring has it
	} else if !errors.Is(writeErr, seglog.ErrCorrupt) || !strings.Contains(writeErr.Error(), "copal repair") {
		t.Fatalf("%s: a writer is told %v", what, writeErr)
	}
	s, told := readLost(t, image)
	s.reports.wait()
	if (writeErr != nil) != (len(*told) > 0) {
		t.Fatalf("%s: the writer is told %v, the reader %v", what, writeErr, *told)
	}
	for key, n := range v.newest {
		want := v.all[n]
		e, err := s.Get(nil, []byte(key))
		hit := v.isHit(n, at, offset, bytes)
		if has, hasErr := s.Has(nil, []byte(key)); !snapshot && (hasErr == nil) != (err == nil || errors.Is(err, ErrNotFound)) {
			t.Errorf("%s: of %q Has says %v, %v, and Get %v", what, key, has, hasErr, err)
		}
		switch {
		case errors.Is(err, seglog.ErrCorrupt):
			if !hit && bytes == 1 && !v.mayMean(at, offset, key) {
				t.Errorf("%s: %q cannot be read: %v", what, key, err)
			}
		case err == nil && want.Op == record.Set && string(e.Value) == want.value, errors.Is(err, ErrNotFound) && want.Op == record.Delete:
		case hit && (bytes > 1 || v.illegible(at, offset)):
		default:
			t.Errorf("%s: %q is %q, %v; its newest record says %q", what, key, e.Value, err, want.value)
		}
	}
	mustClose(t, s)
}

// isHit reports whether damage of some bytes from one of a record on is damage of record n, or of the commit by
// which that counts.
func (v *lostVictim) isHit(n, at int, offset, bytes int64) bool {
	for id := v.all[at].id; at < len(v.all) && v.all[at].id == id && v.all[at].at < offset+bytes; at++ {
		if o := v.all[at]; at == n || o.Op == record.Commit && o.Group == v.all[n].Group {
			return true
		}
	}
	return false
}

// illegible reports whether a byte is needed to read the key of a record: of the head after the checksum, or of
// the key itself.
func (v *lostVictim) illegible(at int, offset int64) bool {
	o := v.all[at]
	place := offset - o.at
	return place >= 8 && place < int64(len(o.bytes)-o.ValueBytes-1)
}

// mayMean reports whether a record of which a byte of the key was changed may name another key.
func (v *lostVictim) mayMean(at int, offset int64, key string) bool {
	return v.illegible(at, offset) && key != v.all[at].key
}

// TestReadWhereTheLogGoesOnInTheRing: the end of a segment is cut off and damaged in the ring, and the ring goes on
// after it. A reader opens the store: the one record is lost, and those after it are there.
func TestReadWhereTheLogGoesOnInTheRing(t *testing.T) {
	logtest.NeedsRing(t)
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	for i := range 20 {
		mustSet(t, s, fmt.Sprint("key ", i), "value")
		if i == 9 {
			if err := s.Sync(); err != nil {
				t.Fatal(err)
			}
		}
	}
	mem = mem.ProcessCrash()
	all := readOriginals(t, mem, "db")
	if len(all) != 10 {
		t.Fatalf("%d records are in the segment, where 10 were synced", len(all))
	}
	last := all[9]
	path := filepath.Join("db", last.id.FileName())
	for cut := int64(1); cut < int64(len(last.bytes)); cut++ {
		image := mem.ProcessCrash()
		if err := image.Remove("db/SYNCED"); err != nil { // else the end of the file is known
			t.Fatal(err)
		}
		logtest.Change(t, image, path, func(f vfs.File) error { return f.Truncate(last.at + cut) })
		logtest.Change(t, image, "db/RING", func(f vfs.File) error { return logtest.Flip(f, seglog.RingHead+last.at+30, 1) })
		s, told := readLost(t, image)
		s.reports.wait()
		if len(*told) == 0 {
			t.Errorf("%d bytes of the record are there: nothing is told", cut)
		}
		for i := range 20 {
			_, err := s.Get(nil, fmt.Append(nil, "key ", i))
			if i != 9 && err != nil || i == 9 && err == nil {
				t.Errorf("%d bytes of the record are there: key %d: %v", cut, i, err)
			}
		}
		mustClose(t, s)
	}
}

// TestReadBesideDamagedRange: the keys of a damaged range deletion are unknown. None that it may have deleted shows
// its former value.
func TestReadBesideDamagedRange(t *testing.T) {
	ints, _ := keycodec.OrderNamed("int")
	sortKey := func(key string) []byte { return ints.AppendSortKey(nil, key) }
	for name, test := range map[string]struct {
		of           func(*Table) Range
		intact, lost []string
	}{
		"bounds": {func(*Table) Range { return keyrange.Keys(Span{Low: []byte("k2"), High: []byte("l")}) }, []string{"a1", "k1"}, []string{"k2", "k3", "k5"}},
		"prefix": {func(*Table) Range { return keyrange.Prefix([]byte("k")) }, []string{"a1"}, []string{"k", "k1", "k5"}},
		"by numbers": {func(table *Table) Range {
			return keyrange.Sorted(table.prefixBytes(), ints, Span{Low: sortKey("9"), High: sortKey("100")})
		}, []string{"a1", "k"}, []string{"m:99", "m:10"}},
	} {
		for _, settled := range []bool{false, true} { // an INDEX has the entries
			t.Run(fmt.Sprintf("%s, settled %v", name, settled), func(t *testing.T) {
				mem := vfs.NewMem()
				with := func(o *Options) { o.NoSnapshot = !settled }
				s := mustOpen(t, mem, with)
				table, err := s.Map("m")
				if err != nil {
					t.Fatal(err)
				}
				for _, key := range append(test.intact, test.lost...) {
					mustSet(t, s, key, "before")
				}
				if settled {
					mustClose(t, s)
					s = mustOpen(t, mem, with)
					if table, err = s.Map("m"); err != nil {
						t.Fatal(err)
					}
				}
				if err := s.DeleteRange(test.of(table), Process); err != nil {
					t.Fatal(err)
				}
				mustSet(t, s, test.lost[0], "after")
				if err := s.Sync(); err != nil {
					t.Fatal(err)
				}
				image := mem.ProcessCrash()
				all := readOriginals(t, image, "db")
				r := all[len(all)-2]
				if r.Op != record.Range {
					t.Fatalf("the last record but one is %c of %q", r.Op, r.key)
				}
				logtest.Change(t, image, filepath.Join("db", r.id.FileName()), func(f vfs.File) error {
					return logtest.Flip(f, r.at, 1) // of the checksum
				})
				s, told := readLost(t, image)
				defer mustClose(t, s)
				s.reports.wait()
				if len(*told) == 0 {
					t.Fatal("nothing is told of the damage")
				}
				for _, key := range append(test.intact, test.lost[0]) {
					if _, err := s.Get(nil, []byte(key)); err != nil {
						t.Errorf("%q: %v", key, err)
					}
				}
				for _, key := range test.lost[1:] {
					if e, err := s.Get(nil, []byte(key)); !errors.Is(err, seglog.ErrCorrupt) {
						t.Errorf("%q is %q, %v", key, e.Value, err)
					}
				}
			})
		}
	}
}

// TestLostMeta: whatever byte of the group is damaged that has made a collection, the elements are read, or their
// reads are errors; they are not taken for none.
func TestLostMeta(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.NoSnapshot = true })
	for i := range 6 {
		mustChange(t, s, "cart", hset(fmt.Sprint("f", i%3), fmt.Sprint(i)))
		mustSet(t, s, "value", fmt.Sprint(i))
	}
	mustClose(t, s)
	for _, o := range readOriginals(t, mem, "db") {
		if o.Group == 0 {
			continue
		}
		for offset := o.at; offset < o.at+int64(len(o.bytes)); offset++ {
			image := mem.ProcessCrash()
			logtest.Change(t, image, "db/00000001.log", func(f vfs.File) error { return logtest.Flip(f, offset, 1) })
			s, told := readLost(t, image)
			for i := range 3 {
				e, err := s.Collections().Get([]byte("cart"), HashType, fmt.Append(nil, "f", i))
				if err == nil && string(e.Value) != fmt.Sprint(3+i) || err != nil && !errors.Is(err, seglog.ErrCorrupt) {
					t.Errorf("byte %d of %q: field %d is %q, %v", offset-o.at, o.bytes, i, e.Value, err)
				}
			}
			wantValue(t, s, "value", "5")
			if mustClose(t, s); len(*told) == 0 {
				t.Errorf("byte %d of %q: nothing is told", offset-o.at, o.bytes)
			}
		}
	}
}
