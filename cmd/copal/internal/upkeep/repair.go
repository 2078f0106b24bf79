package upkeep

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/internal/files"
)

// Repair has the flags of repair.
type Repair struct {
	cli.Consent
	JSON bool
}

// RepairStore saves the intact records of a store. The arguments are those of the command.
func RepairStore(a *cli.App, args []string, f *Repair, out *bufio.Writer) error {
	dir := args[0]
	switch {
	case f.DryRun:
		report, err := salvage(a, dir, "", true)
		if err != nil {
			return err
		}
		return f.tell(repairOutcome{report: report}, out)
	case len(args) == 2:
		report, err := salvage(a, dir, args[1], false)
		if err != nil {
			return err
		}
		return f.tell(repairOutcome{report: report, mended: args[1]}, out)
	}
	return repairInPlace(a, dir, f, out)
}

// salvage calls admin.Repair, or admin.RepairDryRun, and shows the progress.
func salvage(a *cli.App, dir, into string, dry bool) (report admin.RepairReport, err error) {
	if dry {
		bar := a.NewProgress("looking for what is intact")
		defer bar.Clear()
		return admin.RepairDryRun(a.Ctx, dir, bar.Show)
	}
	bar := a.NewProgress("repairing")
	defer bar.Clear()
	return admin.Repair(a.Ctx, dir, into, bar.Show, a.WithMode())
}

// repairInPlace puts a repaired store in the place of the damaged one, which is kept. It does not
// ask again about a repair that an earlier run has begun.
func repairInPlace(a *cli.App, dir string, f *Repair, out *bufio.Writer) error {
	told := false
	report, err := salvage(a, dir, "", true)
	switch {
	case errors.Is(err, copal.ErrUnfinished) || errors.Is(err, fs.ErrNotExist): // RepairInPlace finds the kind of work
	case err != nil:
		return err
	default:
		sound, err := isSound(a, dir)
		if err != nil {
			return err
		}
		if sound {
			return f.tell(repairOutcome{report: report, sound: true, mended: dir}, out)
		}
		if told = !f.Yes && !f.JSON; told {
			if err := errors.Join(writeRepair(out, report), out.Flush()); err != nil {
				return err
			}
		}
		if err := a.Confirm(f.Consent, fmt.Sprintf("Put a store of %s in the place of %s, and keep the damaged one beside it?", cli.Count(report.Saved, "record"), dir)); err != nil {
			return err
		}
	}
	bar := a.NewProgress("repairing")
	defer bar.Clear()
	report, damaged, err := admin.RepairInPlace(a.Ctx, dir, bar.Show, a.WithMode())
	bar.Clear()
	if err != nil {
		return err
	}
	dir = strings.TrimRight(dir, "/")
	return f.tell(repairOutcome{report: report, mended: dir, damaged: shorter(dir, damaged), told: told}, out)
}

// IsBegun reports whether a repair in place may have been interrupted while nothing had the store's
// name.
func IsBegun(dir string) bool {
	whole, err := files.Path(dir)
	return dir != "" && err == nil && cli.RequireStore(whole+".repaired") == nil
}

// shorter returns longer, a path that begins with the one of dir, in the user's spelling of dir.
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
func isSound(a *cli.App, dir string) (bool, error) {
	bar := a.NewProgress("checking")
	defer bar.Clear()
	_, err := admin.Check(context.Background(), dir, bar.Show)
	if errors.Is(err, copal.ErrCorrupt) || errors.Is(err, copal.ErrCopied) {
		return false, nil
	}
	return err == nil, err
}

// repairOutcome is the outcome of a repair.
type repairOutcome struct {
	report  admin.RepairReport
	sound   bool   // there was nothing to repair
	mended  string // where the repaired store is
	damaged string // where the damaged one was put
	told    bool   // the report has been printed
}

func (f *Repair) tell(o repairOutcome, out *bufio.Writer) error {
	if f.JSON {
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
			bytes = cli.Count(l.Bytes, "byte")
		}
		fmt.Fprintf(out, "%s: offset %d: %s lost: %s\n", l.File, l.Offset, bytes, l.Reason)
	}
	for _, l := range r.Passed {
		fmt.Fprintf(out, "%s: offset %d: %s left out: %s\n", l.File, l.Offset, cli.Count(l.Bytes, "byte"), l.Reason)
	}
	for _, v := range r.Values {
		fmt.Fprintf(out, "key %s: its value of %s is lost: %s\n", cli.ShowKey(v.Key), cli.Count(v.Bytes, "byte"), v.Reason)
	}
	lost, torn, places := lostBytes(r)
	fmt.Fprintf(out, "%s, %s lost in %s\n", cli.Count(r.Intact, "intact record"), cli.Count(lost, "byte"), cli.Count(places, "place"))
	if torn > 0 {
		fmt.Fprintf(out, "%s that may be a torn tail, which is no loss\n", cli.Count(torn, "byte"))
	}
	if r.Grouped > 0 {
		fmt.Fprintf(out, "%s left out, since another part of the transaction is lost\n", cli.Count(r.Grouped, "intact record"))
	}
	if r.Raw > 0 {
		fmt.Fprintf(out, "%s without a schema, which is lost: raw bytes from now on\n", cli.Count(r.Raw, "value"))
	}
	fmt.Fprintf(out, "%s in the new store: the intact ones, without what is left out\n", cli.Count(r.Saved, "record"))
	return nil // a bufio.Writer keeps its error until it is flushed
}

// lostBytes adds up the lost bytes, their places, and the bytes that may be no more than a torn
// tail.
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
		values = append(values, lostValueJSON{cli.JSONKey(v.Key), v.Bytes, v.Reason})
	}
	lost, torn, _ := lostBytes(r)
	return cli.WriteJSON(out, struct {
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
