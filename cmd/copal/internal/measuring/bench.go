//go:build !image

package measuring

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/internal/bench/table"
	"github.com/copaldb/copal/internal/vfs"
)

// The lines of the store, and how long they may take.
const (
	benchLines   = `^(set|get|mix|raw-put|raw-view|values|batch|tx|durable|memory|latency|redis|http)(/|$)`
	benchFor     = 105 * time.Second
	benchQuick   = 25 * time.Second
	benchServers = 25 * time.Second
)

// Bench has the flags of bench.
type Bench struct {
	table.Options
	Quick, JSON bool
	HTML        string
}

// RunBench measures, and prints ratios.
func RunBench(a *cli.App, b *Bench, out *bufio.Writer) error {
	if _, err := regexp.Compile(b.Run); err != nil {
		return cli.UsageError(fmt.Sprintf("--run: %v", err))
	}
	if b.Rounds < 0 {
		return cli.UsageError("--rounds is a number of rounds, and not negative")
	}
	o := b.Options
	o.Size, o.Budget, o.Note = table.Quick, benchFor, a.Note
	if o.Run == "" {
		o.Run = benchLines
	}
	if b.Quick {
		o.Budget = benchQuick
	}
	if o.Servers {
		o.Budget += benchServers
	}
	page, err := newPage(b.HTML)
	if err != nil {
		return err
	}
	defer page.drop()
	defer a.CatchSignals()()
	bar := a.NewBar("measuring")
	defer bar.Clear()
	o.Progress = func(s table.Step) { bar.Show(int64(1000*(float64(s.At)+s.Part)), int64(1000*s.All)) }
	r, err := table.Run(a.Ctx, o)
	if err != nil {
		return err
	}
	bar.Clear()
	if err := page.write(r); err != nil {
		return err
	}
	switch {
	case b.HTML == "-":
		return r.WritePage(out)
	case b.JSON:
		return r.WriteJSON(out)
	}
	return r.WriteRatios(out)
}

// page is a file that appears when it is whole. It is created before the measurements, so that an
// error does not waste two minutes. The nil page is none.
type page struct{ *os.File }

func newPage(file string) (*page, error) {
	if file == "" || file == "-" {
		return nil, nil
	}
	f, err := vfs.OpenRegular(file+cli.PartSuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC, vfs.OwnerOnly)
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
	return os.Rename(p.Name(), strings.TrimSuffix(p.Name(), cli.PartSuffix))
}

// drop removes the file unless it is whole.
func (p *page) drop() {
	if p != nil {
		p.Close()
		os.Remove(p.Name())
	}
}
