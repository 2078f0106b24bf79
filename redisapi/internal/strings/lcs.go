package strings

import (
	"bytes"

	"github.com/copaldb/copal/redisapi/internal/command"
)

// maxCells is how many pairs of places LCS compares. So many have 512 MiB in Redis, and a bit each here.
const maxCells = 128 << 20

func lcs(c *command.Call) error {
	var idx, justLen, withLen bool
	least := int64(0)
	for i := 3; i < len(c.Args); i++ {
		switch arg := c.Args[i]; {
		case command.Is(arg, "IDX"):
			idx = true
		case command.Is(arg, "LEN"):
			justLen = true
		case command.Is(arg, "WITHMATCHLEN"):
			withLen = true
		case command.Is(arg, "MINMATCHLEN") && i+1 < len(c.Args):
			i++
			n, err := command.ParseInt(c.Args[i])
			if err != nil {
				return err
			}
			least = max(n, 0)
		default:
			return command.ErrSyntax
		}
	}
	if idx && justLen {
		return command.Errorf("ERR If you want both the length and indexes, please just use IDX.")
	}
	var texts [2][]byte
	for i, key := range c.Args[1:3] {
		value, _, err := c.Take(key)
		if command.IsType(err) {
			return command.Errorf("ERR The specified keys must contain string values")
		}
		if err != nil {
			return err
		}
		texts[i] = bytes.Clone(value)
	}
	a, b := texts[0], texts[1]
	if (int64(len(a))+1)*(int64(len(b))+1) > maxCells {
		return command.Errorf("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len")
	}
	// above has a bit for each pair of a[:i] and b[:j]: whether the subsequence of a[:i-1] and b[:j] is
	// the longer one.
	w := len(b) + 1
	var above []uint64
	c.Uses(8*w + len(a) + len(b))
	if !justLen {
		c.Uses((len(a) + 1) * w / 8)
		if c.Err() == nil {
			above = make([]uint64, (len(a)+1)*w/64+1)
		}
	}
	lengths, before := make([]uint32, w), make([]uint32, w)
	for i := 1; i <= len(a) && c.GoOn(1+w/64); i++ {
		lengths, before = before, lengths
		for j := 1; j <= len(b); j++ {
			switch up, aside := before[j], lengths[j-1]; {
			case a[i-1] == b[j-1]:
				lengths[j] = before[j-1] + 1
			case up > aside:
				lengths[j] = up
				if above != nil {
					above[(i*w+j)/64] |= 1 << ((i*w + j) % 64)
				}
			default:
				lengths[j] = aside
			}
		}
	}
	if err := c.Err(); err != nil {
		return err
	}
	total := int(lengths[len(b)])
	if justLen {
		c.Int(int64(total))
		return nil
	}
	type match struct{ a, b, n int } // where the pieces begin, and how long they are
	var matches []match
	text := make([]byte, total)
	for i, j, at := len(a), len(b), total; i > 0 && j > 0; {
		switch {
		case a[i-1] == b[j-1]:
			i, j, at = i-1, j-1, at-1
			text[at] = a[i]
			if last := len(matches) - 1; last >= 0 && matches[last].a == i+1 && matches[last].b == j+1 {
				matches[last] = match{i, j, matches[last].n + 1}
			} else {
				matches = append(matches, match{i, j, 1})
			}
		case above[(i*w+j)/64]>>((i*w+j)%64)&1 != 0:
			i--
		default:
			j--
		}
	}
	if !idx {
		c.Bulk(text)
		return nil
	}
	kept := matches[:0]
	for _, m := range matches {
		if int64(m.n) >= least {
			kept = append(kept, m)
		}
	}
	c.Map(2)
	c.BulkString("matches")
	c.Array(len(kept))
	for _, m := range kept {
		if withLen {
			c.Array(3)
		} else {
			c.Array(2)
		}
		for _, from := range []int{m.a, m.b} {
			c.Array(2)
			c.Int(int64(from))
			c.Int(int64(from + m.n - 1))
		}
		if withLen {
			c.Int(int64(m.n))
		}
	}
	c.BulkString("len")
	c.Int(int64(total))
	return nil
}
