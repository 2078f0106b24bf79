//go:build linux

package disktest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// childVariable holds the order of a child process.
const childVariable = "COPAL_DISKTEST_CHILD"

// order is the work of a child.
type order struct {
	Do    string // one of tasks
	Dir   string // of the store
	How   string // the task's own
	Limit uint64 // on the size of files; 0 for none
	Cycle int
}

// tasks are the kinds of work of children. The error ends a child with complaints.
var tasks = map[string]func(o order) error{
	"fill":  fillTask,
	"limit": limitTask,
	"lack":  lackTask,
	"die":   dieTask,
	"cut":   cutTask,
	"write": writeTask,
	"count": countTask,
}

func TestMain(m *testing.M) {
	text := os.Getenv(childVariable)
	if text == "" {
		os.Exit(m.Run())
	}
	var o order
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = tasks[o.Do](o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// complaints are the judge of a child: any ends it.
type complaints struct{}

func (complaints) Helper()        {}
func (complaints) Cleanup(func()) {}

func (complaints) Fatal(what ...any) {
	fmt.Fprintln(os.Stderr, what...)
	os.Exit(1)
}

func (c complaints) Error(what ...any)                 { c.Fatal(what...) }
func (c complaints) Errorf(format string, what ...any) { c.Fatal(fmt.Sprintf(format, what...)) }
func (c complaints) Fatalf(format string, what ...any) { c.Fatal(fmt.Sprintf(format, what...)) }

// say writes v to the parent, as JSON.
func say(v any) {
	line, err := json.Marshal(v)
	if err == nil {
		_, err = os.Stdout.Write(append(line, '\n'))
	}
	if err != nil {
		complaints{}.Fatal(err)
	}
}

// listen waits for a line of the parent.
func listen() {
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		complaints{}.Fatal("listening: ", err)
	}
}

// child is a process that carries out an order.
type child struct {
	t      *testing.T
	cmd    *exec.Cmd
	pipe   *os.File
	in     *bufio.Reader // its lines, from the pipe
	stderr strings.Builder
	stdin  io.Writer
}

func start(t *testing.T, o order) *child {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	c.cmd.Stderr = &c.stderr
	pipe, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.pipe = pipe.(*os.File)
	c.in = bufio.NewReader(pipe)
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	return c
}

// hear returns the next line that the child says.
func (c *child) hear() string {
	c.t.Helper()
	line, err := c.in.ReadString('\n')
	if err != nil {
		err := c.cmd.Wait()
		c.t.Fatalf("the child ended: %v\n%s", err, &c.stderr)
	}
	return line
}

// The child gets a line.
func (c *child) tell(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.stdin, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// stop sends SIGSTOP; it returns when all threads of the child have stopped.
func (c *child) stop() {
	c.t.Helper()
	if err := c.cmd.Process.Signal(unix.SIGSTOP); err != nil {
		c.t.Fatal(err)
	}
	for !c.stopped() {
		runtime.Gosched()
	}
}

func (c *child) stopped() bool {
	c.t.Helper()
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", c.cmd.Process.Pid))
	if err != nil || len(stats) == 0 {
		c.t.Fatal("the child has no threads: ", err)
	}
	for _, name := range stats {
		text, err := os.ReadFile(name)
		_, state, ok := strings.Cut(string(text), ") ")
		if err != nil || !ok || state[0] != 'T' {
			return false
		}
	}
	return true
}

// kill sends SIGKILL.
func (c *child) kill() {
	c.cmd.Process.Kill()
	c.cmd.Wait() // its error is that it was killed
}

// end returns when the child has ended by itself, without an error.
func (c *child) end() {
	c.t.Helper()
	if _, err := io.Copy(io.Discard, c.in); err != nil {
		c.t.Fatal(err)
	}
	if err := c.cmd.Wait(); err != nil {
		c.t.Fatalf("the child: %v\n%s", err, &c.stderr)
	}
}
