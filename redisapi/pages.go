package redisapi

import (
	"bytes"
	"iter"
	"strconv"

	copaladmin "github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/glob"
	"github.com/copaldb/copal/internal/opened"
)

// walked is what a command of the SCAN family walks over: the database, or what a key holds.
func (c *call) walked() string {
	if c.cmd.name == "scan" {
		return "scan " + strconv.Itoa(int(c.db.Load()))
	}
	return c.cmd.name + " " + string(c.args[1])
}

// scanning is what the commands of the SCAN family have in common.
type scanning struct {
	from     []byte           // the first that may be returned, nil for the beginning
	any      bool             // of SCAN: in no order
	place    copaladmin.Place // then it is here
	count    int
	match    []byte // nil for all
	kind     []byte // of SCAN: the type that is wanted, nil for all
	noValues bool   // of HSCAN
}

// scanOptions reads the arguments from the cursor on, which stands at an index.
func (c *call) scanOptions(at int) (o scanning, err error) {
	n, err := strconv.ParseUint(string(c.args[at]), 10, 64)
	if err != nil {
		return o, errorf("ERR invalid cursor")
	}
	if n != 0 {
		last, ok := c.cursors().find(c.walked(), n)
		if !ok {
			last, o.any = c.cursors().find(c.walked()+anyOrder, n)
			o.place = copaladmin.Place(last)
		}
		if !ok && !o.any {
			return o, errorf("ERR invalid cursor: it is not known any more, begin again with 0")
		}
		o.from = append(bytes.Clone(last), 0)
	}
	o.count = 10
	for i := at + 1; i < len(c.args); i++ {
		switch arg := c.args[i]; {
		case is(arg, "COUNT") && i+1 < len(c.args):
			i++
			n, err := parseInt(c.args[i])
			switch {
			case err != nil:
				return o, err
			case n < 1:
				return o, errSyntax
			}
			o.count = int(min(n, 1<<20))
		case is(arg, "MATCH") && i+1 < len(c.args):
			i++
			o.match = c.args[i]
		case is(arg, "TYPE") && i+1 < len(c.args) && c.cmd.name == "scan":
			i++
			o.kind = lower(nil, c.args[i])
		case is(arg, "NOVALUES") && c.cmd.name == "hscan":
			o.noValues = true
		default:
			return o, errSyntax
		}
	}
	if n == 0 {
		o.any = c.cmd.name == "scan" && c.tx == nil && (len(glob.Literal(o.match)) == 0 || opened.DriverOf(c.shared.db) == nil && c.raw.Len() > fewKeys)
	}
	return o, nil
}

// anyOrder is behind the name of a walk in no order.
const anyOrder = " in any order"

// page takes the next names of a walk that begins at o.from, and replies the cursor. keep says which of
// them are returned.
func (c *call) page(o *scanning, names iter.Seq[[]byte], keep func(name []byte) bool) (kept [][]byte) {
	var last []byte
	var cursor uint64
	n := 0
	for name := range steps(c, names) {
		if n == o.count {
			cursor = c.cursors().give(c.walked(), last)
			break
		}
		n++
		last = append(last[:0], name...)
		if keep(name) {
			kept = append(kept, bytes.Clone(name))
			c.uses(len(name) + entryBytes)
		}
	}
	c.Array(2)
	c.BulkString(strconv.FormatUint(cursor, 10))
	return kept
}

// fits reports whether a name fits a pattern. The longer both are, the more work it is.
func (c *call) fits(pattern, name []byte) bool {
	return c.goOn(len(pattern)*len(name)>>10) && glob.Match(pattern, name)
}

// texts are arguments as fields or members.
func texts(args [][]byte) []string {
	list := make([]string, len(args))
	for i, arg := range args {
		list[i] = string(arg)
	}
	return list
}

// elementScan reads the arguments of HSCAN, SSCAN and ZSCAN. It replies if there is no collection.
func (c *call) elementScan(kind string) (o scanning, exists bool, err error) {
	if _, err = strconv.ParseUint(string(c.args[2]), 10, 64); err != nil {
		return o, false, errorf("ERR invalid cursor")
	}
	if exists, err = c.exists(c.args[1], kind); err != nil {
		return o, false, err
	}
	if !exists {
		c.Array(2)
		c.BulkString("0")
		c.Array(0)
		return o, false, nil
	}
	o, err = c.scanOptions(2)
	return o, true, err
}

// pageOf is page of elements with their values, or scores.
func pageOf[V any](c *call, o *scanning, elements iter.Seq2[string, V]) (list []pair[V]) {
	var now pair[V]
	c.page(o, func(yield func([]byte) bool) {
		var name []byte
		for now.name, now.value = range elements {
			if name = append(name[:0], now.name...); !yield(name) {
				return
			}
		}
	}, func(name []byte) bool {
		if o.match == nil || c.fits(o.match, name) {
			list = append(list, now)
			c.usesPair(&now)
		}
		return false
	})
	return list
}

// wrongArguments is the error of a number of arguments that does not fit.
func (c *call) wrongArguments() error {
	return errorf("ERR wrong number of arguments for '%s' command", c.cmd.fullName())
}

// fewKeys is how many keys a store may have until a walk over those with a prefix does not put all of them in order.
const fewKeys = 1 << 16
