//go:build linux

package disktest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/hybridlog"
)

// The files of a store, and of a hybridlog, are copied while a process writes and after it was
// killed, by the tools that people have. A copy has all that was acknowledged, or it does not open
// unless it is accepted.

// counter is a log that holds the number of the last write.
type counter struct {
	open    func(dir string, accept bool) (counted, error)
	copied  error
	corrupt error
}

type counted interface {
	last() (int, error)
	set(n int) error
	Close() error
}

type countedStore struct{ *copal.DB }

func (s countedStore) last() (int, error) {
	text, err := s.Raw().Load([]byte("n"))
	if errors.Is(err, copal.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

func (s countedStore) set(n int) error { return s.Raw().Set([]byte("n"), fmt.Appendf(nil, "%200d", n)) }

type countedLog struct{ *hybridlog.Log }

const countedBytes = 200

func (l countedLog) last() (int, error) { return int(l.Size() / countedBytes), nil }

func (l countedLog) set(n int) error {
	_, err := l.Append(fmt.Appendf(nil, "%*d", countedBytes, n))
	return err
}

var counters = map[string]counter{
	"store": {func(dir string, accept bool) (counted, error) {
		opts := []copal.Option{copal.WithErrorHandler(func(error) {})}
		if accept {
			opts = append(opts, copal.AcceptCopy())
		}
		db, err := copal.Open(dir, opts...)
		return countedStore{db}, err
	}, copal.ErrCopied, copal.ErrCorrupt},
	"hybridlog": {func(dir string, accept bool) (counted, error) {
		opts := []hybridlog.Option{hybridlog.OnError(func(error) {})}
		if accept {
			opts = append(opts, hybridlog.AcceptCopy())
		}
		l, err := hybridlog.Open(dir, opts...)
		return countedLog{l}, err
	}, hybridlog.ErrCopied, hybridlog.ErrCorrupt},
}

// countTask writes one number after the other, and says each when it is acknowledged.
func countTask(o order) error {
	c, err := counters[o.How].open(o.Dir, false)
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		if err := c.set(n); err != nil {
			return err
		}
		say(n)
	}
}

// hearMore waits for n acknowledgements.
func hearMore(c *child, n int) {
	c.t.Helper()
	for range n {
		c.hear()
	}
}

// killCounting kills the child, and returns the last number that it has acknowledged.
func killCounting(c *child) (acked int) {
	c.t.Helper()
	line := c.hear()
	c.cmd.Process.Kill()
	for {
		n, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			c.t.Fatalf("the child said %q", line)
		}
		acked = n
		if line, err = c.in.ReadString('\n'); err != nil {
			c.cmd.Wait()
			return acked
		}
	}
}

// judge opens a copy of a killed log of which acked was the last write. It reports whether that
// opened by itself.
func (x *counter) judge(t *testing.T, dir string, acked int) (opens bool) {
	t.Helper()
	found := func(accept bool) (int, error) {
		c, err := x.open(dir, accept)
		if err != nil {
			return 0, err
		}
		n, err := c.last()
		return n, errors.Join(err, c.Close())
	}
	n, err := found(false)
	switch {
	case err == nil && n < acked:
		t.Errorf("the copy opens with %d of %d acknowledged writes", n, acked)
		return true
	case err == nil:
		return true
	case errors.Is(err, x.corrupt):
		return false
	case !errors.Is(err, x.copied):
		t.Errorf("the copy does not open: %v", err)
		return false
	}
	if n, err = found(true); err != nil {
		if !errors.Is(err, x.corrupt) {
			t.Errorf("the accepted copy does not open: %v", err)
		}
		return false
	}
	t.Logf("the accepted copy has %d of %d writes", n, acked)
	if again, err := found(false); err != nil || again != n {
		t.Errorf("the copy that was accepted and closed has %d, not %d: %v", again, n, err)
	}
	return false
}

// tool copies the directory from in home into the directory to there: once while a process writes,
// unless alive is nil, and once when it is dead.
type tool struct {
	name        string
	alive, dead func(home string) []string // the command
}

func rsync(flags ...string) func(home string) []string {
	return func(home string) []string {
		return append(append([]string{"rsync"}, flags...), home+"/from/", home+"/to/")
	}
}

func cp(flags string) func(home string) []string {
	return func(home string) []string { return []string{"cp", flags, home + "/from/.", home + "/to"} }
}

// tar makes an archive of the new files, and unpacks it.
func tar(home string) []string {
	return []string{"sh", "-c", "cd $0 && rm -f tar && tar -C from -cf tar --listed-incremental=$0/seen . ; tar -C to -xf tar --listed-incremental=/dev/null", home}
}

var tools = []tool{
	{"rsync -a", nil, rsync("-a")},
	{"rsync -a twice", rsync("-a"), rsync("-a")},
	{"rsync -a --delete", rsync("-a"), rsync("-a", "--delete")},
	{"rsync -ac", rsync("-a"), rsync("-ac")},
	{"rsync --inplace", rsync("-a"), rsync("-a", "--inplace")},
	{"tar --listed-incremental", tar, tar},
	{"cp -a", nil, cp("-a")},
	{"cp -a twice", cp("-a"), cp("-a")},
	{"cp -au", cp("-a"), cp("-au")},
}

func TestCopiesAcrossAKill(t *testing.T) {
	t.Parallel()
	for kind, x := range counters {
		for _, tool := range tools {
			t.Run(kind+"/"+tool.name, func(t *testing.T) {
				home := t.TempDir()
				dead := tool.dead(home)
				program, _, _ := strings.Cut(tool.name, " ")
				if _, err := exec.LookPath(program); err != nil {
					t.Skip("there is no ", program)
				}
				from, to := filepath.Join(home, "from"), filepath.Join(home, "to")
				if err := errors.Join(os.Mkdir(from, 0o777), os.Mkdir(to, 0o777)); err != nil {
					t.Fatal(err)
				}
				c := start(t, order{Do: "count", Dir: from, How: kind})
				hearMore(c, 500)
				if tool.alive != nil {
					command := tool.alive(home)
					exec.Command(command[0], command[1:]...).Run() // which may complain that files change and vanish
				}
				hearMore(c, 2000)
				acked := killCounting(c)
				if out, err := exec.Command(dead[0], dead[1:]...).CombinedOutput(); err != nil {
					t.Fatalf("%q: %v: %s", dead, err, out)
				}
				x.judge(t, to, acked)
				if !x.judge(t, from, acked) {
					t.Error("the original does not open by itself")
				}
			})
		}
	}
}

// A disk that is restored from an image has the files themselves, and no copies of them.
func TestRestoredImage(t *testing.T) {
	for kind, x := range counters {
		t.Run(kind, func(t *testing.T) {
			disk := mountExt4(t, 64)
			dir := filepath.Join(disk.dir, "log")
			c := start(t, order{Do: "count", Dir: dir, How: kind})
			hearMore(c, 500)
			acked := killCounting(c)
			if err := unix.Unmount(disk.dir, 0); err != nil {
				t.Fatal(err)
			}
			restored := &image{disk.file + ".restored", t.TempDir()}
			if out, err := exec.Command("cp", disk.file, restored.file).CombinedOutput(); err != nil {
				t.Fatalf("cp: %v: %s", err, out)
			}
			if err := restored.mount(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { unmount(t, restored.dir) })
			if !x.judge(t, filepath.Join(restored.dir, "log"), acked) {
				t.Error("the restored log does not open by itself")
			}
		})
	}
}

// mountOverlay mounts a directory as the lower layer of a new one, and returns both that and its
// upper layer.
func mountOverlay(t *testing.T, lower string) (merged, upper string) {
	t.Helper()
	needRoot(t)
	home := t.TempDir()
	dirs := map[string]string{}
	for _, name := range []string{"upper", "work", "merged"} {
		dirs[name] = filepath.Join(home, name)
		if err := os.Mkdir(dirs[name], 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("overlay", dirs["merged"], "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", lower, dirs["upper"], dirs["work"])); err != nil {
		t.Skip("mounting an overlayfs is refused: ", err)
	}
	t.Cleanup(func() { unmount(t, dirs["merged"]) })
	return dirs["merged"], dirs["upper"]
}

// TestOverlay writes in a container's directory, kills, and makes a layer of the files. A store
// below opens in the layer above, or wants to be accepted; a layer that was copied wants to be.
func TestOverlay(t *testing.T) {
	for kind, x := range counters {
		t.Run(kind, func(t *testing.T) {
			lower := t.TempDir()
			c := start(t, order{Do: "count", Dir: filepath.Join(lower, "log"), How: kind})
			hearMore(c, 500)
			acked := killCounting(c)
			merged, _ := mountOverlay(t, lower)
			x.judge(t, filepath.Join(merged, "log"), acked)

			merged, upper := mountOverlay(t, t.TempDir())
			c = start(t, order{Do: "count", Dir: filepath.Join(merged, "log"), How: kind})
			hearMore(c, 500)
			acked = killCounting(c)
			layer := filepath.Join(t.TempDir(), "layer")
			if out, err := exec.Command("cp", "-a", upper, layer).CombinedOutput(); err != nil {
				t.Fatalf("cp: %v: %s", err, out)
			}
			if x.judge(t, filepath.Join(merged, "log"), acked); t.Failed() {
				return
			}
			merged, _ = mountOverlay(t, layer)
			x.judge(t, filepath.Join(merged, "log"), acked)
		})
	}
}

// A reader opens the files of the lower layer. It goes on when a writer has overlayfs copy them.
func TestReaderOnOverlay(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprint("killed ", killed), func(t *testing.T) {
			lower := t.TempDir()
			dir := filepath.Join(lower, "log")
			n := 500
			if killed {
				c := start(t, order{Do: "count", Dir: dir, How: "store"})
				hearMore(c, n)
				n = killCounting(c)
			} else {
				db, err := copal.Open(dir)
				if err == nil {
					err = errors.Join(countedStore{db}.set(n), db.Close())
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			merged, _ := mountOverlay(t, lower)
			dir = filepath.Join(merged, "log")
			reader, err := copal.Open(dir, copal.ReadOnly(), copal.WithErrorHandler(func(err error) { t.Error(err) }))
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			shows := func(n int) {
				t.Helper()
				if err := reader.Refresh(); err != nil {
					t.Fatal(err)
				}
				if got, err := (countedStore{reader}).last(); err != nil || got < n {
					t.Fatalf("the reader shows %d, want %d: %v", got, n, err)
				}
			}
			shows(n)
			for range 3 {
				db, err := copal.Open(dir)
				if err != nil {
					t.Fatal(err)
				}
				shows(n)
				for range 100 {
					n++
					if err := (countedStore{db}).set(n); err != nil {
						t.Fatal(err)
					}
					if n%10 == 0 {
						shows(n)
					}
				}
				if err := db.Sync(); err != nil {
					t.Fatal(err)
				}
				shows(n)
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
				shows(n)
			}
		})
	}
}
