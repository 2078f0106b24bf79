package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/copaldb/copal/admin"
)

// look shows the log, its size, and the result of Check.
func (t *tour) look(ctx context.Context, files sources) error {
	t.title("5  Looking inside")
	if err := t.weigh(files); err != nil {
		return err
	}
	start := time.Now()
	report, err := admin.Check(context.Background(), t.dir, nil)
	if err != nil {
		return err
	}
	t.row("admin.Check", "%v", report)
	t.row("", "every checksum of %s verified in %v", megabytes(report.LogBytes), since(start))
	t.say("")
	t.say("The log is text. Its first lines, and its first counters:")
	t.say("")
	logs, err := filepath.Glob(filepath.Join(t.dir, "*.log"))
	if err != nil || len(logs) == 0 {
		return fmt.Errorf("no log in %s: %w", t.dir, err)
	}
	if err := t.lines(logs[0], 4, func(string) bool { return true }); err != nil {
		return err
	}
	t.say("")
	return t.lines(logs[0], 3, func(line string) bool {
		return strings.Contains(line[:min(len(line), 60)], " length:") // in the key
	})
}

// weigh opens the store once more and prints its sizes, in memory and on disk.
func (t *tour) weigh(files sources) error {
	before := heap()
	lib, err := openLibrary(t.dir)
	if err != nil {
		return err
	}
	defer lib.db.Close()
	after := heap()
	s := lib.db.Stats()
	t.row("log", "%s in %d files, %s live", megabytes(s.LogBytes), s.Segments, megabytes(s.LiveBytes))
	t.row("entries", "%s, in %s records; a ratio of %.2f", number(int(s.Keys)), number(int(s.Records)), s.Ratio())
	t.row("memory", "%s of index; the heap grew by %s when the store was opened", megabytes(s.IndexBytes), megabytes(max(0, after-before)))
	return nil
}

// heap returns the bytes in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// lines prints the first n lines of a file that are wanted, cut to the width of the page.
func (t *tour) lines(name string, n int, wanted func(string) bool) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReader(f)
	for n > 0 {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil // there are fewer
		}
		if wanted(line) {
			t.verbatim(strings.TrimSuffix(line, "\n"))
			n--
		}
	}
	return nil
}
