package upkeep

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// Check prints the problems of a store, and returns ErrCorrupt if there are any.
func Check(a *cli.App, dir string, asJSON bool, out *bufio.Writer) error {
	if err := cli.RequireStore(dir); err != nil {
		return err
	}
	bar := a.NewProgress("checking")
	report, err := admin.Check(context.Background(), dir, bar.Show)
	bar.Clear()
	copied := errors.Is(err, copal.ErrCopied)
	if err != nil && !errors.Is(err, copal.ErrCorrupt) && !copied {
		return err
	}
	write := writeReport
	if asJSON {
		write = writeReportJSON
	}
	if failed := write(out, report); failed != nil {
		return failed
	}
	if err == nil || copied && a.Copied {
		if whole, err := files.Path(dir); err == nil {
			if err := seglog.ReadUnfinished(vfs.OS(), whole); err != nil { // of work on a store that opens
				a.Report(err)
			}
		}
		return nil
	}
	if failed := out.Flush(); failed != nil { // so that the list comes before the verdict
		return failed
	}
	if copied {
		return err
	}
	return corruptStore{dir, len(report.Problems)}
}

// corruptStore is the verdict, after a list of the damage.
type corruptStore struct {
	dir      string
	problems int
}

func (e corruptStore) Error() string {
	return fmt.Sprintf("%s is corrupt: %s; 'copal repair %s --dry-run' says what can be saved", e.dir, cli.Count(int64(e.problems), "problem"), e.dir)
}

func (e corruptStore) Is(target error) bool { return target == copal.ErrCorrupt }

func writeReport(out io.Writer, r admin.Report) (err error) {
	print := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(out, format, args...)
		}
	}
	for _, p := range r.Problems {
		print("%s: offset %d: %s\n", p.File, p.Offset, p.Reason)
	}
	for _, p := range r.Derived {
		print("%s: offset %d: %s; that is no problem, for the file is made anew from the log\n", p.File, p.Offset, p.Reason)
	}
	if r.Copied {
		print("a copy of a store that was not closed: the last writes that were acknowledged there may be missing\n")
	}
	if r.TornBytes > 0 {
		print("a torn tail of %s, which is no problem: a crash cut a write short that was not acknowledged as durable\n", cli.Count(r.TornBytes, "byte"))
	}
	print("read %s in %s: %s", cli.Count(r.LogBytes, "byte"), cli.Count(int64(len(r.Segments)), "segment"), cli.Count(r.Records, "record"))
	switch {
	case len(r.Problems) > 0:
	case r.Copied:
		print(", %s: intact", cli.Count(r.Keys, "key"))
	default:
		print(", %s: sound", cli.Count(r.Keys, "key"))
	}
	print("\n")
	return err
}

// reportJSON is copal.Report for machines. Keys is absent for a damaged store, in which they cannot
// be counted.
type reportJSON struct {
	Sound     bool          `json:"sound"`
	Copied    bool          `json:"copied,omitempty"`
	Records   int64         `json:"records"`
	Keys      *int64        `json:"keys,omitempty"`
	LogBytes  int64         `json:"logBytes"`
	TornBytes int64         `json:"tornBytes"`
	Segments  []segmentJSON `json:"segments"`
	Problems  []problemJSON `json:"problems"`
	Derived   []problemJSON `json:"derived,omitempty"`
}

type segmentJSON struct {
	File    string `json:"file"`
	Sealed  bool   `json:"sealed"`
	Bytes   int64  `json:"bytes"`
	Records int64  `json:"records"`
}

type problemJSON struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	Reason string `json:"reason"`
}

func writeReportJSON(out io.Writer, r admin.Report) error {
	j := reportJSON{
		Sound: len(r.Problems) == 0 && !r.Copied, Copied: r.Copied, Records: r.Records, LogBytes: r.LogBytes, TornBytes: r.TornBytes,
		Segments: make([]segmentJSON, len(r.Segments)), Problems: make([]problemJSON, len(r.Problems)),
	}
	for i, s := range r.Segments {
		j.Segments[i] = segmentJSON(s)
	}
	for i, p := range r.Problems {
		j.Problems[i] = problemJSON(p)
	}
	for _, p := range r.Derived {
		j.Derived = append(j.Derived, problemJSON(p))
	}
	if len(r.Problems) == 0 {
		j.Keys = &r.Keys
	}
	return cli.WriteJSON(out, j)
}
