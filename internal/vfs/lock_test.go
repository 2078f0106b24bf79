package vfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestMain lets the test binary be the other process: it takes the lock, says so, and keeps it
// until its input ends. The switch that turns mapping off is off: mapping is tested here, and the
// switch has a test of its own.
func TestMain(m *testing.M) {
	os.Unsetenv("COPAL_NO_MMAP")
	name := os.Getenv("VFS_TEST_LOCK")
	if name == "" {
		os.Exit(m.Run())
	}
	if _, err := OS().Lock(name); err != nil {
		os.Stdout.WriteString("error: " + err.Error() + "\n")
		os.Exit(1)
	}
	os.Stdout.WriteString("locked\n")
	io.Copy(io.Discard, os.Stdin)
}

// holdElsewhere locks name in another process.
func holdElsewhere(t *testing.T, name string) (child *exec.Cmd, release io.Closer) {
	t.Helper()
	child = exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "VFS_TEST_LOCK="+name)
	in, err := child.StdinPipe()
	check(t, err)
	out, err := child.StdoutPipe()
	check(t, err)
	check(t, child.Start())
	t.Cleanup(func() { child.Process.Kill(); child.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "locked\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	return child, in
}

func wantLocked(t *testing.T, fsys FS, name string, pid int) {
	t.Helper()
	_, err := fsys.Lock(name)
	var locked *LockedError
	if !errors.As(err, &locked) {
		t.Fatalf("locking again: %v", err)
	}
	if locked.PID != pid || locked.Name != name {
		t.Fatalf("%v; want process %d", locked, pid)
	}
}

func TestLockInOneProcess(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, "LOCK")
		_, err := fsys.Lock(filepath.Join(dir, "no", "LOCK"))
		wantErr(t, err, fs.ErrNotExist)
		if _, err := fsys.Lock(dir); err == nil {
			t.Fatal("locked a directory")
		}
		for range 2 {
			lock, err := fsys.Lock(name)
			check(t, err)
			wantLocked(t, fsys, name, os.Getpid())
			wantNames(t, fsys, dir, "LOCK")
			check(t, lock.Close())
			wantErr(t, lock.Close(), fs.ErrClosed)
			wantNames(t, fsys, dir, "LOCK")
		}
	})
}

func TestLockFileHoldsThePID(t *testing.T) {
	name := filepath.Join(t.TempDir(), "LOCK")
	check(t, os.WriteFile(name, []byte("12345678901\nmore\n"), 0o600))
	lock, err := OS().Lock(name)
	check(t, err)
	defer lock.Close()
	text, err := os.ReadFile(name)
	check(t, err)
	if want := strconv.Itoa(os.Getpid()) + "\n"; !strings.HasPrefix(string(text), want) || strings.Contains(string(text), "more") {
		t.Fatalf("lock file holds %q, want %q", text, want)
	}
}

func TestReadPID(t *testing.T) {
	for text, want := range map[string]int{"": 0, "12": 0, "12\n": 12, "12\n345\n": 12, "x\n": 0, "\n": 0} {
		f := create(t, NewMem(), "f", text)
		if got := lockedBy("LOCK", f).PID; got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// TestLockTellsWho: the error of a lock that is held says by whom, as far as that is known here.
func TestLockTellsWho(t *testing.T) {
	own, here := os.Getpid(), pidNamespace()
	child, _ := holdElsewhere(t, filepath.Join(t.TempDir(), "LOCK"))
	gone, _ := holdElsewhere(t, filepath.Join(t.TempDir(), "LOCK"))
	check(t, gone.Process.Kill())
	gone.Wait()
	for _, c := range []struct {
		held LockedError
		want string
	}{
		{LockedError{}, "LOCK is locked by another process"},
		{LockedError{PID: own, Space: here}, fmt.Sprintf("LOCK is locked by this process, %d, which has it open already", own)},
		{LockedError{PID: child.Process.Pid, Space: here}, fmt.Sprintf("LOCK is locked by process %d", child.Process.Pid)},
		{LockedError{PID: child.Process.Pid}, fmt.Sprintf("LOCK is locked by process %d", child.Process.Pid)},
		{LockedError{PID: own, Space: "pid:[1]"}, fmt.Sprintf("LOCK is locked by process %d of another pid namespace, as in a container", own)},
		{LockedError{PID: gone.Process.Pid, Space: here}, fmt.Sprintf("LOCK is locked by process %d, which is of another machine or of another pid namespace", gone.Process.Pid)},
	} {
		if c.held.PID == gone.Process.Pid && processExists(c.held.PID) {
			continue // a new process may have the number
		}
		c.held.Name = "LOCK"
		if got := c.held.Error(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	name := filepath.Join(t.TempDir(), "LOCK")
	lock, err := OS().Lock(name)
	check(t, err)
	defer lock.Close()
	if _, err := OS().Lock(name); !strings.Contains(fmt.Sprint(err), "by this process") {
		t.Errorf("locked twice: %v", err)
	}
}

func TestLockInTwoProcesses(t *testing.T) {
	name := filepath.Join(t.TempDir(), "LOCK")
	child, release := holdElsewhere(t, name)
	wantLocked(t, OS(), name, child.Process.Pid)
	check(t, release.Close())
	check(t, child.Wait())
	lock, err := OS().Lock(name)
	check(t, err)
	check(t, lock.Close())
}

func TestLockDiesWithItsHolder(t *testing.T) {
	name := filepath.Join(t.TempDir(), "LOCK")
	child, _ := holdElsewhere(t, name)
	wantLocked(t, OS(), name, child.Process.Pid)
	check(t, child.Process.Kill())
	child.Wait()
	lock, err := OS().Lock(name)
	check(t, err)
	check(t, lock.Close())
}
