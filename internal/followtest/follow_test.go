package followtest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/seglog"
)

// childVariable holds the directory of a process that writes until it is killed. With freshVariable
// it reports when it has opened the store, waits before it writes, and its ring is small.
const (
	childVariable = "COPAL_FOLLOWTEST_CHILD"
	freshVariable = "COPAL_FOLLOWTEST_FRESH"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		fmt.Fprintln(os.Stderr, write(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

const keys = 100

// write sets the keys of a map to ascending numbers, in turn by Set and SetFSync, and says so after
// each. Segments are small and compacted all the time, unless a watch must yield everything.
func write(dir string) error {
	fresh := os.Getenv(freshVariable) != ""
	if fresh {
		seglog.DefaultRingBytes = 8 << 10
	} else {
		seglog.DefaultSegmentBytes = 16 << 10
	}
	db, err := copal.Open(dir)
	if err != nil {
		return err
	}
	if fresh {
		fmt.Println(0)
		if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
			return err
		}
	}
	counters, err := copal.OpenMap[int, int](db, "counters")
	if err != nil {
		return err
	}
	last, err := copal.Load[int](db, "last")
	if err != nil && !errors.Is(err, copal.ErrNotFound) {
		return err
	}
	for n := last + 1; ; n++ {
		set := counters.Set
		if n%20 == 0 {
			set = counters.SetFSync
		}
		if fresh { // some pass the ring by
			if err := db.Raw().Set([]byte("long"), bytes.Repeat([]byte("x"), n*371%4000)); err != nil {
				return err
			}
		}
		if err := set(n%keys, n); err != nil {
			return err
		}
		if err := copal.Set(db, "last", n); err != nil {
			return err
		}
		if _, err := fmt.Println(n); err != nil {
			return err
		}
		if n%pause == 0 {
			if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
				return err
			}
		}
	}
}

// pause is the number of writes after which the writer waits for the word to go on: so the parent
// knows when it has acknowledged the last.
const pause = 150

// child is a writer.
type child struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
	in    io.Writer
}

func startChild(t *testing.T, dir string, env ...string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), childVariable+"="+dir), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	in, err2 := cmd.StdinPipe()
	if err = errors.Join(err, err2); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: cmd, lines: bufio.NewScanner(out), in: in}
	t.Cleanup(c.kill)
	return c
}

// acked returns the next number that the writer says is set.
func (c *child) acked(t *testing.T) int {
	t.Helper()
	if !c.lines.Scan() {
		t.Fatalf("the writer has ended: %v", errors.Join(c.lines.Err(), io.EOF))
	}
	n, err := strconv.Atoi(c.lines.Text())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// goOn lets the writer go on that has paused.
func (c *child) goOn(t *testing.T) {
	t.Helper()
	if _, err := c.in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
}

func (c *child) kill() {
	c.cmd.Process.Kill()
	c.cmd.Wait()
}

// TestFollowAnotherProcess: another process sees acknowledged writes soon after, also if the first
// is killed.
func TestFollowAnotherProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	ctx := t.Context()
	if deadline, ok := t.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-5*time.Second))
		defer cancel()
	}
	dir := t.TempDir()
	c := startChild(t, dir)
	c.acked(t)
	db, err := copal.Open(dir, copal.ReadOnly(), copal.WithErrorHandler(func(err error) { t.Error(err) }))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	counters, err := copal.OpenMap[int, int](db, "counters")
	if err != nil {
		t.Fatal(err)
	}
	var latencies []time.Duration
	last := 0
	for life := range 6 {
		if _, err := copal.Open(dir); !errors.Is(err, copal.ErrLocked) || !strings.Contains(err.Error(), strconv.Itoa(c.cmd.Process.Pid)) {
			t.Fatalf("a second writer: %v; the first is process %d", err, c.cmd.Process.Pid)
		}
		for range 12 {
			for n := 1; n%pause > 0; last = n {
				if n = c.acked(t); n <= last {
					t.Fatalf("the writer has lost what it acknowledged: %d after %d", n, last)
				}
			}
			latencies = append(latencies, await(ctx, t, counters, last))
			c.goOn(t)
		}
		for range 40 { // it dies while it writes
			last = c.acked(t)
		}
		c.kill()
		for c.lines.Scan() { // its acknowledgements before it died
			if n, err := strconv.Atoi(c.lines.Text()); err == nil {
				last = n
			}
		}
		await(ctx, t, counters, last)
		if err := db.Refresh(); err != nil {
			t.Fatalf("life %d: Refresh beside nobody: %v", life, err)
		}
		if counters.Len() != keys {
			t.Fatalf("%d keys, want %d", counters.Len(), keys)
		}
		for k, n := range counters.All() {
			if n%keys != k || n <= last-keys {
				t.Fatalf("life %d: %d is %d; the last was %d", life, k, n, last)
			}
		}
		c = startChild(t, dir)
		last = c.acked(t)
	}
	names, err := os.ReadDir(dir)
	if err != nil || !slices.ContainsFunc(names, func(e os.DirEntry) bool { return strings.Contains(e.Name(), "-") }) {
		t.Errorf("nothing was compacted: %v, %v", names, err)
	}
	slices.Sort(latencies)
	t.Logf("from the acknowledgement in one process to the read in the other: median %v, longest %v, of %d", latencies[len(latencies)/2], latencies[len(latencies)-1], len(latencies))
	if os.Getenv("COPAL_LONG") != "" && latencies[len(latencies)-1] > time.Second {
		t.Errorf("longer than a second")
	}
}

// TestFollowFromAnEmptyDirectory: a process reads a store that another one has opened and not
// written to yet. Some writers are killed before the first write. The maps and the watch that the
// reader had by then show everything that is written later.
func TestFollowFromAnEmptyDirectory(t *testing.T) {
	for round := range 4 {
		dir := t.TempDir()
		if _, err := copal.Open(dir, copal.ReadOnly()); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("an empty directory opens for reading: %v", err)
		}
		c := startChild(t, dir, freshVariable+"=1")
		c.acked(t) // it has opened the store
		if round%2 == 1 {
			c.kill()
		}
		db, err := copal.Open(dir, copal.ReadOnly(), copal.WithErrorHandler(func(err error) { t.Error(err) }))
		if err != nil {
			t.Fatal(err)
		}
		counters, err := copal.OpenMap[int, int](db, "counters")
		if err != nil {
			t.Fatal(err)
		}
		told := make(chan int, 10_000)
		ctx, stop := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		changes := counters.Watch(ctx)
		watching.Go(func() {
			defer close(told)
			for c, err := range changes {
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					return
				}
				told <- c.Value
			}
		})
		if round%2 == 1 {
			c = startChild(t, dir, freshVariable+"=1")
			c.acked(t)
		}
		last, heard := 0, 0
		for range 3 {
			c.goOn(t)
			for n := 1; n%pause > 0; last = n {
				if n = c.acked(t); n != last+1 {
					t.Fatalf("%d was written after %d", n, last)
				}
			}
			if err := db.Refresh(); err != nil {
				t.Fatal(err)
			}
			for n := max(last-keys+1, 1); n <= last; n++ {
				if got, err := counters.Load(n % keys); err != nil || got != n {
					t.Fatalf("round %d: Load(%d) = %d, %v, want %d", round, n%keys, got, err, n)
				}
			}
			for heard < last { // or the test is ended by its time limit
				n, ok := <-told
				if heard++; !ok || n != heard {
					t.Fatalf("round %d: %d is told, %v, want %d", round, n, ok, heard)
				}
			}
		}
		stop()
		watching.Wait()
		c.kill()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// await returns when the number is seen, and how long that took.
func await(ctx context.Context, t *testing.T, counters *copal.Map[int, int], n int) time.Duration {
	t.Helper()
	begun := time.Now()
	for tick := time.NewTicker(time.Millisecond); ; {
		if got, _ := counters.Get(n % keys); got >= n {
			tick.Stop()
			return time.Since(begun)
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%d was acknowledged, and is not seen", n)
		case <-tick.C:
		}
	}
}
