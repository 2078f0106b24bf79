package elements

import (
	"bytes"
	"iter"
	"strconv"

	"github.com/copaldb/copal/redisapi/internal/command"

	copaladmin "github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/glob"
)

// Walked names the walk of a command of the SCAN family: over the database, or over the elements of a key.
func Walked(c *command.Call) string {
	if c.Row.Name == "scan" {
		return "scan " + strconv.Itoa(int(c.Database.Load()))
	}
	return c.Row.Name + " " + string(c.Args[1])
}

// Scanning has the options of the commands of the SCAN family.
type Scanning struct {
	From     []byte           // the first that may be returned, nil for the beginning
	Any      bool             // of SCAN: in no order
	Place    copaladmin.Place // then it is here
	Count    int
	Match    []byte // nil for all
	Kind     []byte // of SCAN: the type that is wanted, nil for all
	NoValues bool   // of HSCAN
}

// ScanOptions reads the arguments from the cursor on, which is at an index.
func ScanOptions(c *command.Call, at int) (o Scanning, err error) {
	n, err := strconv.ParseUint(string(c.Args[at]), 10, 64)
	if err != nil {
		return o, command.Errorf("ERR invalid cursor")
	}
	if n != 0 {
		last, ok := c.Cursors().Find(Walked(c), n)
		if !ok {
			last, o.Any = c.Cursors().Find(Walked(c)+AnyOrder, n)
			o.Place = copaladmin.Place(last)
		}
		if !ok && !o.Any {
			return o, command.Errorf("ERR invalid cursor: it is not known any more, begin again with 0")
		}
		o.From = append(bytes.Clone(last), 0)
	}
	o.Count = 10
	for i := at + 1; i < len(c.Args); i++ {
		switch arg := c.Args[i]; {
		case command.Is(arg, "COUNT") && i+1 < len(c.Args):
			i++
			n, err := command.ParseInt(c.Args[i])
			switch {
			case err != nil:
				return o, err
			case n < 1:
				return o, command.ErrSyntax
			}
			o.Count = int(min(n, 1<<20))
		case command.Is(arg, "MATCH") && i+1 < len(c.Args):
			i++
			o.Match = c.Args[i]
		case command.Is(arg, "TYPE") && i+1 < len(c.Args) && c.Row.Name == "scan":
			i++
			o.Kind = command.Lower(nil, c.Args[i])
		case command.Is(arg, "NOVALUES") && c.Row.Name == "hscan":
			o.NoValues = true
		default:
			return o, command.ErrSyntax
		}
	}
	if n == 0 {
		o.Any = c.Row.Name == "scan" && c.Tx == nil && (len(glob.Literal(o.Match)) == 0 || c.Store.Len() > FewKeys)
	}
	return o, nil
}

// AnyOrder ends the name of a walk in no order.
const AnyOrder = " in any order"

// Page takes the next names of a walk that begins at o.from, and replies the cursor. keep says which of
// them are returned.
func Page(c *command.Call, o *Scanning, names iter.Seq[[]byte], keep func(name []byte) bool) (kept [][]byte) {
	var last []byte
	var cursor uint64
	n := 0
	for name := range command.Steps(c, names) {
		if n == o.Count {
			cursor = c.Cursors().Give(Walked(c), last)
			break
		}
		n++
		last = append(last[:0], name...)
		if keep(name) {
			kept = append(kept, bytes.Clone(name))
			c.Uses(len(name) + command.EntryBytes)
		}
	}
	c.Array(2)
	c.BulkString(strconv.FormatUint(cursor, 10))
	return kept
}

// Fits reports whether a name fits a pattern. The longer both are, the more work it is.
func Fits(c *command.Call, pattern, name []byte) bool {
	return c.GoOn(len(pattern)*len(name)>>10) && glob.Match(pattern, name)
}

// Texts are arguments as fields or members.
func Texts(args [][]byte) []string {
	list := make([]string, len(args))
	for i, arg := range args {
		list[i] = string(arg)
	}
	return list
}

// ElementScan reads the arguments of HSCAN, SSCAN and ZSCAN. It replies if there is no collection.
func ElementScan(c *command.Call, kind string) (o Scanning, exists bool, err error) {
	if _, err = strconv.ParseUint(string(c.Args[2]), 10, 64); err != nil {
		return o, false, command.Errorf("ERR invalid cursor")
	}
	if exists, err = c.Exists(c.Args[1], kind); err != nil {
		return o, false, err
	}
	if !exists {
		c.Array(2)
		c.BulkString("0")
		c.Array(0)
		return o, false, nil
	}
	o, err = ScanOptions(c, 2)
	return o, true, err
}

// PageOf is page of elements with their values, or scores.
func PageOf[V any](c *command.Call, o *Scanning, elements iter.Seq2[string, V]) (list []Pair[V]) {
	var now Pair[V]
	Page(c, o, func(yield func([]byte) bool) {
		var name []byte
		for now.Name, now.Value = range elements {
			if name = append(name[:0], now.Name...); !yield(name) {
				return
			}
		}
	}, func(name []byte) bool {
		if o.Match == nil || Fits(c, o.Match, name) {
			list = append(list, now)
			usesPair(c, &now)
		}
		return false
	})
	return list
}

// FewKeys is how many keys a store may have until a walk over those with a prefix does not put all of them in order.
const FewKeys = 1 << 16
