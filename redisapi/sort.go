package redisapi

import (
	"bytes"
	"math"
	"slices"
	"strings"
)

func sortCommands() family {
	return known("generic", "Sorting",
		&command{name: "sort", arity: -2, how: changing, flags: write, keys: keys{1, 1, 1, sortKeys}, sources: theFirst, run: (*call).sort, since: "1.0.0", summary: "Sorts the elements of a list, a set or a sorted set, by themselves or by other keys, and returns or stores them, or other keys.",
			differs: "texts are compared as bytes"},
		&command{name: "sort_ro", arity: -2, how: looking, flags: readonly, keys: keys{1, 1, 1, func([][]byte) []int { return []int{1} }}, run: (*call).sort, since: "7.0.0", summary: "SORT without STORE."},
	)
}

// sortKeys are the key that is sorted, and that of the last STORE.
func sortKeys(args [][]byte) []int {
	if len(args) < 2 {
		return nil
	}
	store := 0
	for i := 2; i < len(args); i++ {
		switch {
		case is(args[i], "LIMIT"):
			i += 2
		case is(args[i], "GET"), is(args[i], "BY"):
			i++
		case is(args[i], "STORE") && i+1 < len(args):
			i++
			store = i
		}
	}
	if store > 0 {
		return []int{1, store}
	}
	return []int{1}
}

// sorting is what SORT is asked for.
type sorting struct {
	by         []byte // nil for the elements themselves
	get        [][]byte
	store      []byte
	from, most int64 // of LIMIT; negative most for all
	desc       bool
	alpha      bool
	unsorted   bool // BY has no *
}

func (c *call) sortOptions() (o sorting, err error) {
	o.most = -1
	for i := 2; i < len(c.args); i++ {
		left := len(c.args) - i - 1
		switch arg := c.args[i]; {
		case is(arg, "ASC"):
			o.desc = false
		case is(arg, "DESC"):
			o.desc = true
		case is(arg, "ALPHA"):
			o.alpha = true
		case is(arg, "LIMIT") && left >= 2:
			if o.from, err = parseInt(c.args[i+1]); err == nil {
				o.most, err = parseInt(c.args[i+2])
			}
			if err != nil {
				return o, err
			}
			i += 2
		case is(arg, "STORE") && left >= 1 && c.cmd.name == "sort":
			i++
			o.store = c.args[i]
		case is(arg, "BY") && left >= 1:
			i++
			o.by = c.args[i]
			o.unsorted = bytes.IndexByte(o.by, '*') < 0
		case is(arg, "GET") && left >= 1:
			i++
			o.get = append(o.get, c.args[i])
		default:
			return o, errSyntax
		}
	}
	for _, pattern := range append([][]byte{o.by}, o.get...) {
		if before, _, names := bytes.Cut(pattern, []byte("*")); names {
			if err := c.mayReadFrom(before); err != nil {
				return o, err
			}
		}
	}
	return o, nil
}

// sortable is an element, and what it is sorted by.
type sortable struct {
	element string
	score   float64
	text    []byte // nil if there is none
}

// sort is SORT and SORT_RO.
func (c *call) sort() error {
	o, err := c.sortOptions()
	if err != nil {
		return err
	}
	kind, elements, err := c.sortElements(&o)
	if err == nil && o.store != nil {
		err = c.mayHoldCollection(o.store)
	}
	if err != nil {
		return err
	}
	if kind == "set" && o.unsorted && o.store != nil {
		o.unsorted, o.alpha, o.by = false, true, nil // so that what is stored has an order, as in Redis
	}
	list := make([]sortable, len(elements))
	for i, element := range elements {
		list[i].element = element
		if !o.unsorted {
			if err := c.weigh(&o, &list[i]); err != nil {
				return err
			}
		}
	}
	if !o.unsorted {
		slices.SortStableFunc(list, func(a, b sortable) int {
			if !c.goOn(1) {
				return 0 // which ends soon
			}
			return o.compare(a, b)
		})
	}
	list = list[within64(o.from, len(list)):]
	if o.most >= 0 && o.most < int64(len(list)) {
		list = list[:o.most]
	}
	return c.sorted(&o, list)
}

func within64(n int64, length int) int { return int(min(max(n, 0), int64(length))) }

// sortElements are the elements of what is to be sorted, and its type.
func (c *call) sortElements(o *sorting) (kind string, list []string, err error) {
	key := c.args[1]
	kind, err = c.raw.Type(key)
	switch {
	case missing(err):
		return "", nil, nil
	case err != nil:
		return "", nil, err
	}
	switch kind {
	case "list":
		l := c.raw.List(key)
		if o.unsorted && o.desc {
			l = l.Backward()
		}
		for value := range steps(c, l.All()) {
			list = append(list, string(value))
			c.uses(len(value) + sortBytes)
		}
	case "set":
		for member := range steps(c, c.raw.StringSet(key).All()) {
			list = append(list, member)
			c.uses(len(member) + sortBytes)
		}
	case "zset":
		s := c.raw.SortedSet(key)
		if o.unsorted && o.desc {
			s = s.Backward()
		}
		for member := range steps2(c, s.All()) {
			list = append(list, member)
			c.uses(len(member) + sortBytes)
		}
	default:
		return "", nil, errWrongType
	}
	return kind, list, c.Err()
}

// sortBytes is what SORT needs for an element beside its bytes.
const sortBytes = 128

// weigh finds what an element is sorted by.
func (c *call) weigh(o *sorting, s *sortable) error {
	s.text = []byte(s.element)
	if !c.goOn(1) {
		return c.Err()
	}
	if o.by != nil {
		var err error
		if s.text, err = c.patterned(o.by, s.element); err != nil {
			return err
		}
		c.uses(len(s.text))
	}
	if o.alpha || s.text == nil {
		return nil
	}
	f, err := decimalOrHex(strings.TrimLeft(string(s.text), " \t\n\v\f\r"))
	if len(s.text) == 0 {
		f, err = 0, nil
	}
	if err != nil || math.IsNaN(f) || hasUnderscore(s.text) {
		return errorf("ERR One or more scores can't be converted into double")
	}
	s.score = f
	return nil
}

// patterned is the value of the key, or of the field of a hash, that a pattern names for an element: nil if there is
// none.
func (c *call) patterned(pattern []byte, element string) ([]byte, error) {
	if string(pattern) == "#" {
		return []byte(element), nil
	}
	before, behind, ok := bytes.Cut(pattern, []byte("*"))
	if !ok {
		return nil, nil
	}
	var field []byte
	if head, tail, ok := bytes.Cut(behind, []byte("->")); ok && len(tail) > 0 {
		behind, field = head, tail
	}
	key := c.rawKey(slices.Concat(before, []byte(element), behind))
	kind, err := c.raw.Type(key)
	switch {
	case missing(err):
		return nil, nil
	case err != nil:
		return nil, err
	case field != nil && kind == "hash":
		value, err := c.raw.Hash(key).Load(string(field))
		if missing(err) {
			return nil, nil
		}
		return value, err
	case field == nil && kind == "value":
		value, err := c.raw.Load(key)
		return value, err
	}
	return nil, nil
}

func (o *sorting) compare(a, b sortable) int {
	n := 0
	switch {
	case !o.alpha && a.score != b.score:
		n = 1
		if a.score < b.score {
			n = -1
		}
	case o.alpha && (a.text == nil) != (b.text == nil):
		n = 1
		if a.text == nil {
			n = -1
		}
	case o.alpha:
		n = bytes.Compare(a.text, b.text)
	}
	if n == 0 {
		n = strings.Compare(a.element, b.element)
	}
	if o.desc {
		return -n
	}
	return n
}

// sorted replies or stores the elements, or what GET names.
func (c *call) sorted(o *sorting, list []sortable) error {
	var out [][]byte
	for _, s := range steps2(c, slices.All(list)) {
		if o.get == nil {
			out = append(out, []byte(s.element))
		}
		for _, pattern := range o.get {
			value, err := c.patterned(pattern, s.element)
			if err != nil {
				return err
			}
			if c.uses(len(value) + entryBytes); !c.goOn(1) {
				return c.Err()
			}
			out = append(out, value)
		}
	}
	if err := c.Err(); err != nil {
		return err
	}
	if o.store == nil {
		c.Array(len(out))
		for _, value := range out {
			if value == nil {
				c.Null()
			} else {
				c.Bulk(value)
			}
		}
		return nil
	}
	if _, err := c.raw.Delete(o.store); err != nil {
		return err
	}
	if len(out) > 0 {
		for i, value := range out {
			out[i] = append([]byte{}, value...)
		}
		if err := c.raw.List(o.store).PushBack(out...); err != nil {
			return err
		}
	}
	c.Int(int64(len(out)))
	return nil
}
