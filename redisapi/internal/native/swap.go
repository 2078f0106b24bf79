package native

import (
	"bytes"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// swap is compare-and-set of a field of a hash.
func swap(c *command.Call) error {
	was, next, err := swapValues(c.Args)
	if err != nil {
		return err
	}
	same, changes := false, false
	_, _, err = c.Store.Hash(c.Args[1]).Update(string(c.Args[2]), func(e *copal.Entry[[]byte]) error {
		same = e.Exists == (was > 0) && (was == 0 || bytes.Equal(e.Value, c.Args[was]))
		changes = same && (e.Exists || next > 0) && !(e.Exists && next > 0 && bytes.Equal(e.Value, c.Args[next]))
		switch {
		case !changes:
			e.Cancel()
		case next == 0:
			e.Delete()
		default:
			e.Value = c.Args[next]
		}
		return nil
	})
	if err != nil {
		return err
	}
	switch {
	case !changes:
	case next == 0:
		c.EventOfRemoval("hdel", c.Args[1])
	default:
		c.Event("hset", c.Args[1])
	}
	c.Flag(same)
	return nil
}

// swapValues returns the indexes of the value to compare with and of the value to set, 0 for none.
func swapValues(args [][]byte) (was, next int, err error) {
	for i := 3; i < len(args); i += 2 {
		switch {
		case i+1 == len(args):
			return 0, 0, command.ErrSyntax
		case command.Is(args[i], "IFEQ") && was == 0 && next == 0:
			was = i + 1
		case command.Is(args[i], "SET") && next == 0:
			next = i + 1
		default:
			return 0, 0, command.ErrSyntax
		}
	}
	return was, next, nil
}

// swapped are the values that COPAL.SWAP stores.
func swapped(args [][]byte) []int {
	if _, next, err := swapValues(args); err == nil && next > 0 {
		return []int{next}
	}
	return nil
}
