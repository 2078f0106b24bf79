package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/crashtest"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// Damage. A small store is cut off at every length and changed at every byte, in every file it has.
// In each case it opens with its content, or the error names the file and the place; a torn tail is
// cut off, and is not taken for damage.

// ending is the way in which the store was left.
type ending int

const (
	closed ending = iota // cleanly
	killed               // the process died, and the cache survived it
	cut                  // the power went; everything happened to be on the disk
)

// noSnapshot lets the log be read, whose damage this is about.
func noSnapshot(o *Options) { o.NoSnapshot = true }

func (e ending) String() string { return [...]string{"closed", "killed", "cut"}[e] }

// victim is a store to be damaged, with its content after each of its writes.
type victim struct {
	mem    *vfs.Mem
	end    ending
	oracle *oracle
}

func newVictim(t *testing.T, end ending) victim {
	t.Helper()
	mem := vfs.NewMem()
	v := victim{end: end, oracle: newOracle(nil)}
	s := mustOpen(t, mem, noSnapshot, func(o *Options) { o.SegmentBytes = 600 })
	c := newCrasher(t, crashtest.Plan{Rng: rand.New(rand.NewPCG(1, 1))})
	var script []step
	for i := range 24 {
		script = append(script, step{kind: "set", key: fmt.Sprintf("users:%d", i%7), value: fmt.Sprintf("value %d", i)})
	}
	script = append(script, step{kind: "delete", key: "users:3"}, step{kind: "map", key: "users"}, step{kind: "sync"})
	for i := range 5 {
		script = append(script, step{kind: "set", key: fmt.Sprintf("late:%d", i), value: "unsynced"})
	}
	for _, st := range script {
		if _, err := c.step(mem, s, v.oracle, st); err != nil {
			t.Fatal(err)
		}
	}
	if end == closed {
		mustClose(t, s)
		v.oracle.Durable = v.oracle.Acked
	}
	v.mem = mem.ProcessCrash()
	if end == cut {
		v.mem.SetCacheID("after the power cut")
	}
	return v
}

// held opens an image and compares its content with the possible states. It returns the number of
// writes found, or -1 and the error of Open.
func (v victim) held(t *testing.T, image *vfs.Mem, what string) (int, error) {
	t.Helper()
	found, err := Check(context.Background(), "db", image, nil)
	if err != nil {
		t.Fatalf("%s: Check: %v", what, err)
	}
	sound := len(found.Problems) == 0 && found.Version == nil
	s, err := Open("db", testOptions(image, noSnapshot))
	if sound != (err == nil) {
		t.Fatalf("%s: Open says %v, Check %v %v", what, err, found.Problems, found.Version)
	}
	if err != nil {
		var corrupt *seglog.CorruptError
		if !errors.As(err, &corrupt) && !errors.Is(err, seglog.ErrVersion) {
			t.Fatalf("%s: Open: %v", what, err)
		}
		if corrupt != nil && (!strings.HasPrefix(corrupt.File, "db") || corrupt.Reason == "") {
			t.Fatalf("%s: Open does not say where: %v", what, err)
		}
		return -1, err
	}
	holds, content, err := contentOf(s)
	at, ok := v.oracle.find(holds, v.oracle.Durable, 0)
	if err != nil || !ok {
		t.Fatalf("%s: found %s\n%v", what, holds, err)
	}
	if int(found.Keys) != len(content) || found.TornBytes != s.Stats().TornBytes {
		t.Fatalf("%s: Check counts %d keys and %d torn bytes, Open %d and %d", what, found.Keys, found.TornBytes, len(content), s.Stats().TornBytes)
	}
	// The second opening, with a write before it.
	mustSet(t, s, "again", "1")
	mustClose(t, s)
	content["again"] = "1"
	s, err = Open("db", testOptions(image, noSnapshot))
	if err != nil {
		t.Fatalf("%s: the second Open: %v", what, err)
	}
	if found, _, err := contentOf(s); err != nil || found != render(content) {
		t.Fatalf("%s: the second Open finds %s, %v, want %s", what, found, err, render(content))
	}
	mustClose(t, s)
	return at, nil
}

// inPadding reports whether a byte is one of the many spaces in the first line of the ring
// of which a short test tries only a few.
func inPadding(name string, at int64) bool {
	return name == seglog.RingName && !longTest() && at > 80 && at < seglog.RingHead-20 && at%61 != 0
}

func TestTruncatedAtEveryByte(t *testing.T) { logtest.BothWays(t, truncatedAtEveryByte) }

func truncatedAtEveryByte(t *testing.T) {
	for _, end := range []ending{closed, killed, cut} {
		t.Run(end.String(), func(t *testing.T) {
			v := newVictim(t, end)
			all := v.oracle.Started
			opened, refused := 0, 0
			for _, name := range logtest.Files(t, v.mem) {
				path := filepath.Join("db", name)
				size := logtest.SizeOf(t, v.mem, path)
				for n := range size {
					if inPadding(name, n) || !longTest() && n%17 != 0 {
						continue
					}
					image := v.mem.ProcessCrash()
					logtest.Change(t, image, path, func(f vfs.File) error { return f.Truncate(n) })
					what := fmt.Sprintf("%s cut to %d of %d bytes", name, n, size)
					at, err := v.held(t, image, what)
					if at >= 0 {
						opened++
					} else {
						refused++
					}
					switch isLog := strings.HasSuffix(name, ".log"); {
					case name == seglog.MarkName && at != all:
						t.Fatalf("%s: the mark is only a hint, yet %d of %d writes are found, %v", what, at, all, err)
					case end == closed && isLog && at >= 0:
						t.Fatalf("%s: a log that was closed opens shorter than it was", what)
					}
				}
			}
			t.Logf("%d lengths: %d opened, %d refused", opened+refused, opened, refused)
		})
	}
}

func TestDamagedAtEveryBit(t *testing.T) { logtest.BothWays(t, damagedAtEveryBit) }

func damagedAtEveryBit(t *testing.T) {
	for _, end := range []ending{closed, killed, cut} {
		t.Run(end.String(), func(t *testing.T) {
			v := newVictim(t, end)
			all := v.oracle.Started
			opened, refused := 0, 0
			for _, name := range logtest.Files(t, v.mem) {
				path := filepath.Join("db", name)
				size := logtest.SizeOf(t, v.mem, path)
				for bit := range size * 8 {
					if !longTest() && (bit%8 != bit/8%7 || bit/8%17 != 0) {
						continue // one bit of every 17th byte
					}
					if inPadding(name, bit/8) {
						continue
					}
					image := v.mem.ProcessCrash()
					logtest.Change(t, image, path, func(f vfs.File) error {
						var b [1]byte
						if _, err := f.ReadAt(b[:], bit/8); err != nil {
							return err
						}
						b[0] ^= 1 << (bit % 8)
						_, err := f.WriteAt(b[:], bit/8)
						return err
					})
					what := fmt.Sprintf("%s, bit %d of byte %d flipped", name, bit%8, bit/8)
					at, err := v.held(t, image, what)
					if at >= 0 {
						opened++
					} else {
						refused++
					}
					switch {
					case name == seglog.MarkName:
						if at != all {
							t.Fatalf("%s: the mark is only a hint, yet %d of %d writes are found, %v", what, at, all, err)
						}
					case end == closed && at >= 0:
						t.Fatalf("%s: unnoticed", what)
					case end == killed && at >= 0 && at < all-1:
						t.Fatalf("%s: taken for a torn tail, though whole records follow; %d of %d writes are left", what, at, all)
					}
					if at < 0 && !strings.Contains(err.Error(), name) {
						t.Fatalf("%s: the error does not name the file: %v", what, err)
					}
				}
			}
			t.Logf("%d flips: %d opened, %d refused", opened+refused, opened, refused)
		})
	}
}

// TestZeroedSectors overwrites aligned blocks with zeros, as a lost write does.
func TestZeroedSectors(t *testing.T) {
	v := newVictim(t, closed)
	for _, name := range logtest.Files(t, v.mem) {
		path := filepath.Join("db", name)
		size := logtest.SizeOf(t, v.mem, path)
		for _, block := range []int64{64, 512, 4096} {
			for at := int64(0); at < size; at += block {
				image := v.mem.ProcessCrash()
				logtest.Change(t, image, path, func(f vfs.File) error {
					_, err := f.WriteAt(make([]byte, min(block, size-at)), at)
					return err
				})
				if n, _ := v.held(t, image, fmt.Sprintf("%s zeroed from %d for %d bytes", name, at, block)); n >= 0 && name != seglog.MarkName {
					t.Fatalf("%s: %d zero bytes at %d went unnoticed", name, block, at)
				}
			}
		}
	}
}

// TestGarbageBehindTheLog appends bytes to the last segment that no writer wrote.
func TestGarbageBehindTheLog(t *testing.T) { logtest.BothWays(t, garbageBehindTheLog) }

func garbageBehindTheLog(t *testing.T) {
	for _, end := range []ending{killed, cut} {
		v := newVictim(t, end)
		logs := logtest.Files(t, v.mem)
		var last string
		for _, n := range logs {
			if strings.HasSuffix(n, ".log") {
				last = n
			}
		}
		path := filepath.Join("db", last)
		size := logtest.SizeOf(t, v.mem, path)
		for _, garbage := range []string{"\x00\x00\x00", "a torn record", "1f0c9a3e Sv 0 0 1 0 1 1 k v\n", strings.Repeat("\x00", 9000), "1f0c9a3e Sv 0 0 1 0 ffffff ffffff "} {
			image := v.mem.ProcessCrash()
			logtest.Change(t, image, path, func(f vfs.File) error {
				_, err := f.WriteAt([]byte(garbage), size)
				return err
			})
			want := v.oracle.Started
			if _, err := image.Open("db/"+seglog.RingName, vfs.ReadOnly); err != nil && end == killed {
				want = -1 // nothing says where the log ended, and a kill leaves nothing but the beginning of a record
			}
			if at, err := v.held(t, image, fmt.Sprintf("%q behind the log", garbage)); at != want {
				t.Errorf("%s: %q behind the log: %d writes are left, want %d, %v", end, garbage, at, want, err)
			}
		}
	}
}

// TestMissingFiles removes one file after the other.
func TestMissingFiles(t *testing.T) {
	v := newVictim(t, closed)
	for _, name := range logtest.Files(t, v.mem) {
		image := v.mem.ProcessCrash()
		if err := image.Remove(filepath.Join("db", name)); err != nil {
			t.Fatal(err)
		}
		_, err := Open("db", testOptions(image))
		if name == seglog.MarkName {
			if err != nil {
				t.Errorf("without the mark: %v", err)
			}
			continue
		}
		if err == nil {
			t.Errorf("a store without %s opens", name)
		} else if !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// TestHoleIsNoTornTail: many records lost in a hole before a few whole ones are damage and no torn
// tail. Open refuses the log, and Check reports it.
func TestHoleIsNoTornTail(t *testing.T) {
	for follow := 1; follow <= 3; follow++ {
		mem := vfs.NewMem()
		s := mustOpen(t, mem)
		mustSet(t, s, "a", "1")
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		start := s.log.Tail.End.Load()
		for i := range 300 {
			mustSet(t, s, fmt.Sprint("k", i), "v")
		}
		end := s.log.Tail.End.Load()
		for i := range follow {
			mustSet(t, s, fmt.Sprint("end", i), "v")
		}
		dead := mem.ProcessCrash()
		logtest.Change(t, dead, "db/00000001.log", func(f vfs.File) error {
			_, err := f.WriteAt(make([]byte, end-start), start)
			return err
		})
		if _, err := Open("db", testOptions(dead)); !errors.Is(err, seglog.ErrCorrupt) {
			t.Errorf("with %d records behind the hole: Open: %v", follow, err)
		}
		if r, err := Check(context.Background(), "db", dead, nil); err != nil || len(r.Problems) == 0 {
			t.Errorf("with %d records behind the hole: Check: %+v, %v", follow, r, err)
		}
	}
}
