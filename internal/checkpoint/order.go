package checkpoint

import (
	"fmt"
	"strings"

	"github.com/copaldb/copal/internal/record"
)

// Order is the lines of a snapshot about the order of a table.
type Order struct {
	By    string
	Built bool
	Clock uint64   // Unix milliseconds, when the keys were those of the runs
	Runs  []uint64 // newest first; the last is the base
}

// encode writes
//
//	ordered int built 1 clock 19a8c3d2e10 runs 77aa00000000beef,5f3a91c2d4e5f607
func (x *Order) encode() string {
	runs := "-"
	if len(x.Runs) > 0 {
		var list []string
		for _, id := range x.Runs {
			list = append(list, fmt.Sprintf("%016x", id))
		}
		runs = strings.Join(list, ",")
	}
	return fmt.Sprintf("ordered %s built %x clock %x runs %s\n", x.By, bit(x.Built), x.Clock, runs)
}

func (x *Index) parseOrder(f *record.Fields) error {
	o := &Order{By: f.Word("ordered")}
	built := f.Hex("built")
	o.Built, o.Clock = built == 1, f.Hex("clock")
	runs := f.Word("runs")
	if err := f.End(); err != nil {
		return err
	}
	if runs != "-" {
		for word := range strings.SplitSeq(runs, ",") {
			run := record.NewFields("run " + word)
			o.Runs = append(o.Runs, run.Fixed("run"))
			if err := run.End(); err != nil {
				return fmt.Errorf("%w: the number of a run: %w", record.ErrSyntax, err)
			}
		}
	}
	n := len(x.Tables)
	if n == 0 || built > 1 || x.Tables[n-1].Order != nil || len(o.Runs) > 2 || !o.Built && len(o.Runs) > 0 || len(x.Tables[n-1].Due)+len(x.Tables[n-1].Parts) > 0 {
		return fmt.Errorf("%w: an impossible order", record.ErrSyntax)
	}
	x.Tables[n-1].Order = o
	return nil
}
