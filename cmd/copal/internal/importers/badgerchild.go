//go:build !image

package importers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"github.com/copaldb/copal/internal/ndjson"
)

// A child of the same binary reads badger's directories, since a damaged one may end the process
// that reads it. The child writes the lines of an export to its standard output. An error or a note
// is on its standard error, and its exit code says which. It ends with its standard input, which
// its parent holds open, so that no child outlives its parent.

// badgerVariable is the order of the child: its bound of memory in bytes, a space, and the
// directory.
const badgerVariable = "COPAL_IMPORT_BADGER"

// The exit codes of the child. The library's are others.
const (
	childRead   = 0
	childFailed = 10
)

const mostOfStderr = 64 << 10

// childBytes is more than the memory that the library takes for a small directory. Twice the size
// of the directory is added.
var childBytes uint64 = 1 << 30

// beChildCalled reports whether the main function of this binary has called BeChild.
var beChildCalled bool

// BeChild ends the process, if it is one that reads a directory of badger for an import. The main
// function calls it first.
func BeChild() {
	beChildCalled = true
	order, ok := os.LookupEnv(badgerVariable)
	if !ok {
		return
	}
	bytes, dir, _ := strings.Cut(order, " ")
	most, err := strconv.ParseUint(bytes, 10, 63)
	if err != nil {
		failChild(badgerVariable + " has no number of bytes")
	}
	signal.Ignore(os.Interrupt) // which a terminal sends to both: the parent decides
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(childFailed)
	}()
	go boundMemory(most + 2*sizeOf(dir))
	marked, err := writeBadger(os.Stdout, dir)
	if err != nil {
		failChild(err.Error())
	}
	if marked > 0 {
		fmt.Fprintf(os.Stderr, "%d entries have a user meta byte, which was left out", marked)
	}
	os.Exit(childRead)
}

func failChild(reason string) {
	fmt.Fprint(os.Stderr, reason)
	os.Exit(childFailed)
}

// sizeOf returns the number of bytes in the files of a directory.
func sizeOf(dir string) (n uint64) {
	list, _ := os.ReadDir(dir)
	for _, e := range list {
		if info, err := e.Info(); err == nil {
			n += uint64(info.Size())
		}
	}
	return n
}

// boundMemory ends the child when it has more memory than a whole directory takes: the library
// believes the lengths in one.
func boundMemory(most uint64) {
	used := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for range time.Tick(20 * time.Millisecond) {
		if metrics.Read(used); used[0].Value.Uint64()-used[1].Value.Uint64() > most {
			failChild(fmt.Sprintf("it is damaged: the library that reads it takes more than %d MiB of memory", most>>20))
		}
	}
}

// readBadger reads the lines of a child.
func readBadger(s *Source, emit func(*Item) error) (err error) {
	if !beChildCalled {
		return errors.New("this program does not call BeChild")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(s.Ctx)
	defer cancel()
	child := exec.CommandContext(ctx, self)
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", badgerVariable, childBytes, s.Path), "GOTRACEBACK=none")
	said := &beginning{}
	child.Stderr = said
	alive, err := child.StdinPipe()
	if err != nil {
		return err
	}
	defer alive.Close()
	out, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	var taken error // of the caller
	lines := Source{In: out, Bad: func(e *ndjson.LineError) error { return e }}
	err = readExport(&lines, func(item *Item) error {
		taken = emit(item)
		return taken
	})
	if taken != nil {
		cancel()
		child.Wait()
		return taken
	}
	io.Copy(io.Discard, out)
	switch ended := child.Wait(); {
	case s.Ctx.Err() != nil:
		return s.Ctx.Err()
	case ended == nil && err == nil:
		if said.Len() > 0 {
			s.Note(said.String())
		}
		return nil
	case child.ProcessState.ExitCode() == childFailed:
		return errors.New(said.String())
	case ended == nil:
		return err
	default:
		return fmt.Errorf("the library that reads it failed, so it is probably damaged: %s", said.reason(ended))
	}
}

// beginning keeps the first bytes that are written to it.
type beginning struct{ bytes.Buffer }

// Write takes all bytes, and keeps those that have room.
func (b *beginning) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), mostOfStderr-b.Len())])
	return len(p), nil
}

// reason returns the first line of the output, or else the text of ended.
func (b *beginning) reason(ended error) string {
	line, _, _ := strings.Cut(strings.TrimSpace(b.String()), "\n")
	if line == "" {
		return ended.Error()
	}
	return line
}
