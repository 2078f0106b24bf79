package keys

import (
	"bytes"
	"math"
	"slices"
	"strings"

	"github.com/copaldb/copal/redisapi/internal/command"
)

func Sorting() command.Family {
	return command.NewFamily("generic", "Sorting",
		&command.Row{Name: "sort", Arity: -2, How: command.Changing, Flags: command.Write, Keys: command.Keys{First: 1, Last: 1, Step: 1, Find: sortKeys}, Sources: command.TheFirst, Run: sort, Since: "1.0.0", Summary: "Sorts the elements of a list, a set or a sorted set, by themselves or by other keys, and returns or stores them, or other keys.",
			Differs: "texts are compared as bytes"},
		&command.Row{Name: "sort_ro", Arity: -2, How: command.Looking, Flags: command.ReadOnly, Keys: command.Keys{First: 1, Last: 1, Step: 1, Find: func([][]byte) []int { return []int{1} }}, Run: sort, Since: "7.0.0", Summary: "SORT without STORE."},
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
		case command.Is(args[i], "LIMIT"):
			i += 2
		case command.Is(args[i], "GET"), command.Is(args[i], "BY"):
			i++
		case command.Is(args[i], "STORE") && i+1 < len(args):
			i++
			store = i
		}
	}
	if store > 0 {
		return []int{1, store}
	}
	return []int{1}
}

// sorting has the arguments of SORT.
type sorting struct {
	by         []byte // nil for the elements themselves
	get        [][]byte
	store      []byte
	from, most int64 // of LIMIT; negative most for all
	desc       bool
	alpha      bool
	unsorted   bool // BY has no *
}

func sortOptions(c *command.Call) (o sorting, err error) {
	o.most = -1
	for i := 2; i < len(c.Args); i++ {
		left := len(c.Args) - i - 1
		switch arg := c.Args[i]; {
		case command.Is(arg, "ASC"):
			o.desc = false
		case command.Is(arg, "DESC"):
			o.desc = true
		case command.Is(arg, "ALPHA"):
			o.alpha = true
		case command.Is(arg, "LIMIT") && left >= 2:
			if o.from, err = command.ParseInt(c.Args[i+1]); err == nil {
				o.most, err = command.ParseInt(c.Args[i+2])
			}
			if err != nil {
				return o, err
			}
			i += 2
		case command.Is(arg, "STORE") && left >= 1 && c.Row.Name == "sort":
			i++
			o.store = c.Args[i]
		case command.Is(arg, "BY") && left >= 1:
			i++
			o.by = c.Args[i]
			o.unsorted = bytes.IndexByte(o.by, '*') < 0
		case command.Is(arg, "GET") && left >= 1:
			i++
			o.get = append(o.get, c.Args[i])
		default:
			return o, command.ErrSyntax
		}
	}
	for _, pattern := range append([][]byte{o.by}, o.get...) {
		if before, _, names := bytes.Cut(pattern, []byte("*")); names {
			if err := c.MayReadFrom(before); err != nil {
				return o, err
			}
		}
	}
	return o, nil
}

// sortable is an element, and its weight.
type sortable struct {
	element string
	score   float64
	text    []byte // nil if there is none
}

// sort is SORT and SORT_RO.
func sort(c *command.Call) error {
	o, err := sortOptions(c)
	if err != nil {
		return err
	}
	kind, elements, err := sortElements(c, &o)
	if err == nil && o.store != nil {
		err = c.MayHoldCollection(o.store)
	}
	if err != nil {
		return err
	}
	if kind == "set" && o.unsorted && o.store != nil {
		o.unsorted, o.alpha, o.by = false, true, nil // so that the stored list has an order, as in Redis
	}
	list := make([]sortable, len(elements))
	for i, element := range elements {
		list[i].element = element
		if !o.unsorted {
			if err := weigh(c, &o, &list[i]); err != nil {
				return err
			}
		}
	}
	if !o.unsorted {
		slices.SortStableFunc(list, func(a, b sortable) int {
			if !c.GoOn(1) {
				return 0 // which ends soon
			}
			return o.compare(a, b)
		})
	}
	list = list[within64(o.from, len(list)):]
	if o.most >= 0 && o.most < int64(len(list)) {
		list = list[:o.most]
	}
	return sorted(c, &o, list)
}

func within64(n int64, length int) int { return int(min(max(n, 0), int64(length))) }

// sortElements returns the elements to sort, and the type of their key.
func sortElements(c *command.Call, o *sorting) (kind string, list []string, err error) {
	key := c.Args[1]
	kind, err = c.Store.Type(key)
	switch {
	case command.IsMissing(err):
		return "", nil, nil
	case err != nil:
		return "", nil, err
	}
	switch kind {
	case "list":
		l := c.Store.List(key)
		if o.unsorted && o.desc {
			l = l.Backward()
		}
		for value := range command.Steps(c, l.All()) {
			list = append(list, string(value))
			c.Uses(len(value) + sortBytes)
		}
	case "set":
		for member := range command.Steps(c, c.Store.StringSet(key).All()) {
			list = append(list, member)
			c.Uses(len(member) + sortBytes)
		}
	case "zset":
		s := c.Store.SortedSet(key)
		if o.unsorted && o.desc {
			s = s.Backward()
		}
		for member := range command.Steps2(c, s.All()) {
			list = append(list, member)
			c.Uses(len(member) + sortBytes)
		}
	default:
		return "", nil, command.ErrWrongType
	}
	return kind, list, c.Err()
}

// sortBytes is the memory of SORT for an element beside its bytes.
const sortBytes = 128

// weigh finds the weight of an element.
func weigh(c *command.Call, o *sorting, s *sortable) error {
	s.text = []byte(s.element)
	if !c.GoOn(1) {
		return c.Err()
	}
	if o.by != nil {
		var err error
		if s.text, err = patterned(c, o.by, s.element); err != nil {
			return err
		}
		c.Uses(len(s.text))
	}
	if o.alpha || s.text == nil {
		return nil
	}
	f, err := command.DecimalOrHex(strings.TrimLeft(string(s.text), " \t\n\v\f\r"))
	if len(s.text) == 0 {
		f, err = 0, nil
	}
	if err != nil || math.IsNaN(f) || command.HasUnderscore(s.text) {
		return command.Errorf("ERR One or more scores can't be converted into double")
	}
	s.score = f
	return nil
}

// patterned is the value of the key, or of the field of a hash, that a pattern names for an element: nil if there is
// none.
func patterned(c *command.Call, pattern []byte, element string) ([]byte, error) {
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
	key := c.RawKey(slices.Concat(before, []byte(element), behind))
	kind, err := c.Store.Type(key)
	switch {
	case command.IsMissing(err):
		c.Event("keymiss", key)
		return nil, nil
	case err != nil:
		return nil, err
	case field != nil && kind == "hash":
		value, err := c.Store.Hash(key).Load(string(field))
		if command.IsMissing(err) {
			return nil, nil
		}
		return value, err
	case field == nil && kind == "value":
		value, err := c.Store.Load(key)
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

// sorted replies or stores the elements, or the values that GET names.
func sorted(c *command.Call, o *sorting, list []sortable) error {
	var out [][]byte
	for _, s := range command.Steps2(c, slices.All(list)) {
		if o.get == nil {
			out = append(out, []byte(s.element))
		}
		for _, pattern := range o.get {
			value, err := patterned(c, pattern, s.element)
			if err != nil {
				return err
			}
			if c.Uses(len(value) + command.EntryBytes); !c.GoOn(1) {
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
	existed, err := c.Store.Delete(o.store)
	if err != nil {
		return err
	}
	if len(out) > 0 {
		for i, value := range out {
			out[i] = append([]byte{}, value...)
		}
		if err := c.Store.List(o.store).PushBack(out...); err != nil {
			return err
		}
	}
	c.EventOfResult("sortstore", o.store, existed, len(out) == 0)
	c.Int(int64(len(out)))
	return nil
}
