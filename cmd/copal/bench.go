//go:build !image

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/copaldb/copal/cmd/copal/internal/importers"
	"github.com/copaldb/copal/internal/bench/table"
	"github.com/copaldb/copal/internal/vfs"
)

const benchHelp = `Measure copal on this machine, in two minutes: typed maps beside maps in memory, and raw bytes,
transactions, walks over a prefix, and values from 128 B to 32 KiB beside bbolt, badger and
buntdb. Both sides of a ratio do the same work on the same keys in turn, and what is read is
checked. A ratio above 1 says how many times less time or memory copal takes. Below 1 copal
loses, and the row says so.

--servers serves a store on loopback, too, and measures SET and GET of Redis's protocol with 50
clients, beside redis-server if it is installed, and GET and PUT of an item by HTTP, beside a
handler of Go that has them in a map. That takes half a minute more.

The figures are those of the machine as it is: let nothing else run. Another run waits until
this one has ended. The files are made in the directory --dir, and removed; it should be on the
disk that the store will be on. --run chooses lines by name from all that there are, those of
parts of copal among them. With --rounds each line has so many rounds, however long that takes.

--html writes a page with charts to a file, which asks for nothing else. With --json the output
is one JSON document with the figures of each round. docs/performance.md
has a whole run, with what is measured and why copal loses where it does.`

// The lines of the store, and how long they may take.
const (
	benchLines   = `^(set|get|mix|raw-put|raw-view|values|batch|tx|durable|memory|latency|redis|http)(/|$)`
	benchFor     = 105 * time.Second
	benchQuick   = 25 * time.Second
	benchServers = 25 * time.Second
)

// benching is what bench has been told.
type benching struct {
	table.Options
	quick, json bool
	html        string
}

// measuring are the commands that measure. The image, which serves, leaves them out.
func measuring(a *app) []*cobra.Command { return []*cobra.Command{newBench(a), newStudy(a)} }

// beChild ends the process, if it is one that a measurement or an import has started.
func beChild() { table.BeChild(); importers.BeChild() }

func newBench(a *app) *cobra.Command {
	var b benching
	cmd := &cobra.Command{
		Use:               "bench",
		Short:             "Measure copal beside other stores, on this machine",
		Long:              benchHelp,
		Example:           "  copal bench\n  copal bench --quick --dir /mnt/data\n  copal bench --servers --html report.html\n  copal bench --run '^values/scan'",
		Args:              arguments(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.RunE = a.runs(func(_ []string, out *bufio.Writer) error {
		b.Command = strings.Join(append([]string{cmd.CommandPath()}, changed(cmd.Flags())...), " ")
		return a.bench(&b, out)
	})
	f := cmd.Flags()
	f.StringVar(&b.Dir, "dir", ".", "make the files in a fresh directory below this one")
	f.BoolVar(&b.Servers, "servers", false, "measure servers on loopback, too")
	f.BoolVar(&b.quick, "quick", false, "take half a minute, with fewer rounds")
	f.StringVar(&b.Run, "run", "", "measure only lines whose names match this regular expression")
	f.IntVar(&b.Rounds, "rounds", 0, "measure each line so many times")
	f.StringVar(&b.html, "html", "", "write a page with charts to this file; - for standard output")
	f.BoolVar(&b.json, "json", false, "print one JSON document")
	return cmd
}

// changed are the flags that are set, but for those that say nothing of the figures.
func changed(flags *pflag.FlagSet) (list []string) {
	flags.Visit(func(f *pflag.Flag) {
		switch {
		case f.Name == "dir" || f.Name == "html" || f.Name == "json":
		case f.Value.Type() == "bool":
			list = append(list, "--"+f.Name)
		default:
			list = append(list, "--"+f.Name, table.Word(f.Value.String()))
		}
	})
	return list
}

func (a *app) bench(b *benching, out *bufio.Writer) error {
	if _, err := regexp.Compile(b.Run); err != nil {
		return usageError{fmt.Sprintf("--run: %v", err)}
	}
	if b.Rounds < 0 {
		return usageError{"--rounds is a number of rounds, and not negative"}
	}
	o := b.Options
	o.Size, o.Budget, o.Note = table.Quick, benchFor, a.note
	if o.Run == "" {
		o.Run = benchLines
	}
	if b.quick {
		o.Budget = benchQuick
	}
	if o.Servers {
		o.Budget += benchServers
	}
	page, err := newPage(b.html)
	if err != nil {
		return err
	}
	defer page.drop()
	defer a.catchSignals()()
	bar := a.newBar("measuring")
	defer bar.clear()
	o.Progress = func(s table.Step) { bar.show(int64(1000*(float64(s.At)+s.Part)), int64(1000*s.All)) }
	r, err := table.Run(a.ctx, o)
	if err != nil {
		return err
	}
	bar.clear()
	if err := page.write(r); err != nil {
		return err
	}
	switch {
	case b.html == "-":
		return r.WritePage(out)
	case b.json:
		return r.WriteJSON(out)
	}
	return r.WriteRatios(out)
}

// page is a file that appears when it is whole. It is begun before anything is measured, so that two minutes are not in
// vain. The nil page is none.
type page struct{ *os.File }

func newPage(file string) (*page, error) {
	if file == "" || file == "-" {
		return nil, nil
	}
	f, err := vfs.OpenRegular(file+partSuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC, vfs.OwnerOnly)
	if err != nil {
		return nil, err
	}
	return &page{f}, nil
}

func (p *page) write(r *table.Report) error {
	if p == nil {
		return nil
	}
	if err := errors.Join(r.WritePage(p), p.Close()); err != nil {
		return err
	}
	return os.Rename(p.Name(), strings.TrimSuffix(p.Name(), partSuffix))
}

// drop removes the file unless it is whole.
func (p *page) drop() {
	if p != nil {
		p.Close()
		os.Remove(p.Name())
	}
}
