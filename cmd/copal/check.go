package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

const checkHelp = `Read every byte of a store and verify every checksum.

Nothing is changed and no lock is taken; it may run beside the process that writes.
Each problem is listed with its file, the offset of its first byte, and what is wrong.
A torn tail, the end of a record that a crash cut short, is no problem: it was never
acknowledged as durable. A copy of a store that was not closed may lack the last writes
of that: it is not called sound, and the exit code is 1 without --copied.

The exit code is 0 when the store is sound and 6 when it is corrupt.`

func newCheck(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "check DIR",
		Short:             "Verify that nothing is damaged",
		Long:              checkHelp,
		Example:           "  copal check app.db\n  copal check app.db --json | jq .problems",
		Args:              arguments(1, 1),
		ValidArgsFunction: completeDir,
		RunE: a.runs(func(args []string, out *bufio.Writer) error {
			return a.check(args[0], asJSON, out)
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as one JSON object")
	return cmd
}

func (a *app) check(dir string, asJSON bool, out *bufio.Writer) error {
	if err := requireStore(dir); err != nil {
		return err
	}
	bar := a.newProgress("checking")
	report, err := admin.Check(context.Background(), dir, bar.show)
	bar.clear()
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
	if err == nil || copied && a.copied {
		if whole, err := files.Path(dir); err == nil {
			if err := seglog.ReadUnfinished(vfs.OS(), whole); err != nil { // of work on a store that opens
				a.report(err)
			}
		}
		return nil
	}
	if failed := out.Flush(); failed != nil { // so that the list stands before the verdict
		return failed
	}
	if copied {
		return err
	}
	return corruptStore{dir, len(report.Problems)}
}

// corruptStore is the verdict, after a list of what is damaged.
type corruptStore struct {
	dir      string
	problems int
}

func (e corruptStore) Error() string {
	return fmt.Sprintf("%s is corrupt: %s; 'copal repair %s --dry-run' says what can be saved", e.dir, count(int64(e.problems), "problem"), e.dir)
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
		print("a torn tail of %s, which is no problem: a crash cut a write short that was not acknowledged as durable\n", count(r.TornBytes, "byte"))
	}
	print("read %s in %s: %s", count(r.LogBytes, "byte"), count(int64(len(r.Segments)), "segment"), count(r.Records, "record"))
	switch {
	case len(r.Problems) > 0:
	case r.Copied:
		print(", %s: intact", count(r.Keys, "key"))
	default:
		print(", %s: sound", count(r.Keys, "key"))
	}
	print("\n")
	return err
}

// count is a number and its noun.
func count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
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
	return writeJSON(out, j)
}
