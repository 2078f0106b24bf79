package changes

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

// Watch has the flags of watch.
type Watch struct {
	cli.SelectionFlags
	JSON  bool
	After uint64
}

// Follow prints changes until the run ends, or the limit.
func Follow(a *cli.App, db *copal.DB, s cli.Selection, f *Watch, opts []copal.WatchOption, out *bufio.Writer) error {
	if s.Limit == 0 {
		return nil
	}
	told := int64(0)
	paint := cli.PainterFor(a.Stdout)
	for c, err := range db.Watch(a.Ctx, opts...) {
		switch {
		case errors.Is(err, context.Canceled):
			return nil // a watch always ends so
		case errors.Is(err, copal.ErrHistoryLost):
			return fmt.Errorf("%w; without --after what comes from now on is told, and copal export has what there is", err)
		case errors.Is(err, errors.ErrUnsupported):
			return cli.UsageError("watch needs a directory or a copal serve: this server tells no changes")
		case err != nil:
			return err
		case !c.Range && !s.Has(c.Key):
			continue
		}
		if err := f.write(paint, &c, out); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
		if told++; told == s.Limit {
			return nil
		}
	}
	return nil
}

func (f *Watch) write(paint cli.Painter, c *copal.Change, out *bufio.Writer) error {
	now, err := changeOf(c)
	if err != nil {
		return err
	}
	if f.JSON {
		_, err = out.Write(now.appendJSON(out.AvailableBuffer()))
		return err
	}
	_, err = fmt.Fprintln(out, paint.Paint(cli.StyleDim, now.time.Format("15:04:05.000")), now.show(paint))
	return err
}
