package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/files"
)

const repairHelp = `Make a new store of all that is intact in a damaged one, and say what is lost.

With INTO, a directory that is missing or empty, the new store is made there, and DIR is
left as it is. Without, the new store takes the place of DIR after you have seen what
would be lost and said yes, and the damaged one is kept beside it, as DIR.damaged; a
store that is sound is left alone.

What a lost record said is not known. If it set a key, the value before it shows; if it
deleted one, the key is there again.

--dry-run only says what would be lost. --yes asks nothing. No other process may have
the store open for writing. There must be room for another copy of what is intact.

With --json the output is {"intact":…,"saved":…,"lostBytes":…,"tornBytes":…,"lost":[…],
"passed":[…],"values":[…],"grouped":…,"raw":…}, and without INTO also "damaged", where
the damaged store is now, or "sound":true. See docs/command.md for their meaning.`

const repairExample = `  copal repair app.db --dry-run
  copal repair app.db
  copal repair app.db mended.db`

// repairFlags say how a store is repaired.
type repairFlags struct {
	consent
	json bool
}

func newRepair(a *app) *cobra.Command {
	var f repairFlags
	cmd := &cobra.Command{
		Use:               "repair DIR [INTO]",
		Short:             "Save what is intact in a damaged store",
		Long:              repairHelp,
		Example:           repairExample,
		Args:              arguments(1, 2),
		ValidArgsFunction: completeDirs,
		RunE: a.runs(func(args []string, out *bufio.Writer) error {
			if err := requireStore(args[0]); err != nil && (len(args) == 2 || !isBegun(args[0])) {
				return err
			}
			if len(args) == 2 && args[1] == "" {
				return errNoDir
			}
			defer a.catchSignals()()
			return a.repair(args, &f, out)
		}),
	}
	f.flags(cmd)
	cmd.Flags().BoolVar(&f.json, "json", false, "print what was found as one JSON object")
	return cmd
}

func (a *app) repair(args []string, f *repairFlags, out *bufio.Writer) error {
	dir := args[0]
	switch {
	case f.dryRun:
		report, err := a.salvage(dir, "", true)
		if err != nil {
			return err
		}
		return f.tell(repairOutcome{report: report}, out)
	case len(args) == 2:
		report, err := a.salvage(dir, args[1], false)
		if err != nil {
			return err
		}
		return f.tell(repairOutcome{report: report, mended: args[1]}, out)
	}
	return a.repairInPlace(dir, f, out)
}

// salvage is admin.Repair with its progress shown.
func (a *app) salvage(dir, into string, dry bool) (report admin.RepairReport, err error) {
	if dry {
		bar := a.newProgress("looking for what is intact")
		defer bar.clear()
		return admin.RepairDryRun(a.ctx, dir, bar.show)
	}
	bar := a.newProgress("repairing")
	defer bar.clear()
	return admin.Repair(a.ctx, dir, into, bar.show, a.withMode())
}

// repairInPlace puts a repaired store in the place of the damaged one, which is kept. What an earlier run has begun to
// put there is not asked about once more.
func (a *app) repairInPlace(dir string, f *repairFlags, out *bufio.Writer) error {
	told := false
	report, err := a.salvage(dir, "", true)
	switch {
	case errors.Is(err, copal.ErrUnfinished) || errors.Is(err, fs.ErrNotExist): // RepairInPlace finds out of what
	case err != nil:
		return err
	default:
		sound, err := a.isSound(dir)
		if err != nil {
			return err
		}
		if sound {
			return f.tell(repairOutcome{report: report, sound: true, mended: dir}, out)
		}
		if told = !f.yes && !f.json; told {
			if err := errors.Join(writeRepair(out, report), out.Flush()); err != nil {
				return err
			}
		}
		if err := a.confirm(f.consent, fmt.Sprintf("Put a store of %s in the place of %s, and keep the damaged one beside it?", count(report.Saved, "record"), dir)); err != nil {
			return err
		}
	}
	bar := a.newProgress("repairing")
	defer bar.clear()
	report, damaged, err := admin.RepairInPlace(a.ctx, dir, bar.show, a.withMode())
	bar.clear()
	if err != nil {
		return err
	}
	dir = strings.TrimRight(dir, "/")
	return f.tell(repairOutcome{report: report, mended: dir, damaged: shorter(dir, damaged), told: told}, out)
}

// isBegun reports whether a repair in place may have been interrupted while nothing had the store's name.
func isBegun(dir string) bool {
	whole, err := files.Path(dir)
	return dir != "" && err == nil && requireStore(whole+".repaired") == nil
}

// shorter is the path of what has a longer name than a directory, as its user names that.
func shorter(dir, longer string) string {
	if whole, err := files.Path(dir); err == nil && strings.HasPrefix(longer, whole) {
		short := dir + longer[len(whole):]
		if found, err := files.Path(short); err == nil && found == longer {
			return short
		}
	}
	return longer
}

// isSound reports whether a store has nothing to repair.
func (a *app) isSound(dir string) (bool, error) {
	bar := a.newProgress("checking")
	defer bar.clear()
	_, err := admin.Check(context.Background(), dir, bar.show)
	if errors.Is(err, copal.ErrCorrupt) || errors.Is(err, copal.ErrCopied) {
		return false, nil
	}
	return err == nil, err
}

// repairOutcome is what became of a repair.
type repairOutcome struct {
	report  admin.RepairReport
	sound   bool   // there was nothing to repair
	mended  string // where the repaired store is
	damaged string // where the damaged one was put
	told    bool   // the report has been printed
}

func (f *repairFlags) tell(o repairOutcome, out *bufio.Writer) error {
	if f.json {
		return writeRepairJSON(out, o)
	}
	if o.sound {
		_, err := fmt.Fprintf(out, "%s is sound: there is nothing to repair\n", o.mended)
		return err
	}
	if !o.told {
		if err := writeRepair(out, o.report); err != nil {
			return err
		}
	}
	var err error
	switch {
	case o.damaged != "":
		_, err = fmt.Fprintf(out, "%s is repaired; the damaged store is %s\n", o.mended, o.damaged)
	case o.mended != "":
		_, err = fmt.Fprintf(out, "the repaired store is %s\n", o.mended)
	}
	return err
}

func writeRepair(out *bufio.Writer, r admin.RepairReport) error {
	for _, l := range r.Lost {
		if l.Torn {
			l.Reason += "; perhaps what a crash left behind the last record"
		}
		bytes := "an unknown number of bytes"
		if l.Bytes > 0 {
			bytes = count(l.Bytes, "byte")
		}
		fmt.Fprintf(out, "%s: offset %d: %s lost: %s\n", l.File, l.Offset, bytes, l.Reason)
	}
	for _, l := range r.Passed {
		fmt.Fprintf(out, "%s: offset %d: %s left out: %s\n", l.File, l.Offset, count(l.Bytes, "byte"), l.Reason)
	}
	for _, v := range r.Values {
		fmt.Fprintf(out, "key %s: its value of %s is lost: %s\n", showKey(v.Key), count(v.Bytes, "byte"), v.Reason)
	}
	lost, torn, places := lostBytes(r)
	fmt.Fprintf(out, "%s, %s lost in %s\n", count(r.Intact, "intact record"), count(lost, "byte"), count(places, "place"))
	if torn > 0 {
		fmt.Fprintf(out, "%s that may be a torn tail, which is no loss\n", count(torn, "byte"))
	}
	if r.Grouped > 0 {
		fmt.Fprintf(out, "%s left out, since another part of the transaction is lost\n", count(r.Grouped, "intact record"))
	}
	if r.Raw > 0 {
		fmt.Fprintf(out, "%s without a schema, which is lost: raw bytes from now on\n", count(r.Raw, "value"))
	}
	fmt.Fprintf(out, "%s in the new store: the intact ones, without what is left out\n", count(r.Saved, "record"))
	return nil // a bufio.Writer keeps its error until it is flushed
}

// lostBytes adds up what is lost, in how many places, and what may be no more than a torn tail.
func lostBytes(r admin.RepairReport) (lost, torn, places int64) {
	for _, l := range r.Lost {
		if l.Torn {
			torn += l.Bytes
			continue
		}
		lost += l.Bytes
		places++
	}
	return lost, torn, places
}

// lossJSON is copal.Loss for machines.
type lossJSON struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	Bytes  int64  `json:"bytes"`
	Reason string `json:"reason"`
	Torn   bool   `json:"torn,omitempty"`
}

type lostValueJSON struct {
	Key    any    `json:"key"`
	Bytes  int64  `json:"bytes"`
	Reason string `json:"reason"`
}

func writeRepairJSON(out *bufio.Writer, o repairOutcome) error {
	r := o.report
	losses := func(list []admin.Loss) []lossJSON {
		all := []lossJSON{}
		for _, l := range list {
			all = append(all, lossJSON(l))
		}
		return all
	}
	values := []lostValueJSON{}
	for _, v := range r.Values {
		values = append(values, lostValueJSON{jsonKey(v.Key), v.Bytes, v.Reason})
	}
	lost, torn, _ := lostBytes(r)
	return writeJSON(out, struct {
		Intact    int64           `json:"intact"`
		Saved     int64           `json:"saved"`
		LostBytes int64           `json:"lostBytes"`
		TornBytes int64           `json:"tornBytes"`
		Lost      []lossJSON      `json:"lost"`
		Passed    []lossJSON      `json:"passed"`
		Values    []lostValueJSON `json:"values"`
		Grouped   int64           `json:"grouped"`
		Raw       int64           `json:"raw"`
		Sound     bool            `json:"sound,omitempty"`
		Damaged   string          `json:"damaged,omitempty"`
	}{r.Intact, r.Saved, lost, torn, losses(r.Lost), losses(r.Passed), values, r.Grouped, r.Raw, o.sound, o.damaged})
}
