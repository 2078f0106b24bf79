// Tour shows copal at work on real records: the source files of Go's standard library.
//
//	go run ./examples/tour              # in a temporary directory, gone afterwards
//	go run ./examples/tour -keep        # which is kept
//	go run ./examples/tour -dir DIR     # the store is DIR, and stays
//
// To learn the API, read library.go, which opens the maps, and fill.go and change.go, which use
// them. crash.go kills a writing process, writer.go, again and again, and plan.go has the entries
// that must be there afterwards.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	if text := os.Getenv(writerVariable); text != "" {
		os.Exit(runWriter(text))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program. It returns its exit code: 1 when something was not as it must be.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	t, err := newTour(args, stdout, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil {
		err = t.walk(ctx)
		if cleanup := t.cleanup(); err == nil {
			err = cleanup
		}
	}
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "\nstopped")
		return 130
	}
	fmt.Fprintln(stderr, "\ntour:", err)
	return 1
}

// tour is one walk through everything.
type tour struct {
	*page
	dir    string // of the store
	temp   string // to be removed, if any
	source string // Go's source files
	kills  int
}

func newTour(args []string, stdout, stderr io.Writer) (*tour, error) {
	t := &tour{page: newPage(stdout)}
	flags := flag.NewFlagSet("tour", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&t.dir, "dir", "", "keep the store in `DIR`, which must be empty or missing")
	flags.StringVar(&t.source, "src", "", "read the Go files below `DIR` instead of GOROOT/src")
	flags.IntVar(&t.kills, "kills", 5, "kill the writer `N` times")
	keep := flags.Bool("keep", false, "keep the temporary directory")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if t.source == "" {
		root, err := goroot()
		if err != nil {
			return nil, err
		}
		t.source = filepath.Join(root, "src")
	}
	if t.dir != "" {
		if entries, _ := os.ReadDir(t.dir); len(entries) > 0 {
			return nil, fmt.Errorf("%s is not empty; the tour begins with a new store", t.dir)
		}
		return t, nil
	}
	temp, err := os.MkdirTemp("", "copal-tour-")
	if err != nil {
		return nil, err
	}
	if t.dir = filepath.Join(temp, "library.db"); !*keep {
		t.temp = temp
	}
	return t, nil
}

// goroot asks the go command, for a program can be built without knowing.
func goroot() (string, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("the tour reads Go's own source files, and go env GOROOT fails: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

func (t *tour) cleanup() error {
	if t.temp == "" {
		return nil
	}
	return os.RemoveAll(t.temp)
}

// walk goes from stop to stop. Each is a file of its own.
func (t *tour) walk(ctx context.Context) error {
	start := time.Now()
	t.title("A tour of copal")
	t.say("Typed maps that are still there tomorrow, in a log that a person can read.")
	t.say("The store is %s", t.dir)
	files, err := t.read(ctx)
	if err != nil {
		return err
	}
	for _, stop := range []func(context.Context, sources) error{t.fill, t.change, t.crash, t.look} {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := stop(ctx, files); err != nil {
			return err
		}
	}
	t.onward(time.Since(start))
	return nil
}

// onward says where to go next.
func (t *tour) onward(took time.Duration) {
	t.title("Where to go next")
	for _, place := range [][2]string{
		{"README.md", "everything in five minutes"},
		{"docs/architecture.md", "how it works, and the words for it"},
		{"docs/durability.md", "what each kind of crash can leave, step by step"},
		{"docs/format.md", "every byte of the log"},
		{"examples/tour/library.go", "the code that you have just seen at work; begin here"},
	} {
		t.say("%-26s%s", place[0], place[1])
	}
	if t.temp == "" {
		t.say("")
		t.say("The store is still there:")
		t.command("go run ./cmd/copal ls " + t.dir + " package: --limit 10")
		t.command("go run ./cmd/copal get " + t.dir + " package:net/http")
		t.command("go run ./cmd/copal check " + t.dir)
		t.command("grep -a package: " + filepath.Join(t.dir, "*.log") + " | head")
	} else {
		t.say("")
		t.say("To look into the store with the copal command, keep it:")
		t.command("go run ./examples/tour -dir library.db")
		t.command("go run ./cmd/copal ls library.db package: --limit 10")
		t.command("go run ./cmd/copal get library.db package:net/http")
	}
	t.say("")
	t.say("All of it took %v.", took.Round(100*time.Millisecond))
}
