package hybridlog

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A real process on a real file system is killed while it writes, again and again. It reports each
// acknowledged write through a pipe; each reported write is there afterwards, whole and in order,
// and so is everything before it.

const childVariable = "COPAL_HYBRIDLOG_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		fmt.Fprintln(os.Stderr, child(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// killEntry is the i-th entry.
func killEntry(i uint64) []byte {
	rng := rand.New(rand.NewPCG(i, 11))
	p := make([]byte, 8+rng.IntN([]int{30, 300, 5000, 100_000}[rng.IntN(40)/13%4]))
	for j := 8; j < len(p); j++ {
		p[j] = byte(uint64(j) * (i + 1))
	}
	binary.LittleEndian.PutUint64(p, i)
	return p
}

func killOptions() []Option { return []Option{SegmentBytes(1 << 20), CompactFragments(4)} }

// child writes until it is killed.
func child(dir string) error {
	l, err := Open(dir, killOptions()...)
	if err != nil {
		return err
	}
	n := uint64(0)
	for _, err := range l.Spans(0) {
		if err != nil {
			return err
		}
		n++
	}
	for ; ; n++ {
		if _, err := l.Append(killEntry(n)); err != nil {
			return err
		}
		if n%64 == 63 {
			if err := l.Sync(); err != nil {
				return err
			}
		}
		var ack [8]byte
		binary.LittleEndian.PutUint64(ack[:], n)
		if _, err := os.Stdout.Write(ack[:]); err != nil {
			return err
		}
	}
}

func TestKill(t *testing.T) {
	cycles := 5
	if longTest() {
		cycles = 2000
	}
	dir := filepath.Join(t.TempDir(), "log")
	seed := rand.Uint64N(1_000_000)
	rng := rand.New(rand.NewPCG(seed, 12))
	lost := 0
	for cycle := range cycles {
		acked := killed(t, dir, 1+rng.IntN(400))
		l, err := Open(dir, killOptions()...)
		if err != nil {
			t.Fatalf("seed %d, cycle %d: %v", seed, cycle, err)
		}
		n := uint64(0)
		for e, err := range l.Entries(0) {
			if err != nil || !bytes.Equal(e.Data, killEntry(n)) {
				t.Fatalf("seed %d, cycle %d: entry %d at %d, %d bytes: %v", seed, cycle, n, e.Address, len(e.Data), err)
			}
			n++
		}
		if n < acked {
			lost++
			t.Errorf("seed %d, cycle %d: %d entries were acknowledged, %d are there", seed, cycle, acked, n)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if l.Size() > 20<<20 { // it takes its time to read
			dir = filepath.Join(t.TempDir(), "log")
		}
	}
	t.Logf("%d kills, %d lost", cycles, lost)
}

// killed lets a child acknowledge so many writes, kills it, and returns how many entries were acknowledged then.
func killed(t *testing.T, dir string, writes int) uint64 {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+dir)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(pipe)
	acked := uint64(0)
	var ack [8]byte
	for n := 0; ; n++ {
		if n == writes {
			cmd.Process.Kill()
		}
		if _, err := io.ReadFull(r, ack[:]); err != nil {
			break // and the writes in the pipe have been acknowledged, too
		}
		acked = binary.LittleEndian.Uint64(ack[:]) + 1
	}
	cmd.Wait()
	if acked == 0 {
		t.Fatal("the child acknowledged nothing")
	}
	return acked
}
