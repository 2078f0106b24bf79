package strings

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// Bits are counted from the highest of the first byte on.

func Bits() command.Family {
	return command.NewFamily("bitmap", "Bits",
		&command.Row{Name: "setbit", Arity: 4, Flags: command.Write, Keys: command.OneKey, Run: setbit, Since: "2.2.0", Summary: "Sets a bit, and returns the previous one."},
		&command.Row{Name: "getbit", Arity: 3, Flags: command.ReadOnly | command.Fast, Keys: command.OneKey, Run: getbit, Since: "2.2.0", Summary: "Returns a bit."},
		&command.Row{Name: "bitcount", Arity: -2, Flags: command.ReadOnly, Keys: command.OneKey, Run: bitcount, Since: "2.6.0", Summary: "Counts the bits that are 1."},
		&command.Row{Name: "bitpos", Arity: -3, Flags: command.ReadOnly, Keys: command.OneKey, Run: bitpos, Since: "2.8.7", Summary: "Finds the first bit that is 1, or 0."},
		&command.Row{Name: "bitop", Arity: -4, How: command.Changing, Flags: command.Write, Keys: command.Keys{First: 2, Last: -1, Step: 1}, Sources: command.TheOthers, Run: bitop, Since: "2.6.0", Summary: "Stores the AND, OR, XOR or NOT of values, and returns its length."},
		&command.Row{Name: "bitfield", Arity: -2, Flags: command.Write, Keys: command.OneKey, Run: bitfield, Since: "3.2.0", Summary: "Reads, sets and adds to integers of any width at any bit."},
		&command.Row{Name: "bitfield_ro", Arity: -2, Flags: command.ReadOnly | command.Fast, Keys: command.OneKey, IsSilent: true, Run: bitfield, Since: "6.0.0", Summary: "Reads integers of any width at any bit."},
	)
}

const errBitOffset command.Error = "ERR bit offset is not an integer or out of range"

// maxBits is how many bits the longest string has.
const maxBits = command.MaxString * 8

// bitOffset reads the number of a bit.
func bitOffset(arg []byte) (int64, error) {
	n, err := command.ParseInt(arg)
	if err != nil || n < 0 || n >= maxBits {
		return 0, errBitOffset
	}
	return n, nil
}

// extends charges the call for a value that will have n bytes.
func extends(c *command.Call, value []byte, n int64) error {
	if n > int64(len(value)) {
		c.Uses(int(n))
	}
	return c.Err()
}

// extended returns a value with zeros at its end, so that it has n bytes at least.
func extended(value []byte, n int64) []byte {
	if n > int64(len(value)) {
		value = append(value, make([]byte, n-int64(len(value)))...)
	}
	return value
}

func setbit(c *command.Call) error {
	offset, err := bitOffset(c.Args[2])
	if err != nil {
		return err
	}
	bit, err := command.ParseInt(c.Args[3])
	if err != nil || bit&^1 != 0 {
		return command.Errorf("ERR bit is not an integer or out of range")
	}
	var before bool
	_, _, err = c.Store.Update(c.Args[1], command.IfChanged(c, func(e *copal.Entry[[]byte]) (bool, error) {
		length := len(e.Value)
		if err := extends(c, e.Value, offset/8+1); err != nil {
			return false, err
		}
		e.Value = extended(e.Value, offset/8+1)
		mask := byte(0x80) >> (offset % 8)
		b := &e.Value[offset/8]
		before = *b&mask != 0
		*b &^= mask
		if bit == 1 {
			*b |= mask
		}
		return before != (bit == 1) || len(e.Value) > length, command.FitsRedis(e.Value)
	}))
	if err != nil {
		return err
	}
	c.EventOfUpdate("setbit", c.Args[1])
	c.Flag(before)
	return nil
}

func getbit(c *command.Call) error {
	offset, err := bitOffset(c.Args[2])
	if err != nil {
		return err
	}
	return c.Look(c.Args[1], func(value []byte) {
		at := offset / 8
		c.Flag(at < int64(len(value)) && value[at]<<(offset%8)&0x80 != 0)
	})
}

// bitRange reads start, end and unit, which begin at an index and may be missing, of a value of n bytes. It returns
// the bits in [low, high).
func bitRange(c *command.Call, at, n int) (low, high int64, err error) {
	from, to, size, unit := int64(0), int64(-1), int64(n), int64(8)
	if at < len(c.Args) {
		if from, err = command.ParseInt(c.Args[at]); err != nil {
			return 0, 0, err
		}
	}
	if at+2 < len(c.Args) {
		switch {
		case command.Is(c.Args[at+2], "BIT"):
			size, unit = 8*size, 1
		case !command.Is(c.Args[at+2], "BYTE"):
			return 0, 0, command.ErrSyntax
		}
	}
	if at+1 < len(c.Args) {
		if to, err = command.ParseInt(c.Args[at+1]); err != nil {
			return 0, 0, err
		}
	}
	if from < 0 && to < 0 && from > to && c.Row.Name == "bitcount" { // BITPOS looks at their places in the value
		return 0, 0, nil
	}
	if from < 0 {
		from = max(from+size, 0)
	}
	if to < 0 {
		to = max(to+size, 0)
	}
	if to = min(to, size-1); from > to {
		return 0, 0, nil
	}
	return from * unit, (to + 1) * unit, nil
}

func bitcount(c *command.Call) error {
	var n int
	var bad error
	err := c.Look(c.Args[1], func(value []byte) {
		switch {
		case value == nil:
			return
		case len(c.Args) == 3 || len(c.Args) > 5:
			bad = command.ErrSyntax
			return
		}
		var low, high int64
		if low, high, bad = bitRange(c, 2, len(value)); bad == nil {
			n = ones(value, low, high)
		}
	})
	if err = errors.Join(err, bad); err != nil {
		return err
	}
	c.Int(int64(n))
	return nil
}

// ones counts the bits in [low, high) that are 1.
func ones(value []byte, low, high int64) (n int) {
	if low >= high {
		return 0
	}
	first, last := low/8, (high-1)/8
	n -= bits.OnesCount8(value[first] & ^(byte(0xff) >> (low % 8)))
	n -= bits.OnesCount8(value[last] & (0x7f >> ((high - 1) % 8)))
	part := value[first : last+1]
	for ; len(part) >= 8; part = part[8:] {
		n += bits.OnesCount64(binary.BigEndian.Uint64(part))
	}
	for _, b := range part {
		n += bits.OnesCount8(b)
	}
	return n
}

func bitpos(c *command.Call) error {
	bit, err := command.ParseInt(c.Args[2])
	switch {
	case err != nil:
		return err
	case bit&^1 != 0:
		return command.Errorf("ERR The bit argument must be 1 or 0.")
	}
	at := int64(-1)
	var bad error
	err = c.Look(c.Args[1], func(value []byte) {
		switch {
		case value == nil:
			at = -bit // all of it is 0
			return
		case len(c.Args) > 6:
			bad = command.ErrSyntax
			return
		}
		low, high, err := bitRange(c, 3, len(value))
		if err != nil {
			bad = err
			return
		}
		at = firstBit(value, low, high, bit == 1)
		if at < 0 && bit == 0 && len(c.Args) < 5 && low < high {
			at = high // after the value, where all is 0
		}
	})
	if err = errors.Join(err, bad); err != nil {
		return err
	}
	c.Int(at)
	return nil
}

// firstBit is the first bit in [low, high) that is 1, or 0, and -1 if there is none.
func firstBit(value []byte, low, high int64, one bool) int64 {
	other := byte(0xff)
	if one {
		other = 0
	}
	for i := low; i < high; {
		b := value[i/8] ^ other // a bit that is looked for is 1
		if b <<= i % 8; b != 0 {
			if at := i + int64(bits.LeadingZeros8(b)); at < high {
				return at
			}
			return -1
		}
		i += 8 - i%8
	}
	return -1
}

func bitop(c *command.Call) error {
	var op func(a, b byte) byte
	name, from := c.Args[1], c.Args[3:]
	switch {
	case command.Is(name, "AND"):
		op = func(a, b byte) byte { return a & b }
	case command.Is(name, "OR"):
		op = func(a, b byte) byte { return a | b }
	case command.Is(name, "XOR"):
		op = func(a, b byte) byte { return a ^ b }
	case !command.Is(name, "NOT"):
		return command.ErrSyntax
	case len(from) != 1:
		return command.Errorf("ERR BITOP NOT must be called with a single source key.")
	}
	var out []byte
	for i, key := range from {
		value, _, err := c.Take(key)
		if err != nil {
			return err
		}
		longest := max(len(out), len(value))
		if c.Uses(longest - len(out) + longest - len(value)); !c.GoOn(1 + longest/256) {
			return c.Err()
		}
		out, value = extended(out, int64(longest)), extended(value, int64(longest))
		for k := range out {
			switch {
			case op == nil:
				out[k] = ^value[k]
			case i == 0:
				out[k] = value[k]
			default:
				out[k] = op(out[k], value[k])
			}
		}
	}
	var err error
	existed := false
	if len(out) > 0 {
		err = c.Put(c.Args[2], out, time.Time{})
	} else {
		existed, err = c.Store.Delete(c.Args[2])
	}
	if err != nil {
		return err
	}
	c.EventOfResult("set", c.Args[2], existed, len(out) == 0)
	c.Int(int64(len(out)))
	return nil
}

// bitNumber is the type of a number in a bit field, and its place.
type bitNumber struct {
	signed bool
	width  uint
	at     int64
}

// overflow is the treatment of a number that does not fit.
type overflow uint8

const (
	wraps overflow = iota
	saturates
	fails
)

// bitAction is one action of BITFIELD on a number.
type bitAction struct {
	bitNumber
	set, add bool // neither reads
	by       int64
	overflow overflow
}

// bitActions reads the arguments of BITFIELD.
func bitActions(c *command.Call) (list []bitAction, err error) {
	how := wraps
	rest := c.Args[2:]
	for len(rest) > 0 {
		var a bitAction
		switch {
		case command.Is(rest[0], "GET") && len(rest) > 2:
		case command.Is(rest[0], "SET") && len(rest) > 3:
			a.set = true
		case command.Is(rest[0], "INCRBY") && len(rest) > 3:
			a.add = true
		case command.Is(rest[0], "OVERFLOW") && len(rest) > 1:
			switch {
			case command.Is(rest[1], "WRAP"):
				how = wraps
			case command.Is(rest[1], "SAT"):
				how = saturates
			case command.Is(rest[1], "FAIL"):
				how = fails
			default:
				return nil, command.Errorf("ERR Invalid OVERFLOW type specified")
			}
			rest = rest[2:]
			continue
		default:
			return nil, command.ErrSyntax
		}
		if a.bitNumber, err = parseBitNumber(rest[1], rest[2]); err != nil {
			return nil, err
		}
		a.overflow = how
		n := 3
		if a.set || a.add {
			if a.by, err = command.ParseInt(rest[3]); err != nil {
				return nil, err
			}
			n = 4
		}
		list = append(list, a)
		c.Uses(2 * command.EntryBytes)
		rest = rest[n:]
	}
	return list, nil
}

func parseBitNumber(kind, offset []byte) (b bitNumber, err error) {
	bad := command.Errorf("ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.")
	if len(kind) < 2 || kind[0] != 'i' && kind[0] != 'u' {
		return b, bad
	}
	b.signed = kind[0] == 'i'
	width, err := command.ParseInt(kind[1:])
	if err != nil || width < 1 || width > 64 || width == 64 && !b.signed {
		return b, bad
	}
	b.width = uint(width)
	times := int64(1)
	if len(offset) > 0 && offset[0] == '#' {
		offset, times = offset[1:], width
	}
	n, err := command.ParseInt(offset)
	if err != nil || n < 0 || n > maxBits || n*times >= maxBits {
		return b, errBitOffset
	}
	b.at = n * times
	return b, nil
}

// get reads the number. After the value all bits are 0.
func (b *bitNumber) get(value []byte) int64 {
	var n uint64
	for i := b.at; i < b.at+int64(b.width); i++ {
		n <<= 1
		if i/8 < int64(len(value)) {
			n |= uint64(value[i/8]>>(7-i%8)) & 1
		}
	}
	return b.cut(n)
}

// cut returns the number that the bits mean.
func (b *bitNumber) cut(n uint64) int64 {
	shift := 64 - b.width
	if b.signed {
		return int64(n<<shift) >> shift
	}
	return int64(n << shift >> shift)
}

func (b *bitNumber) put(value []byte, n int64) {
	for k := range int64(b.width) {
		i := b.at + k
		mask := byte(0x80) >> (i % 8)
		value[i/8] &^= mask
		if uint64(n)>>(int64(b.width)-1-k)&1 != 0 {
			value[i/8] |= mask
		}
	}
}

// bounds are the least and the greatest number.
func (b *bitNumber) bounds() (least, greatest int64) {
	if b.signed {
		greatest = int64(1)<<(b.width-1) - 1
		return -greatest - 1, greatest
	}
	return 0, int64(1)<<b.width - 1 // of 63 bits at most
}

// sum adds to a number, and ok is false if the sum does not fit and that fails.
func (a *bitAction) sum(now, by int64) (n int64, ok bool) {
	least, greatest := a.bounds()
	over := now > greatest || now < 0 && !a.signed // to BITFIELD a negative number is a very great one there
	if a.width < 64 && !over {
		// Redis takes the way to the greatest number in 64 bits. Where it is longer the number has run
		// over, however far below the least it is.
		over = int64(uint64(greatest)-uint64(now)) < 0
	}
	under := now < least
	if !over && !under {
		over = by > 0 && uint64(greatest)-uint64(now) < uint64(by)
		under = by < 0 && uint64(now)-uint64(least) < -uint64(by)
	}
	switch {
	case !over && !under:
		return now + by, true
	case a.overflow == fails:
		return 0, false
	case a.overflow == wraps:
		return a.cut(uint64(now) + uint64(by)), true
	case over:
		return greatest, true
	}
	return least, true
}

// numbers reads the numbers of actions, one after the other.
func numbers(list []bitAction, value []byte) []int64 {
	all := make([]int64, len(list))
	for i := range list {
		all[i] = list[i].get(value)
	}
	return all
}

// bitfield is BITFIELD and BITFIELD_RO.
func bitfield(c *command.Call) error {
	list, err := bitActions(c)
	if err != nil {
		return err
	}
	end := int64(0) // of the last number that is written
	writes := false
	for _, a := range list {
		if a.set || a.add {
			writes = true
			end = max(end, a.at+int64(a.width))
		}
	}
	type answer struct {
		n  int64
		ok bool
	}
	if err := c.Err(); err != nil {
		return err
	}
	answers := make([]answer, len(list))
	run := func(value []byte) {
		for i, a := range list {
			now := a.get(value)
			switch {
			case a.add:
				n, ok := a.sum(now, a.by)
				if ok {
					a.put(value, n)
				}
				answers[i] = answer{n, ok}
			case a.set:
				n, ok := a.sum(a.by, 0)
				if ok {
					a.put(value, n)
				}
				answers[i] = answer{now, ok}
			default:
				answers[i] = answer{now, true}
			}
		}
	}
	switch {
	case writes && c.Row.Name == "bitfield_ro":
		return command.Errorf("ERR BITFIELD_RO only supports the GET subcommand")
	case end > maxBits:
		return command.ErrTooLong
	case writes:
		_, _, err = c.Store.Update(c.Args[1], command.IfChanged(c, func(e *copal.Entry[[]byte]) (bool, error) {
			length, were := len(e.Value), numbers(list, e.Value)
			if err := extends(c, e.Value, (end+7)/8); err != nil {
				return false, err
			}
			e.Value = extended(e.Value, (end+7)/8)
			run(e.Value)
			return len(e.Value) > length || !slices.Equal(numbers(list, e.Value), were), command.FitsRedis(e.Value)
		}))
	default:
		c.EventIfMissed(c.Args[1])
		err = c.Look(c.Args[1], run)
	}
	if err != nil {
		return err
	}
	if writes {
		c.EventOfUpdate("setbit", c.Args[1])
	}
	c.Array(len(answers))
	for _, a := range answers {
		if a.ok {
			c.Int(a.n)
		} else {
			c.Null()
		}
	}
	return nil
}
