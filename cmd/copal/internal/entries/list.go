package entries

import (
	"bufio"
	"errors"
	"fmt"
	"iter"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/internal/ndjson"
)

// List has the flags of ls.
type List struct {
	cli.SelectionFlags
	JSON, Null, Long bool
}

// Print prints the selected keys.
func (f *List) Print(a *cli.App, from cli.Source, s cli.Selection, out *bufio.Writer) error {
	failed := error(nil)
	meter, endFirst := a.NewOutputMeter("listing", "keys", s, from.Raw().Len())
	defer meter.End()
	a.Collection = func(c *copal.CollectionError) { f.writeCollection(c, out) }
	defer func() { a.Collection = nil }()
	for key, size := range f.entries(a, from, s) {
		if meter.Add(); endFirst {
			meter.End()
		}
		var expires *cli.JSONTime
		if f.JSON {
			var err error
			if expires, err = cli.Expiry(from.Raw(), key); cli.IsGone(err) {
				continue
			} else if failed == nil {
				failed = err // and the keys go on
			}
		}
		if err := f.write(out, key, size, expires); err != nil {
			return err
		}
	}
	return errors.Join(failed, a.Ctx.Err())
}

// entries yields keys and, if they are asked for, the sizes of their values.
func (f *List) entries(a *cli.App, from cli.Source, s cli.Selection) iter.Seq2[[]byte, int] {
	return func(yield func([]byte, int) bool) {
		if !f.Long {
			for key := range a.Keys(from, s) {
				if !yield(key, 0) {
					return
				}
			}
			return
		}
		for key, value := range a.ValuesOf(from, a.Keys(from, s)) {
			if !yield(key, len(value)) {
				return
			}
		}
	}
}

// writeCollection writes a collection, which has no value and no size.
func (f *List) writeCollection(c *copal.CollectionError, out *bufio.Writer) {
	if f.JSON {
		out.Write(ndjson.AppendKey([]byte(`{"key":`), c.Key))
		fmt.Fprintf(out, ",\"collection\":%q}\n", c.Type)
		return
	}
	fmt.Fprintf(out, "%10s  %s\n", c.Type, cli.ShowKey(c.Key))
}

func (f *List) write(out *bufio.Writer, key []byte, size int, expires *cli.JSONTime) (err error) {
	switch {
	case f.JSON && f.Long:
		return cli.WriteJSON(out, struct {
			Key        any           `json:"key"`
			Expires    *cli.JSONTime `json:"expires,omitempty"`
			ValueBytes int           `json:"valueBytes"`
		}{cli.JSONKey(key), expires, size})
	case f.JSON:
		return cli.WriteJSON(out, struct {
			Key     any           `json:"key"`
			Expires *cli.JSONTime `json:"expires,omitempty"`
		}{cli.JSONKey(key), expires})
	case f.Null:
		_, err = out.Write(append(key, 0))
	case f.Long:
		_, err = fmt.Fprintf(out, "%10d  %s\n", size, cli.ShowKey(key))
	default:
		_, err = out.WriteString(cli.ShowKey(key) + "\n")
	}
	return err
}
