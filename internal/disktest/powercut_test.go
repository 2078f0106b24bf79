//go:build linux

package disktest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/store"
	"github.com/copaldb/copal/internal/vfs"
	"golang.org/x/sys/unix"
)

// TestPowerCut takes the power from an ext4: a child writes, and is stopped; then the file system
// is shut down, so that pages it has not written to its device are gone, and mounted again. The
// store holds the result of a prefix of each writer's operations, with every one that was
// acknowledged as durable.
//
// The log is written in three ways: through the ring and into reserved extents; into reserved
// extents; and into those that the file gets as it grows.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	for _, way := range []struct {
		how    string
		cycles int
	}{{"ring", 6}, {"reserved", 3}, {"plain", 3}} {
		t.Run(way.how, func(t *testing.T) {
			if os.Getenv("COPAL_LONG") != "" {
				way.cycles = 500
			}
			seed := rand.Uint64N(1_000_000)
			c := &cutter{t: t, how: way.how, rng: rand.New(rand.NewPCG(seed, 0)), image: mountExt4(t, 64)}
			for c.cycle = range way.cycles {
				c.run()
			}
			t.Logf("%d power cuts, seed %d: %d writes acknowledged as durable and %d others; %d operations after the last durable one were there, %d were not",
				way.cycles, seed, c.durable, c.written, c.kept, c.gone)
			if c.durable == 0 {
				t.Error("nothing was acknowledged: this tests nothing")
			}
		})
	}
}

// cutter runs cycles on one disk.
type cutter struct {
	t     *testing.T
	how   string
	rng   *rand.Rand
	image *image
	cycle int

	durable, written, kept, gone int
}

const (
	cutWriters = 3
	cutKeys    = 7 // of each writer
)

// cutOp returns the n-th operation of a writer, n from 1: the key that it sets, or deletes when
// size is negative.
func cutOp(cycle, writer, n int) (key string, size int) {
	rng := rand.New(rand.NewPCG(uint64(cycle), uint64(writer)<<32|uint64(n)))
	key = fmt.Sprintf("w%d k%d", writer, n%cutKeys)
	switch k := rng.IntN(100); {
	case k < 10:
		return key, -1
	case k < 95:
		return key, rng.IntN(600)
	}
	return key, rng.IntN(100 << 10)
}

func cutValue(writer, n, size int) []byte { return valueOf(writer<<24|n, size) }

// isDurable says which operations wait for the disk.
func isDurable(n int) bool { return n%5 == 0 }

// run is a cycle: a store from its first write to its opening after the power cut.
func (c *cutter) run() {
	t := c.t
	t.Helper()
	dir := filepath.Join(c.image.dir, fmt.Sprint("db", c.cycle))
	w := start(t, order{Do: "write", Dir: dir, How: c.how, Cycle: c.cycle})
	acked := make([]int, cutWriters) // by writer: the last operation that was acknowledged
	left := c.rng.IntN(400)
	if c.cycle == 0 { // of one it is sure that there is something durable
		left += cutWriters * 5
	}
	for ; left >= 0; left-- {
		writer, n := readAck(t, w)
		acked[writer] = n
	}
	w.stop()
	for { // its lines before it was stopped
		var ready [1]unix.PollFd
		ready[0] = unix.PollFd{Fd: int32(w.pipe.Fd()), Events: unix.POLLIN}
		n, err := unix.Poll(ready[:], 0)
		if err == unix.EINTR { // which says nothing of the files
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 && w.in.Buffered() == 0 {
			break
		}
		writer, n := readAck(t, w)
		acked[writer] = n
	}
	if err := shutdown(c.image.dir); err != nil {
		t.Skip("the file system cannot be shut down: ", err)
	}
	w.kill()
	c.image.again(t)
	c.check(dir, acked)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
}

// readAck reads which operation of which writer the child has acknowledged.
func readAck(t *testing.T, w *child) (writer, n int) {
	t.Helper()
	var b [8]byte
	for i := range b {
		var err error
		if b[i], err = w.in.ReadByte(); err != nil {
			t.Fatalf("the child ended: %v\n%s", err, &w.stderr)
		}
	}
	return int(binary.LittleEndian.Uint32(b[:])), int(binary.LittleEndian.Uint32(b[4:]))
}

// shutdown makes the file system drop pages that are not on its device.
func shutdown(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	const (
		goingDown  = 0x8004587d // EXT4_IOC_SHUTDOWN
		noLogFlush = 2
	)
	return unix.IoctlSetPointerInt(int(d.Fd()), goingDown, noLogFlush)
}

// check opens the store and compares each writer's keys with the result of its operations.
func (c *cutter) check(dir string, acked []int) {
	t := c.t
	t.Helper()
	s, err := store.Open(dir, engine.Options{FS: fsOf(c.how), SegmentBytes: smallSegment})
	if err != nil {
		t.Fatalf("cycle %d: %v", c.cycle, err)
	}
	for writer, last := range acked {
		durable := last - last%5
		n := durable
		for ; n <= last+1; n++ { // one more may have been made and not been acknowledged
			if c.holds(s, writer, n) {
				break
			}
		}
		if n > last+1 {
			t.Errorf("cycle %d: writer %d: acknowledged as durable up to operation %d, written up to %d; what was found is none of the states in between", c.cycle, writer, durable, last)
		}
		c.durable += durable / 5
		c.written += last - durable/5
		c.kept += max(n-durable, 0)
		c.gone += max(last-n, 0)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// holds reports whether the writer's keys are as its first n operations left them.
func (c *cutter) holds(s *engine.Store, writer, n int) bool {
	for of := n; of > n-cutKeys; of-- {
		key, size := "", -1
		if of > 0 {
			key, size = cutOp(c.cycle, writer, of)
		} else {
			key = fmt.Sprintf("w%d k%d", writer, (of%cutKeys+cutKeys)%cutKeys)
		}
		e, err := s.Get(nil, []byte(key))
		switch {
		case errors.Is(err, engine.ErrNotFound) && size < 0:
		case err != nil && !errors.Is(err, engine.ErrNotFound):
			c.t.Fatal(err)
		case err != nil || size < 0 || !bytes.Equal(e.Value, cutValue(writer, of, size)):
			return false
		}
	}
	return true
}

// unreserved is a file system that cannot reserve space.
type unreserved struct{ vfs.FS }

func (u unreserved) Open(name string, mode vfs.Mode) (vfs.File, error) {
	f, err := u.FS.Open(name, mode)
	if err != nil {
		return nil, err
	}
	return unreservedFile{f}, nil
}

type unreservedFile struct{ vfs.File }

func (unreservedFile) Allocate(int64, int64) error { return errors.ErrUnsupported }

func fsOf(how string) vfs.FS {
	if how == "plain" {
		return unreserved{vfs.OS()}
	}
	return vfs.OS()
}

// writeTask writes with several goroutines, and acknowledges each operation, until it is killed.
func writeTask(o order) error {
	ring := int64(-1)
	if o.How == "ring" {
		ring = 0
	}
	s, err := store.Open(o.Dir, engine.Options{FS: fsOf(o.How), SegmentBytes: smallSegment, RingBytes: ring})
	if err != nil {
		return err
	}
	failed := make(chan error)
	for writer := range cutWriters {
		go func() {
			for n := 1; ; n++ {
				if err := cutWrite(s, o.Cycle, writer, n); err != nil {
					failed <- err
				}
			}
		}()
	}
	err = <-failed
	if strings.Contains(err.Error(), "input/output error") || errors.Is(err, unix.EROFS) {
		select {} // the disk has lost its power: so has this process, soon
	}
	return err
}

func cutWrite(s *engine.Store, cycle, writer, n int) error {
	key, size := cutOp(cycle, writer, n)
	d := engine.Process
	if isDurable(n) {
		d = engine.Power
	}
	var err error
	if size < 0 {
		_, err = s.Delete(nil, []byte(key), d)
	} else {
		err = s.Set(nil, []byte(key), cutValue(writer, n, size), 0, d)
	}
	if err != nil {
		return err
	}
	var b [8]byte
	binary.LittleEndian.PutUint32(b[:], uint32(writer))
	binary.LittleEndian.PutUint32(b[4:], uint32(n))
	_, err = os.Stdout.Write(b[:])
	return err
}
