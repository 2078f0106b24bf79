package remote

import (
	"bytes"
	"context"
	"crypto/rand"
	"iter"
	"strings"

	"github.com/redis/rueidis"

	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
)

func (r *redis) At(ctx context.Context, of driver.Of, index int) (e driver.Element, err error) {
	m, err := r.get(ctx, read("LINDEX", of.Key, itoa(index)))
	switch {
	case err != nil:
		return e, r.fits(ctx, of.Key, err)
	case m.IsNil():
		return e, engine.ErrNotFound
	}
	e.Value, e.Schema, err = r.known(ctx, m)
	return e, err
}

func (r *redis) Between(ctx context.Context, of driver.Of, from, to int, down bool) iter.Seq2[driver.Element, error] {
	if to == 0 || from >= 0 && to > 0 && to <= from { // as Redis has it, -1 is the last
		return none
	}
	return func(yield func(driver.Element, error) bool) {
		list, err := r.slice(ctx, of, from, to)
		if err != nil {
			yield(driver.Element{}, r.fits(ctx, of.Key, err))
			return
		}
		for i := range list {
			if down {
				i = len(list) - 1 - i
			}
			var e driver.Element
			e.Value, e.Schema, err = r.known(ctx, list[i])
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// slice returns the elements with indexes in [from, to), as messages.
func (r *redis) slice(ctx context.Context, of driver.Of, from, to int) ([]rueidis.RedisMessage, error) {
	m, err := r.get(ctx, read("LRANGE", of.Key, itoa(from), itoa(to-1)))
	if err != nil {
		return nil, err
	}
	list, err := m.ToArray()
	if err != nil {
		return nil, refusal(err)
	}
	return list, nil
}

// values are elements as arguments.
func (r *redis) values(list []driver.Element) (args []string) {
	for i := range list {
		args = append(args, r.wrap(list[i].Value, list[i].Schema))
	}
	return args
}

func (r *redis) Push(ctx context.Context, of driver.Of, list []driver.Element, front, _ bool, d engine.Durability) (length int, err error) {
	if len(list) == 0 {
		return r.Count(ctx, of)
	}
	name := "RPUSH"
	if front {
		name = "LPUSH"
	}
	replies, err := r.change(ctx, d, write(name, of.Key, r.values(list)...))
	if err != nil {
		return 0, r.fits(ctx, of.Key, err)
	}
	n, err := whole(replies[0])
	return int(n), err
}

// Insert puts elements into a list. Redis finds the place by an element and not by its index, so the one at the
// index is for a moment another, which nothing can equal.
func (r *redis) Insert(ctx context.Context, of driver.Of, index int, list []driver.Element, d engine.Durability) error {
	_, err := r.watched(ctx, d, [][]byte{of.Key}, func(ctx context.Context, r *redis) ([]command, error) {
		n, err := r.Count(ctx, of)
		at := index
		if at < 0 {
			at += n
		}
		switch {
		case err != nil:
			return nil, err
		case at < 0 || at > n:
			return nil, engine.ErrNotFound
		case len(list) == 0:
			return nil, nil
		case at == n:
			return []command{write("RPUSH", of.Key, r.values(list)...)}, nil
		}
		now, err := r.get(ctx, read("LINDEX", of.Key, itoa(at)))
		if err != nil {
			return nil, err
		}
		was, err := now.ToString()
		if err != nil {
			return nil, refusal(err)
		}
		mark := r.wrap([]byte("copal "+rand.Text()), 0)
		commands := []command{write("LSET", of.Key, itoa(at), mark)}
		for _, value := range r.values(list) {
			commands = append(commands, write("LINSERT", of.Key, "BEFORE", mark, value))
		}
		return append(commands, write("LSET", of.Key, itoa(at+len(list)), was)), nil
	})
	return r.fits(ctx, of.Key, err)
}

func (r *redis) Replace(ctx context.Context, of driver.Of, index int, e driver.Element, d engine.Durability) error {
	_, err := r.change(ctx, d, write("LSET", of.Key, itoa(index), r.wrap(e.Value, e.Schema)))
	if err != nil && (strings.Contains(err.Error(), "no such key") || strings.Contains(err.Error(), "index out of range")) {
		return engine.ErrNotFound
	}
	return r.fits(ctx, of.Key, err)
}

// popElement removes the element at an end if it is still the one given, as At returned it; otherwise the error is
// ErrConflict.
func (r *redis) popElement(ctx context.Context, of driver.Of, last bool, was driver.Element, d engine.Durability) error {
	name, index := "LPOP", indexOf(last)
	if last {
		name = "RPOP"
	}
	_, err := r.watched(ctx, d, [][]byte{of.Key}, func(ctx context.Context, r *redis) ([]command, error) {
		now, err := r.At(ctx, of, index)
		if missing(err) != nil {
			return nil, err
		}
		if err != nil || !bytes.Equal(now.Value, was.Value) || now.Schema != was.Schema {
			return nil, driver.ErrConflict
		}
		return []command{write(name, of.Key)}, nil
	})
	return err
}

// indexOf is the index of the first or the last element.
func indexOf(last bool) int {
	if last {
		return -1
	}
	return 0
}

// Trim removes elements. Those after a part in the middle are pushed again.
func (r *redis) Trim(ctx context.Context, of driver.Of, from, to int, d engine.Durability) error {
	_, err := r.watched(ctx, d, [][]byte{of.Key}, func(ctx context.Context, r *redis) ([]command, error) {
		n, err := r.Count(ctx, of)
		from, to := clip(from, n), clip(to, n)
		switch {
		case err != nil || from >= to:
			return nil, err
		case from == 0:
			return []command{write("LTRIM", of.Key, itoa(to), "-1")}, nil
		}
		commands := []command{write("LTRIM", of.Key, "0", itoa(from-1))}
		if to < n {
			rest, err := r.slice(ctx, of, to, n)
			if err != nil {
				return nil, err
			}
			again := write("RPUSH", of.Key)
			for _, m := range rest {
				text, err := m.ToString()
				if err != nil {
					return nil, refusal(err)
				}
				again.args = append(again.args, text)
			}
			commands = append(commands, again)
		}
		return commands, nil
	})
	return r.fits(ctx, of.Key, err)
}

// clip is the bound of a part of a list with n elements.
func clip(bound, n int) int {
	if bound < 0 {
		bound += n
	}
	return min(max(bound, 0), n)
}
