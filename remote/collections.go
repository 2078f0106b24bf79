package remote

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keycodec"
)

// Collections are those of Redis: a hash, a set, a sorted set, a list. A change that depends on the
// present content watches the key (watched).
//
// Hashes and sets are read a page after the other: an element that exists throughout comes once, and others may.
// Sorted sets and lists are read by one command, for nothing keeps the place in one that others change.

// kind has the names of the commands for a type of collection, "" for none.
type kind struct{ count, get, scan, set, remove string }

var kinds = map[engine.CollectionType]kind{
	engine.HashType:      {"HLEN", "HGET", "HSCAN", "HSET", "HDEL"},
	engine.SetType:       {"SCARD", "SISMEMBER", "SSCAN", "SADD", "SREM"},
	engine.SortedSetType: {"ZCARD", "ZSCORE", "", "ZADD", "ZREM"},
	engine.ListType:      {count: "LLEN"},
}

func (r *redis) Count(ctx context.Context, of driver.Of) (int, error) {
	n, err := r.number(ctx, read(kinds[of.Type].count, of.Key))
	return int(n), r.fits(ctx, of.Key, err)
}

func (r *redis) Clear(ctx context.Context, of driver.Of, d engine.Durability) (existed bool, err error) {
	replies, err := r.watched(ctx, d, [][]byte{of.Key}, func(ctx context.Context, r *redis) ([]command, error) {
		switch is, err := r.Type(ctx, of.Key); {
		case err != nil:
			return nil, missing(err)
		case is != of.Type:
			return nil, r.misfit(ctx, of.Key)
		}
		return []command{write("DEL", of.Key)}, nil
	})
	return len(replies) > 0, err
}

// missing is the error of a read of which nothing may come.
func missing(err error) error {
	if errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	return err
}

func (r *redis) Rename(ctx context.Context, of driver.Of, to []byte, d engine.Durability) error {
	rename := write("RENAME", of.Key, string(to))
	if err := r.oneSlot([]command{rename, read("EXISTS", to)}); err != nil {
		return err
	}
	_, err := r.watched(ctx, d, [][]byte{of.Key}, func(ctx context.Context, r *redis) ([]command, error) {
		switch is, err := r.Type(ctx, of.Key); {
		case err != nil:
			return nil, err
		case is != of.Type:
			return nil, r.misfit(ctx, of.Key)
		}
		return []command{rename}, nil
	})
	return err
}

func (r *redis) SetDeadline(ctx context.Context, of driver.Of, deadline uint64, d engine.Durability) error {
	if err := r.is(ctx, of); err != nil {
		return err
	}
	return r.Redate(ctx, of.Key, deadline, d)
}

func (r *redis) DeadlineOf(ctx context.Context, of driver.Of) (uint64, error) {
	if err := r.is(ctx, of); err != nil {
		return 0, err
	}
	return r.Deadline(ctx, of.Key)
}

// is returns an error if there is no such collection.
func (r *redis) is(ctx context.Context, of driver.Of) error {
	switch is, err := r.Type(ctx, of.Key); {
	case err != nil:
		return err
	case is == "":
		return engine.ErrType
	case is != of.Type:
		return &engine.CollectionError{Key: of.Key, Type: string(is)}
	}
	return nil
}

func (r *redis) Element(ctx context.Context, of driver.Of, sub []byte) (driver.Element, error) {
	m, err := r.get(ctx, read(kinds[of.Type].get, of.Key, string(sub)))
	e := driver.Element{Sub: append([]byte{}, sub...)}
	switch {
	case err != nil:
	case m.IsNil():
		err = engine.ErrNotFound
	case of.Type == engine.HashType:
		e.Value, e.Schema, err = r.known(ctx, m)
	case of.Type == engine.SortedSetType:
		e.Score, err = m.AsFloat64()
	default:
		if is, _ := m.AsInt64(); is == 0 {
			err = engine.ErrNotFound
		}
	}
	if err != nil {
		return driver.Element{}, r.fits(ctx, of.Key, err)
	}
	return e, nil
}

func (r *redis) Elements(ctx context.Context, of driver.Of) iter.Seq2[driver.Element, error] {
	switch of.Type {
	case engine.ListType:
		return r.Between(ctx, of, 0, math.MaxInt, false)
	case engine.SortedSetType:
		return r.Ranked(ctx, of, 0, math.MaxInt, false)
	case engine.HashType, engine.SetType:
	default:
		return func(yield func(driver.Element, error) bool) {
			yield(driver.Element{}, fmt.Errorf("copal: a %s, which cannot be read: %w", of.Type, errors.ErrUnsupported))
		}
	}
	width := 1
	if of.Type == engine.HashType {
		width = 2
	}
	return func(yield func(driver.Element, error) bool) {
		pages := r.scan(ctx, newSeen(), width, r.of(of.Key), func(cursor string) command {
			return read(kinds[of.Type].scan, of.Key, cursor, "COUNT", perPage)
		})
		for page, err := range pages {
			if err != nil {
				yield(driver.Element{}, r.fits(ctx, of.Key, err))
				return
			}
			for ; len(page) > 0; page = page[width:] {
				e := driver.Element{Sub: []byte(page[0])}
				if width == 2 {
					e.Value, e.Schema, err = r.knownText(ctx, page[1])
				}
				if !yield(e, err) || err != nil {
					return
				}
			}
		}
	}
}

func (r *redis) Edit(ctx context.Context, of driver.Of, edits []driver.Element, d engine.Durability) (existed int, err error) {
	var replies []rueidis.RedisMessage
	list, news := r.edits(of, edits)
	switch {
	case len(list) == 0:
		return 0, nil
	case len(list) == 1 || r.inside != nil:
		replies, err = r.change(ctx, d, list...)
	default:
		replies, err = r.atOnce(ctx, d, list)
	}
	if err != nil {
		return 0, r.fits(ctx, of.Key, err)
	}
	for i, m := range replies {
		n, err := whole(m)
		if err != nil {
			return 0, err
		}
		if news[i] > 0 {
			n = int64(news[i]) - n // the reply of a command that sets says how many are new
		}
		existed += int(n)
	}
	return existed, nil
}

func (r *redis) Update(ctx context.Context, of driver.Of, sub []byte, d engine.Durability, change func(*driver.Element) (*driver.Element, error)) error {
	return driver.Retry(func() error {
		was, err := r.Element(ctx, of, sub)
		var found *driver.Element
		switch {
		case err == nil:
			e := was
			found = &e
		case !errors.Is(err, engine.ErrNotFound):
			return err
		}
		next, err := change(found)
		if err != nil || next == nil {
			return err
		}
		return r.exchange(ctx, of, &was, next, d)
	})
}

// Pop reads the element, and removes it if it is still the same.
func (r *redis) Pop(ctx context.Context, of driver.Of, last bool, d engine.Durability, take func(*driver.Element) error) (ok bool, err error) {
	err = driver.Retry(func() error {
		was, err := r.end(ctx, of, last)
		if ok = err == nil; !ok {
			if errors.Is(err, engine.ErrNotFound) {
				err = nil
			}
			return err
		}
		e := was
		switch err := take(&e); {
		case err != nil:
			return err
		case of.Type == engine.ListType:
			return r.popElement(ctx, of, last, was, d)
		}
		return r.exchange(ctx, of, &was, &driver.Element{Sub: was.Sub, Delete: true}, d)
	})
	return ok && err == nil, err
}

// end returns the first or the last element of a list or a sorted set.
func (r *redis) end(ctx context.Context, of driver.Of, last bool) (driver.Element, error) {
	if of.Type == engine.ListType {
		return r.At(ctx, of, indexOf(last))
	}
	for e, err := range r.Ranked(ctx, of, 0, 1, last) {
		return e, err
	}
	return driver.Element{}, engine.ErrNotFound
}

// Fields reads all elements and sorts them: the server has no order of fields and members.
func (r *redis) Fields(ctx context.Context, of driver.Of, by keycodec.Order, span engine.Span, skip int, values bool) iter.Seq2[driver.Element, error] {
	return driver.InSpan(r.Elements(ctx, of), by, span, skip)
}

func (r *redis) CountFields(ctx context.Context, of driver.Of, span engine.Span) (n int, err error) {
	for _, err := range r.Fields(ctx, of, keycodec.BytesOrder, span, 0, false) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// edits are the commands for edits: one for each run of edits of one sort. news is, for those that set, how many
// elements they set.
func (r *redis) edits(of driver.Of, edits []driver.Element) (list []command, news []int) {
	k := kinds[of.Type]
	for i, e := range edits {
		name := k.set
		if e.Delete {
			name = k.remove
		}
		if i == 0 || edits[i-1].Delete != e.Delete {
			list, news = append(list, write(name, of.Key)), append(news, 0)
		}
		last := &list[len(list)-1]
		if !e.Delete {
			news[len(news)-1]++
			if of.Type == engine.SortedSetType {
				last.args = append(last.args, score(e.Score))
			}
		}
		last.args = append(last.args, string(e.Sub))
		if !e.Delete && of.Type == engine.HashType {
			last.args = append(last.args, r.wrap(e.Value, e.Schema))
		}
	}
	return list, news
}

// score is a score as Redis reads it.
func score(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// members are those that a command on a sorted set returns with their scores.
func (r *redis) members(ctx context.Context, of driver.Of, c command) iter.Seq2[driver.Element, error] {
	return func(yield func(driver.Element, error) bool) {
		m, err := r.get(ctx, c)
		var list []rueidis.ZScore
		if err == nil {
			if list, err = m.AsZScores(); err != nil {
				err = refusal(err)
			}
		}
		if err != nil {
			yield(driver.Element{}, r.fits(ctx, of.Key, err))
			return
		}
		for _, z := range list {
			if !yield(driver.Element{Sub: []byte(z.Member), Score: z.Score}, nil) {
				return
			}
		}
	}
}

func none(func(driver.Element, error) bool) {}

func (r *redis) Ranked(ctx context.Context, of driver.Of, from, to int, down bool) iter.Seq2[driver.Element, error] {
	name := "ZRANGE"
	if down {
		name = "ZREVRANGE"
	}
	if from = max(from, 0); to <= from {
		return none
	}
	return r.members(ctx, of, read(name, of.Key, itoa(from), itoa(to-1), "WITHSCORES"))
}

func (r *redis) Scored(ctx context.Context, of driver.Of, low, high *float64, down bool) iter.Seq2[driver.Element, error] {
	from, to := "-inf", "+inf"
	if low != nil {
		from = score(*low)
	}
	if high != nil {
		to = "(" + score(*high)
	}
	if down {
		return r.members(ctx, of, read("ZREVRANGEBYSCORE", of.Key, to, from, "WITHSCORES"))
	}
	return r.members(ctx, of, read("ZRANGEBYSCORE", of.Key, from, to, "WITHSCORES"))
}

func (r *redis) Rank(ctx context.Context, of driver.Of, member []byte, down bool) (int, error) {
	name := "ZRANK"
	if down {
		name = "ZREVRANK"
	}
	m, err := r.get(ctx, read(name, of.Key, string(member)))
	switch {
	case err != nil:
		return 0, r.fits(ctx, of.Key, err)
	case m.IsNil():
		return 0, engine.ErrNotFound
	}
	n, err := whole(m)
	return int(n), err
}

func (r *redis) CountScores(ctx context.Context, of driver.Of, low, high float64) (int, error) {
	n, err := r.number(ctx, read("ZCOUNT", of.Key, score(low), "("+score(high)))
	return int(n), r.fits(ctx, of.Key, err)
}
