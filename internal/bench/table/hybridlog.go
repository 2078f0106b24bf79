package table

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/copaldb/copal/hybridlog"
)

// The log alone beside a plain file: the same bytes in the same order, at equal durability, each in
// a file of its own.

// logSizes are the lengths of writes and reads.
var logSizes = []int{128, 512, 1 << 10, 4 << 10, 128 << 10, 1 << 20}

func hybridlogLines(s setting) []line {
	var lines []line
	lines = append(lines, logAppendLine(s, logSizes[0], 1), logAppendLine(s, logSizes[0], many))
	for _, size := range logSizes[1:] {
		lines = append(lines, logAppendLine(s, size, 1))
	}
	for _, size := range logSizes {
		lines = append(lines, logReadLine(s, size))
	}
	return append(lines, logSyncLine(s, hybridlog.SyncEverySecond), logSyncLine(s, hybridlog.AlwaysSync))
}

// appendGoal and readGoal return the goals.
func appendGoal(bytes int) goal {
	switch {
	case bytes <= 128:
		return atLeast(3)
	case bytes <= 512:
		return atLeast(1.5)
	}
	return atLeast(1)
}

func readGoal(bytes int) goal {
	switch {
	case bytes <= 512:
		return atLeast(3)
	case bytes <= 4<<10:
		return atLeast(1.5)
	}
	return atLeast(1)
}

func logAppendLine(s setting, bytes, workers int) line {
	return line{
		name:  fmt.Sprintf("hybridlog/append/%dB/%d", bytes, workers),
		group: "hybridlog: append, surviving kill -9, against os.File.Write",
		rows: []versus{{
			title: fmt.Sprintf("%s, %s", size(bytes), goroutines(workers)),
			ours:  writerName("hybridlog", workers), theirs: []string{writerName("os.File", workers)}, metric: perOp, goal: appendGoal(bytes),
		}},
		setup: func(e *env) ([]side, error) {
			return logWriters(e, bytes, max(min(s.ops, min(s.rawBytes/2, 64<<20)/bytes), 4), workers, hybridlog.NoSync)
		},
	}
}

func logSyncLine(s setting, policy hybridlog.SyncPolicy) line {
	const bytes = 128
	name, ops := "every-second", s.ops
	group := "hybridlog: append of 128 B, synced every second, against os.File"
	if policy == hybridlog.AlwaysSync {
		name, ops = "always", 40*s.perWorker
		group = "hybridlog: append of 128 B, synced when it returns, against os.File.Write and fdatasync"
	}
	l := line{name: "hybridlog/sync/" + name, group: group}
	for _, workers := range []int{1, 16} {
		if workers > 1 && policy != hybridlog.AlwaysSync {
			continue
		}
		l.rows = append(l.rows, versus{title: goroutines(workers), ours: writerName("hybridlog", workers), theirs: []string{writerName("os.File", 1)}, metric: perOp, goal: atLeast(1)})
	}
	l.setup = func(e *env) (sides []side, err error) {
		if sides, err = logWriters(e, bytes, ops, 1, policy); err != nil || policy != hybridlog.AlwaysSync {
			return sides, err
		}
		many, err := logWriter(e, bytes, shuffled(ops*4, ops*4), 16, policy)
		return append(sides, many), err
	}
	return l
}

func writerName(what string, workers int) string {
	if workers == 1 {
		return what
	}
	return fmt.Sprintf("%s, %d", what, workers)
}

func logWriters(e *env, bytes, ops, workers int, policy hybridlog.SyncPolicy) ([]side, error) {
	order := shuffled(ops, ops)
	ours, err := logWriter(e, bytes, order, workers, policy)
	if err != nil {
		return nil, err
	}
	theirs, err := fileWriter(e, bytes, order, workers, policy)
	return []side{ours, theirs}, err
}

func logWriter(e *env, size int, order []int32, workers int, policy hybridlog.SyncPolicy) (side, error) {
	l, err := hybridlog.Open(e.path(fmt.Sprint("log ", workers)), policy)
	if err != nil {
		return side{}, err
	}
	e.after(l.Close)
	w := workload{name: writerName("hybridlog", workers), workers: workers, order: order}
	w.loop = func(_ int, part []int32) error {
		p := newBlob(size)
		for range part {
			if _, err := l.Append(p); err != nil {
				return err
			}
		}
		return nil
	}
	want := newBlob(size)
	w.check = func(int) error { return ends(l, l.Size(), want) }
	return w.side(), nil
}

func fileWriter(e *env, size int, order []int32, workers int, policy hybridlog.SyncPolicy) (side, error) {
	f, err := os.Create(e.path("file"))
	if err != nil {
		return side{}, err
	}
	if policy == hybridlog.SyncEverySecond {
		e.after(syncedEverySecond(f))
	}
	e.after(f.Close)
	p := newBlob(size)
	w := workload{name: writerName("os.File", workers), workers: workers, order: order}
	w.loop = func(_ int, part []int32) error {
		for range part {
			if _, err := f.Write(p); err != nil {
				return err
			}
			if policy == hybridlog.AlwaysSync {
				if err := syncData(f); err != nil {
					return err
				}
			}
		}
		return nil
	}
	w.check = func(int) error {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		return ends(f, info.Size(), p)
	}
	return w.side(), nil
}

// syncedEverySecond syncs a file each second, until the returned function is called.
func syncedEverySecond(f *os.File) func() error {
	stop, done := make(chan struct{}), make(chan error)
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				done <- nil
				return
			case <-tick.C:
				if err := syncData(f); err != nil {
					<-stop
					done <- err
					return
				}
			}
		}
	}()
	return func() error { close(stop); return <-done }
}

type readerAt interface {
	ReadAt(p []byte, off int64) (int, error)
}

// ends checks the last write.
func ends(r readerAt, end int64, want []byte) error {
	got := make([]byte, len(want))
	if _, err := r.ReadAt(got, end-int64(len(want))); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("the last %d bytes are not what was written", len(want))
	}
	return nil
}

// logReadLine reads at random offsets, which are those of no write, and again and again at one.
func logReadLine(s setting, bytes int) line {
	writes := min(s.manyKeys, max(s.rawBytes*3/bytes, 4))
	title := fmt.Sprintf("%s, of %s writes", size(bytes), count(writes))
	row := func(title, ours, theirs string, g goal) versus {
		return versus{title: title, ours: ours, theirs: []string{theirs}, metric: perOp, goal: g}
	}
	rows := []versus{row(title, "ReadAt", "os.File", readGoal(bytes)), row("  View", "View", "os.File", goal{sense: more}.dreaming(10))}
	if bytes <= 4<<10 {
		rows = append(rows, row("  one hot block", "ReadAt, hot", "os.File, hot", atLeast(10)), row("  View of it", "View, hot", "os.File, hot", atLeast(10)))
	} else {
		rows = append(rows, row("  one hot block", "ReadAt, hot", "os.File, hot", goal{sense: more}), row("  View of it", "View, hot", "os.File, hot", atLeast(10)))
	}
	return line{
		name:  fmt.Sprintf("hybridlog/read/%dB", bytes),
		group: "hybridlog: reads at random offsets, every page in memory, against os.File.ReadAt",
		rows:  rows,
		setup: func(e *env) ([]side, error) { return logReaders(e, bytes, writes, min(s.ops, s.rawBytes/4/bytes+4)) },
	}
}

func logReaders(e *env, size, writes, ops int) ([]side, error) {
	l, err := hybridlog.Open(e.path("log"))
	if err != nil {
		return nil, err
	}
	e.after(l.Close)
	f, err := os.Create(e.path("file"))
	if err != nil {
		return nil, err
	}
	e.after(f.Close)
	p := newBlob(size)
	for i := range writes {
		p.mark(int32(i), 0)
		if _, err := l.Append(p); err != nil {
			return nil, err
		}
		if _, err := f.Write(p); err != nil {
			return nil, err
		}
	}
	if err := l.Sync(); err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(1, uint64(size)))
	offsets := make([]int64, ops)
	for i := range offsets {
		offsets[i] = random.Int64N(int64(writes-1)*int64(size) + 1)
	}
	hot := []int64{int64(writes/2) * int64(size)}
	view := func(q []byte, off int64) error {
		return l.View(hybridlog.Address(off), len(q), func(p []byte) error { q[0] = p[len(p)-1]; return nil })
	}
	at := func(r readerAt) func(q []byte, off int64) error {
		return func(q []byte, off int64) error { _, err := r.ReadAt(q, off); return err }
	}
	sides := []side{
		offsetSide("ReadAt", at(l), size, offsets, ops, true), offsetSide("os.File", at(f), size, offsets, ops, true), offsetSide("View", view, size, offsets, ops, false),
		offsetSide("ReadAt, hot", at(l), size, hot, ops, true), offsetSide("os.File, hot", at(f), size, hot, ops, true), offsetSide("View, hot", view, size, hot, ops, false),
	}
	return sides, nil
}

// offsetSide reads at each offset in turn. copied means that q then has the bytes at the offset.
func offsetSide(name string, read func(q []byte, off int64) error, size int, offsets []int64, ops int, copied bool) side {
	w := workload{name: name, workers: 1, order: make([]int32, ops)}
	q, want := make([]byte, size), newBlob(size)
	w.loop = func(_ int, part []int32) error {
		n := 0
		for range part {
			if err := read(q, offsets[n]); err != nil {
				return err
			}
			if n++; n == len(offsets) {
				n = 0
			}
		}
		return nil
	}
	w.check = func(int) error {
		if !copied {
			return nil
		}
		for i := 0; i < len(offsets); i += max(len(offsets)/100, 1) {
			if err := read(q, offsets[i]); err != nil {
				return err
			}
			for at := range q {
				off := offsets[i] + int64(at)
				b := want[off%int64(size)]
				if place := off % int64(size); place < 8 {
					var head [8]byte
					binary.LittleEndian.PutUint32(head[:], uint32(off/int64(size)))
					b = head[place]
				}
				if q[at] != b {
					return fmt.Errorf("%s: the byte at %d is %x, written was %x", name, off, q[at], b)
				}
			}
		}
		return nil
	}
	return w.side()
}
