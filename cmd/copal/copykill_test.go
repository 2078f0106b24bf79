package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/storetest"
)

// TestCopyKilled kills copal copy up to ten times, after it has noted its position, while writes to
// the source go on. The run after that ends with both stores equal when the writes have stopped,
// and has not started over. With COPAL_LONG there are a million entries, ten kills, and a thousand
// writes a second (two minutes).
func TestCopyKilled(t *testing.T) {
	entries, wanted, rate := 20_000, 1, 2 // it is through a small store before it is killed, most times
	if storetest.Long() {
		entries, wanted, rate = 1_000_000, 10, 10
	}
	notes := entries / 200 // of the position, at most, before a run is killed: each collection has one
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	source, err := copal.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	made, err := copal.Open(to) // so that it can be watched
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Close(); err != nil {
		t.Fatal(err)
	}
	w := &copiedWriter{db: source, entries: entries, rate: rate, r: rand.New(rand.NewPCG(1, 1))}
	for i := range entries {
		if err := w.write(i); err != nil {
			t.Fatal(err)
		}
	}
	w.begin()
	defer w.end()
	r := rand.New(rand.NewPCG(1, 2))
	killed := 0
	for range 10 {
		if killCopy(t, from, to, 1+r.IntN(notes)) {
			killed++
		}
	}
	before := w.written.Load()
	stop := &whenRead{do: w.end}
	code, out, told := command(stop, "copy", from, to, "--cutover", "--json")
	if stop.err != nil {
		t.Fatal(stop.err)
	}
	var report struct {
		Written int
		Resumed bool
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != 0 {
		t.Fatalf("exit code %d: %q, %q, %v", code, out, told, err)
	}
	t.Logf("killed %d times, %d writes while copies ran, %d of them during the last, which wrote %d entries", killed, w.written.Load(), w.written.Load()-before, report.Written)
	if !report.Resumed || report.Written >= entries*3/4+int(w.written.Load()-before) || killed < wanted {
		t.Errorf("killed %d times, and then %+v", killed, report)
	}
	if code, out, told := command(strings.NewReader(""), "diff", from, to); code != 0 || out != "no differences\n" {
		t.Errorf("exit code %d: %.200s, %.200s", code, out, told)
	}
}

// whenRead calls a function at a read, and is an empty line.
type whenRead struct {
	do   func() error
	err  error
	line *strings.Reader
}

func (w *whenRead) Read(p []byte) (int, error) {
	if w.line == nil {
		w.line, w.err = strings.NewReader("\n"), w.do()
	}
	return w.line.Read(p)
}

// copiedWriter writes under the keys of a copy's source, some hundred times a second or a thousand
// times.
type copiedWriter struct {
	db      *copal.DB
	entries int
	rate    int // writes in ten milliseconds
	r       *rand.Rand
	written atomic.Int64
	stop    chan struct{}
	ended   chan error
	once    sync.Once
	err     error
}

func (w *copiedWriter) begin() {
	w.stop, w.ended = make(chan struct{}), make(chan error, 1)
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-w.stop:
				w.ended <- nil
				return
			case <-tick.C:
			}
			for range w.rate {
				if err := w.write(w.r.IntN(w.entries)); err != nil {
					w.ended <- err
					return
				}
				w.written.Add(1)
			}
		}
	}()
}

// end returns when nothing is written any more.
func (w *copiedWriter) end() error {
	w.once.Do(func() {
		close(w.stop)
		w.err = <-w.ended
	})
	return w.err
}

// write makes one write, of one shape of many.
func (w *copiedWriter) write(i int) error {
	key, raw, n := fmt.Appendf(nil, "key-%07d", i), w.db.Raw(), w.r.IntN(40)
	switch n {
	case 0, 1:
		_, err := raw.Delete(key)
		return err
	case 2, 3, 4:
		if raw.Has(key) {
			if _, err := raw.Delete(key); err != nil {
				return err
			}
		}
		switch n {
		case 2:
			return raw.Hash(key).Set(fmt.Sprint(w.r.IntN(3)), []byte("v"))
		case 3:
			return raw.List(key).PushBack([]byte("a"), []byte("b"))
		}
		return raw.SortedSet(key).Set(fmt.Sprint(w.r.IntN(3)), w.r.Float64())
	case 5, 6:
		return raw.SetTTL(key, []byte("has a deadline"), time.Hour)
	case 7:
		return raw.Set(key, bytes.Repeat([]byte("long"), 1+w.r.IntN(2000)))
	case 8:
		b := raw.Batch()
		b.Set(key, []byte("of a batch"))
		b.Delete(fmt.Appendf(nil, "key-%07d", w.r.IntN(w.entries)))
		return b.Commit()
	case 9:
		if w.r.IntN(1000) > 0 { // one reads all keys, in the copy, too
			return nil
		}
		return raw.DeletePrefix(key[:len(key)-1])
	case 10:
		return admin.Put(w.db, &admin.Entry{Key: key, Value: []byte("<p>"), Content: "text/html"})
	case 11:
		if raw.Has(key) {
			if _, err := raw.Delete(key); err != nil {
				return err
			}
		}
		return raw.Stream(key).Set(fmt.Sprint(w.r.IntN(3)), []byte("v"))
	}
	return raw.Set(key, fmt.Appendf(nil, "%d", w.r.IntN(1000)))
}

// killCopy kills a copy that has noted its position so often, and reports whether it was still
// running.
func killCopy(t *testing.T, from, to string, notes int) bool {
	t.Helper()
	reader, err := copal.Open(to, copal.ReadOnly())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	changes := reader.Watch(ctx, copal.WithKey([]byte("copal.copy:position")))
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	cmd := &exec.Cmd{Path: program, Args: []string{"copal", "copy", from, to}, Env: os.Environ(), Stderr: &told}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		end()
	}()
	for _, err := range changes {
		if err != nil {
			break // it has ended before
		}
		if notes--; notes == 0 {
			cmd.Process.Kill()
			break
		}
	}
	err = <-ended
	if err != nil && cmd.ProcessState.Exited() {
		t.Fatalf("%v: %s", err, told.String())
	}
	return err != nil
}
