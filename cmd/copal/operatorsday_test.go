//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/storetest"
)

// TestOperatorsDay does to one store the things that operators do to stores: few descriptors, a
// copy beside a writer, kills, an interrupted restore and repair, a wrong clock, permissions that
// go away for a moment, a full disk, crashes in a row and short lives. After each the last
// acknowledged write is there, and no write is refused for longer than its cause lasts. With
// COPAL_LONG there are 400 crashes and 200 short lives (some minutes).
func TestOperatorsDay(t *testing.T) {
	d := newDay(t)
	for _, hour := range []struct {
		name string
		do   func(*workday, *testing.T)
	}{
		{"few descriptors", (*workday).fewDescriptors},
		{"crashes in a row", (*workday).crashes},
		{"short lives", (*workday).shortLives},
		{"copy across a kill", (*workday).copyAcrossKill},
		{"restore killed", (*workday).restoreKilled},
		{"repair killed", (*workday).repairKilled},
		{"permissions", (*workday).permissions},
		{"full disk", (*workday).fullDisk},
		{"clock", (*workday).clock},
	} {
		t.Run(hour.name, func(t *testing.T) { hour.do(d, t) })
		d.wantAll(t)
	}
}

// A workday is a store and the numbers that its writers have begun and acknowledged.
type workday struct {
	home, dir, acked string
	times            func(short, long int) int
	rng              *rand.Rand
}

func newDay(t *testing.T) *workday {
	home, err := os.MkdirTemp("", "day") // another user enters it, too
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	if err := os.Chmod(home, 0o777); err != nil {
		t.Fatal(err)
	}
	return &workday{home: home, dir: filepath.Join(home, "store"), acked: filepath.Join(home, "acked"), rng: rand.New(rand.NewPCG(1, 37)),
		times: func(short, long int) int {
			if storetest.Long() {
				return long
			}
			return short
		}}
}

// dayVariable has the orders of a writer: the directory, the file of acknowledged numbers, the size
// of a value, and the number of writes, 0 for no end. A process with fewer than all writes kills
// itself after them.
const dayVariable = "COPAL_DAY_CHILD"

func init() { children[dayVariable] = writeForDay }

// writeForDay writes number after number to a map, a hash and a raw key, in one transaction each. A
// number is noted as begun before, and as acknowledged after it. A refused write is tried again
// every few milliseconds.
func writeForDay(order string) {
	var dir, acked string
	var size, most int
	if _, err := fmt.Sscan(order, &dir, &acked, &size, &most); err != nil {
		log.Fatal(err)
	}
	f, err := os.OpenFile(acked, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		log.Fatal(err)
	}
	note := func(at int64, n uint64) {
		if _, err := f.WriteAt(binary.LittleEndian.AppendUint64(nil, n), at); err != nil {
			log.Fatal(err)
		}
	}
	db, err := copal.Open(dir, copal.WithErrorHandler(func(error) {}))
	if err != nil {
		log.Fatal(err)
	}
	m, err := copal.OpenMap[uint64, string](db, "m")
	if err != nil {
		log.Fatal(err)
	}
	h, err := copal.OpenHash[uint64, string](db, "h")
	if err != nil {
		log.Fatal(err)
	}
	raw, value := db.Raw(), strings.Repeat("v", size)
	n, err := copal.Load[uint64](db, "n")
	if err != nil && !errors.Is(err, copal.ErrNotFound) {
		log.Fatal(err)
	}
	for done := 0; most == 0 || done < most; {
		note(8, n+1)
		err := db.Update(func(tx *copal.Tx) error {
			return errors.Join(m.In(tx).Set(n%2000, value), h.In(tx).Set(n%100, "h"), raw.In(tx).Set([]byte("n"), fmt.Append(nil, n+1)))
		})
		if err != nil {
			fmt.Println("refused:", err)
			time.Sleep(5 * time.Millisecond) // as a program does that tries again
			continue
		}
		n++
		done++
		note(0, n)
		fmt.Println("wrote")
	}
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

// A dayWriter is a process that writes. Its counters are of the lines that it has printed.
type dayWriter struct {
	*exec.Cmd
	mu             sync.Mutex
	moved          sync.Cond
	wrote, refused int
	ended          bool
}

// writer starts one, as this user or, if user is not 0, as another, and with so many descriptors if
// files is not 0.
func (d *workday) writer(t *testing.T, size, most, user, files int) *dayWriter {
	t.Helper()
	program, err := os.Executable()
	if err == nil && user > 0 { // who may not enter the directory of this one
		program, err = d.program(program)
	}
	if err != nil {
		t.Fatal(err)
	}
	w := &dayWriter{Cmd: exec.Command(program)}
	w.moved.L = &w.mu
	if files > 0 {
		w.Cmd = exec.Command("/bin/sh", "-c", fmt.Sprintf("ulimit -n %d; exec %q", files, program))
	}
	w.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d %d", dayVariable, d.dir, d.acked, size, most))
	w.Stderr = os.Stderr
	if user > 0 {
		w.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
	}
	out, err := w.StdoutPipe()
	if err == nil {
		err = w.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go w.count(bufio.NewScanner(out))
	t.Cleanup(w.kill)
	return w
}

// program copies one to the directory of the day.
func (d *workday) program(from string) (string, error) {
	b, err := os.ReadFile(from)
	if err != nil {
		return "", err
	}
	path := filepath.Join(d.home, "program")
	return path, os.WriteFile(path, b, 0o755)
}

func (w *dayWriter) count(lines *bufio.Scanner) {
	for more := true; more; {
		more = lines.Scan()
		w.mu.Lock()
		switch {
		case !more:
			w.ended = true
		case lines.Text() == "wrote":
			w.wrote++
		default:
			w.refused++
		}
		w.moved.Broadcast()
		w.mu.Unlock()
	}
}

// wait waits until the writer has printed so many more lines of one kind.
func (w *dayWriter) wait(t *testing.T, counter *int, more int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for enough := *counter + more; *counter < enough; w.moved.Wait() {
		if w.ended {
			t.Fatalf("the writer ended after %d writes and %d refused ones", w.wrote, w.refused)
		}
	}
}

// kill ends the writer with SIGKILL, or waits for the end of one that kills itself.
func (w *dayWriter) kill() {
	w.Process.Kill()
	w.Wait()
}

// copalWith runs the command as a process of its own.
func copalWith(limit int, args ...string) (out string, err error) {
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := &exec.Cmd{Path: program, Args: append([]string{"copal"}, args...), Env: os.Environ()}
	if limit > 0 {
		cmd = exec.Command("/bin/bash", append([]string{"-c", fmt.Sprintf(`ulimit -n %d; exec -a copal "$0" "$@"`, limit), program}, args...)...)
	}
	text, err := cmd.CombinedOutput()
	return string(text), err
}

func mustCopal(t *testing.T, limit int, args ...string) string {
	t.Helper()
	out, err := copalWith(limit, args...)
	if err != nil {
		t.Fatalf("copal %q: %v: %s", args, err, out)
	}
	return out
}

// wantAll looks for the last acknowledged number, in the store of the day.
func (d *workday) wantAll(t *testing.T) {
	t.Helper()
	if err := d.look(d.dir); err != nil {
		t.Fatal(err)
	}
}

// look opens a store and returns an error if it lacks an acknowledged write.
func (d *workday) look(dir string, opts ...copal.Option) (err error) {
	b, err := os.ReadFile(d.acked)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	acked, begun := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	db, err := copal.Open(dir, opts...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	n, err := copal.Load[uint64](db, "n")
	if err != nil {
		return err
	}
	if n < acked || n > begun {
		return fmt.Errorf("%s has number %d; %d was acknowledged, and %d begun", dir, n, acked, begun)
	}
	h, err := copal.OpenHash[uint64, string](db, "h")
	if err != nil {
		return err
	}
	if m, err := copal.OpenMap[uint64, string](db, "m"); err != nil || m.Len() != min(int(n), 2000) || h.Len() != min(int(n), 100) {
		return fmt.Errorf("after %d numbers the map has %d entries and the hash %d fields, %w", n, m.Len(), h.Len(), err)
	}
	return nil
}

func (d *workday) fewDescriptors(t *testing.T) {
	w := d.writer(t, 2000, 0, 0, 64)
	w.wait(t, &w.wrote, d.times(2000, 20_000))
	w.kill()
	for _, args := range [][]string{{"stat", d.dir}, {"check", d.dir}, {"get", d.dir, "n"}, {"backup", d.dir, filepath.Join(d.home, "few")}} {
		mustCopal(t, 64, args...)
	}
}

// crashes leaves a segment with each crash. Compaction merges them while the next process does
// nothing.
func (d *workday) crashes(t *testing.T) {
	for range d.times(60, 400) {
		w := d.writer(t, 10, 1, 0, 0)
		w.Wait()
	}
	for _, args := range [][]string{{"check", d.dir}, {"stat", d.dir}, {"export", d.dir}} {
		mustCopal(t, 64, args...)
	}
	d.wantAll(t)
	db, err := copal.Open(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for db.Stats().Segments > 50 {
		runtime.Gosched()
	}
}

// shortLives overwrites one value of 2 MB in processes that do nothing else.
func (d *workday) shortLives(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range d.times(40, 200) {
		cmd := &exec.Cmd{Path: program, Args: []string{"copal", "set", d.dir, "value", "-"}, Stdin: bytes.NewReader(make([]byte, 2<<20))}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("copal set: %v: %s", err, out)
		}
	}
	db, err := copal.Open(d.dir, copal.ReadOnly())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if s := db.Stats(); s.LogBytes > 2*s.LiveBytes+48<<20 {
		t.Errorf("the log has %d MiB, and %d MiB of them count", s.LogBytes>>20, s.LiveBytes>>20)
	}
}

// copyAcrossKill copies the store of a live writer, kills the writer and copies again.
func (d *workday) copyAcrossKill(t *testing.T) {
	if _, err := exec.LookPath("rsync"); err != nil {
		t.Skip("there is no rsync")
	}
	for i := range d.times(2, 10) {
		dir := filepath.Join(d.home, fmt.Sprint("copy", i))
		rsync := func() { exec.Command("rsync", "-a", d.dir+"/", dir+"/").Run() } // files may go while it copies
		w := d.writer(t, 200, 0, 0, 0)
		w.wait(t, &w.wrote, 200)
		rsync()
		w.wait(t, &w.wrote, 50)
		w.kill()
		rsync()
		err := d.look(dir)
		if err != nil && !errors.Is(err, copal.ErrCopied) {
			t.Error(err)
		}
		t.Logf("the copy: %v", err)
	}
}

// restoreKilled kills restorations until one ends by itself.
func (d *workday) restoreKilled(t *testing.T) {
	backup, dir := filepath.Join(d.home, "backup"), filepath.Join(d.home, "restored")
	mustCopal(t, 0, "backup", d.dir, backup)
	d.killed(t, "restore", dir, backup)
	if err := d.look(dir); err != nil {
		t.Error(err)
	}
}

// killed runs a command again and again, and kills it after a longer time each time.
func (d *workday) killed(t *testing.T, args ...string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for i := range d.times(5, 30) {
		cmd := &exec.Cmd{Path: program, Args: append([]string{"copal"}, args...), Env: os.Environ()}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(d.rng.IntN(5*(i+1)))*time.Millisecond, func() { cmd.Process.Kill() })
		err := cmd.Wait()
		timer.Stop()
		if err == nil {
			return
		}
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() >= 0 {
			t.Fatalf("copal %q after a kill: %v", args, err)
		}
	}
	mustCopal(t, 0, args...)
}

// repairKilled damages a copy of the store, and kills repairs of it. All that was intact is there
// in the end.
func (d *workday) repairKilled(t *testing.T) {
	dir := filepath.Join(d.home, "restored")
	segments, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(segments) == 0 {
		t.Fatal(segments, err)
	}
	f, err := os.OpenFile(segments[0], os.O_RDWR, 0)
	if err == nil {
		var stat os.FileInfo
		if stat, err = f.Stat(); err == nil {
			_, err = f.WriteAt([]byte("damage"), stat.Size()/2)
		}
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := copalWith(0, "check", dir); err == nil {
		t.Fatalf("the damage is not found: %s", out)
	}
	d.killed(t, "repair", dir, "--yes")
	mustCopal(t, 0, "check", dir)
	db, err := copal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if n := db.Raw().Len(); n < 2000 {
		t.Errorf("%d entries are left", n)
	}
}

// permissions takes the rights on the directory from a writer, and gives them back.
func (d *workday) permissions(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: no process runs as another user")
	}
	const nobody = 65534
	err := filepath.WalkDir(d.home, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, nobody, nobody))
	})
	if err != nil {
		t.Fatal(err)
	}
	w := d.writer(t, 2000, 0, nobody, 0)
	w.wait(t, &w.wrote, 100)
	if err := os.Chmod(d.dir, 0); err != nil {
		t.Fatal(err)
	}
	w.wait(t, &w.wrote, 3000) // through a sync interval or more, and without a new file so far
	if err := os.Chmod(d.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	w.wait(t, &w.wrote, 3000)
	w.kill()
}

// fullDisk goes on on a disk that becomes full, and has room again.
func (d *workday) fullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: nothing can be mounted")
	}
	small := filepath.Join(d.home, "small")
	if err := os.Mkdir(small, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", small, "tmpfs", 0, "size=96m"); err != nil {
		t.Skip("mounting a tmpfs is refused: ", err)
	}
	t.Cleanup(func() { unix.Unmount(small, unix.MNT_DETACH) })
	other := *d
	other.dir, other.acked = filepath.Join(small, "store"), filepath.Join(d.home, "acked-small")
	w := other.writer(t, 2000, 0, 0, 0)
	w.wait(t, &w.wrote, 2100)
	filler := filepath.Join(small, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 1<<20))
	}
	f.Close()
	w.wait(t, &w.refused, 3)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	w.wait(t, &w.wrote, 5000)
	w.kill()
	other.wantAll(t)
}

// clock writes by a clock that is a day ahead, in a restored store, and then by the right one.
func (d *workday) clock(t *testing.T) {
	backup, dir := filepath.Join(d.home, "backup"), filepath.Join(d.home, "ahead")
	mustCopal(t, 0, "backup", d.dir, backup)
	mustCopal(t, 0, "restore", dir, backup)
	write := func(key string) error {
		db, err := copal.Open(dir, copal.WithHistory(1000*24*time.Hour), copal.WithErrorHandler(func(error) {}))
		if err != nil {
			return err
		}
		return errors.Join(db.Raw().Set([]byte(key), []byte("1")), db.Close())
	}
	now := time.Now()
	var err error
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(now) + 24*time.Hour)
		err = write("tomorrow")
	})
	if err == nil {
		err = write("today")
	}
	if err != nil {
		t.Fatal(err)
	}
	if out := mustCopal(t, 0, "count", dir); !strings.Contains(out, "ahead of the clock") {
		t.Errorf("the clock is not reported: %s", out)
	}
	entries := func() string {
		lines := strings.Split(strings.TrimSpace(mustCopal(t, 0, "count", dir)), "\n")
		return lines[len(lines)-1]
	}
	before := entries()
	if out, err := copalWith(0, "undo", dir, "--since", "2s", "--yes"); err == nil {
		t.Errorf("undo by a time that the log cannot know: %s", out)
	}
	if after := entries(); after != before {
		t.Errorf("%s entries, and %s after a refused undo", before, after)
	}
}
