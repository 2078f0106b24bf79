package entries

import (
	"bufio"
	"fmt"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/internal/ndjson"
)

// Scan has the flags of scan and range.
type Scan struct {
	cli.SelectionFlags
	JSON, Keys bool
}

// PrintScan prints the selected entries.
func PrintScan(a *cli.App, from cli.Source, s cli.Selection, f *Scan, out *bufio.Writer) error {
	if f.Keys {
		list := List{JSON: f.JSON}
		return list.Print(a, from, s, out)
	}
	paint := cli.PainterFor(a.Stdout)
	meter, endFirst := a.NewOutputMeter("reading", "entries", s, from.Raw().Len())
	defer meter.End()
	a.Collection = func(c *copal.CollectionError) { f.writeCollection(paint, c, out) }
	defer func() { a.Collection = nil }()
	for key, value := range a.Entries(from, s) {
		if meter.Add(); endFirst {
			meter.End()
		}
		if err := f.write(from, paint, key, value, out); err != nil {
			return err
		}
	}
	return a.Ctx.Err()
}

func (f *Scan) write(from cli.Source, paint cli.Painter, key, value []byte, out *bufio.Writer) (err error) {
	if f.JSON {
		expires, err := cli.Expiry(from.Raw(), key)
		if cli.IsGone(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return cli.WriteEntry(out, key, expires, value)
	}
	_, err = out.WriteString(paint.Paint(cli.StyleKey, cli.ShowKey(key)) + "\t" + cli.ShowValue(value) + "\n")
	return err
}

// writeCollection writes a collection, which has no value. An error of out shows at the next entry,
// or at the end.
func (f *Scan) writeCollection(paint cli.Painter, c *copal.CollectionError, out *bufio.Writer) {
	if f.JSON {
		out.Write(ndjson.AppendKey([]byte(`{"key":`), c.Key))
		fmt.Fprintf(out, ",\"collection\":%q}\n", c.Type)
		return
	}
	fmt.Fprintf(out, "%s\t(%s)\n", paint.Paint(cli.StyleKey, cli.ShowKey(c.Key)), c.Type)
}
