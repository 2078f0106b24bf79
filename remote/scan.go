package remote

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"iter"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
)

// A scan goes through the keys of a server, a page after the other. Keys that exist throughout come
// at least once, so scans remember the keys that they have yielded: 16 bytes for each, of two
// hashes with random seeds. Two names with equal hashes are less likely than a fault of the
// machine.

// seen are names that a scan has yielded.
type seen struct {
	seeds [2]maphash.Seed
	names map[[2]uint64]struct{}
}

func newSeen() *seen {
	return &seen{[2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, map[[2]uint64]struct{}{}}
}

// first reports whether name comes for the first time.
func (s *seen) first(name string) bool {
	at := [2]uint64{maphash.String(s.seeds[0], name), maphash.String(s.seeds[1], name)}
	if _, was := s.names[at]; was {
		return false
	}
	s.names[at] = struct{}{}
	return true
}

// perPage is about the number of elements of a page.
const perPage = "512"

// scan yields the pages of a command of the SCAN family, which next makes from a cursor. It drops
// the elements of each page that were seen; an element has width strings, the first of which is its
// name.
//
// A cursor is good for the process that gave it. So a scan of several pages uses one node, and
// starts again if that has become another process, or no longer has the keys.
func (r *redis) scan(ctx context.Context, s *seen, width int, where whereabouts, next func(cursor string) command) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		began, wait := time.Now(), time.Millisecond
		for tries := 0; ; tries++ {
			whole, err := r.scanOnce(ctx, where, next, func(page []string) bool {
				fresh := page[:0]
				for i := 0; i+width <= len(page); i += width {
					if s.first(page[i]) {
						fresh = append(fresh, page[i:i+width]...)
					}
				}
				return len(fresh) == 0 || yield(fresh, nil)
			})
			moved := refused(err, "MOVED", "ASK", "TRYAGAIN")
			switch {
			case err == nil && whole:
				return
			case err != nil && (!moved || time.Since(began) > r.timeout):
				yield(nil, err)
				return
			case tries >= mostSends && !moved:
				yield(nil, errRestarted)
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(wait):
			}
			wait = min(2*wait, 100*time.Millisecond)
		}
	}
}

// whereabouts finds the node of a scan, and names its process.
type whereabouts func(context.Context) (on *redis, process string, err error)

var errRestarted = errors.New("copal: a restart of the server, or a move of the keys in the cluster, interrupted each try of the walk")

// scanOnce is one scan. It reports false if it may have missed something.
func (r *redis) scanOnce(ctx context.Context, where whereabouts, next func(cursor string) command, yield func(page []string) bool) (whole bool, err error) {
	on, was, known := r, "", false
	for cursor := "0"; ; {
		page, after, err := on.scanPage(ctx, next(cursor))
		if err != nil {
			return false, err
		}
		if !yield(page) {
			return true, nil
		}
		switch {
		case after != "0" && !known:
			if on, was, err = where(ctx); err != nil {
				return false, err
			}
			known, after = true, "0" // the first page again, of a process that is known
		case after == "0" && known:
			_, now, err := where(ctx)
			return now == was, err
		case after == "0":
			return true, nil
		}
		cursor = after
	}
}

func (r *redis) scanPage(ctx context.Context, c command) (page []string, after string, err error) {
	m, err := r.get(ctx, c)
	if err != nil {
		return nil, "", err
	}
	parts, err := m.ToArray()
	if err == nil && len(parts) != 2 {
		err = errAnswer
	}
	if err == nil {
		after, err = parts[0].ToString()
	}
	if err == nil {
		page, err = parts[1].AsStrSlice()
	}
	return page, after, err
}

// process names the process of a server, "" if the user may not know.
func (r *redis) process(ctx context.Context) (string, error) {
	if r.inside != nil {
		return "", nil // its connection ends with the process
	}
	m, err := r.get(ctx, ask("INFO", "server"))
	if reply := new(rueidis.RedisError); errors.As(err, &reply) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	text, err := m.ToString()
	_, id, _ := strings.Cut(text, "run_id:")
	id, _, _ = strings.Cut(id, "\r\n")
	return id, err
}

// here returns the server of a scan, and its process.
func (r *redis) here(ctx context.Context) (on *redis, process string, err error) {
	process, err = r.process(ctx)
	return r, process, err
}

// of returns the place where a scan of a key's elements goes on. The client of a node follows no
// redirections: the node that they lead to has other cursors.
func (r *redis) of(key []byte) whereabouts {
	if !r.isCluster() || r.inside != nil {
		return r.here
	}
	return func(ctx context.Context) (on *redis, process string, err error) {
		v, err := r.anyView(ctx)
		if err != nil {
			return nil, "", err
		}
		name := v.owners[r.slot(string(key))]
		node, err := r.node(ctx, name)
		if err != nil {
			return nil, "", err
		}
		on = r.onto(node)
		if _, err = on.get(ctx, read("EXISTS", key)); asked(err) != "" { // its slot is about to move, and it has moved
			name = asked(err)
			if node, err = r.node(ctx, name); err != nil {
				return nil, "", err
			}
			on = r.onto(asking{node})
		}
		if err == nil {
			process, err = on.process(ctx)
		}
		return on, name + " " + process, err
	}
}

// keys yields pages of the keys that begin with prefix, of all masters. While a cluster moves slots, it may miss keys
// that move.
func (r *redis) keys(ctx context.Context, prefix []byte) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		nodes, err := r.masters(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		s := newSeen()
		for _, node := range nodes {
			on := r.onto(node.on)
			pages := on.scan(ctx, s, 1, on.here, func(cursor string) command {
				if len(prefix) == 0 {
					return ask("SCAN", cursor, "COUNT", perPage)
				}
				return ask("SCAN", cursor, "MATCH", pattern(prefix), "COUNT", perPage)
			})
			for page, err := range pages {
				if !yield(page, err) || err != nil {
					return
				}
			}
		}
	}
}

// pattern returns the pattern of keys that begin with prefix.
func pattern(prefix []byte) string {
	var b strings.Builder
	for _, c := range prefix {
		if strings.IndexByte(`*?[]\^-`, c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	b.WriteByte('*')
	return b.String()
}

// Entries yields the entries whose keys begin with prefix.
func (r *redis) Entries(ctx context.Context, prefix []byte, values bool) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		for page, err := range r.keys(ctx, prefix) {
			var list []driver.Entry
			if err == nil {
				list, err = r.entries(ctx, page, values)
			}
			if err != nil {
				yield(driver.Entry{}, err)
				return
			}
			for _, e := range list {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// entries are those under keys. Some may have gone.
func (r *redis) entries(ctx context.Context, keys []string, values bool) (list []driver.Entry, err error) {
	commands := make([]command, len(keys))
	for i, key := range keys {
		if commands[i] = read("TYPE", []byte(key)); values {
			commands[i].name = "GET"
		}
	}
	replies, err := r.do(ctx, commands...)
	if err != nil {
		return nil, err
	}
	for i, key := range keys {
		e := driver.Entry{Key: []byte(key)}
		m, err := message(replies[i])
		switch {
		case values && refused(err, "WRONGTYPE"):
			e.Type, err = r.Type(ctx, e.Key)
		case err != nil:
		case !values:
			e.Type, err = typeOf(m)
		case m.IsNil():
			continue
		default:
			e.Value, e.Schema, err = r.unwrapMessage(m)
		}
		if errors.Is(err, engine.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// Len counts the entries whose keys begin with prefix.
func (r *redis) Len(ctx context.Context, prefix []byte) (n int, err error) {
	for page, err := range r.keys(ctx, prefix) {
		if err != nil {
			return 0, err
		}
		n += len(page)
	}
	return n, nil
}

// DeleteRange deletes the entries in a range, with many writes. Entries that come meanwhile may
// stay. If it fails, some are deleted.
func (r *redis) DeleteRange(ctx context.Context, in engine.Range, d engine.Durability) error {
	if d == engine.Power && r.has.noFSync != nil {
		return r.has.noFSync
	}
	for page, err := range r.keys(ctx, common(&in)) {
		if err != nil {
			return err
		}
		var list []command
		for _, key := range page {
			if in.Has([]byte(key)) {
				list = append(list, write("UNLINK", []byte(key)))
			}
		}
		if len(list) == 0 {
			continue
		}
		if _, err := r.change(ctx, engine.Process, list...); err != nil {
			return err
		}
	}
	if d == engine.Power {
		return r.Sync(ctx)
	}
	return nil
}

// common returns the common prefix of all keys in a range.
func common(in *engine.Range) []byte {
	start, rest := in.Asked()
	order, until, bounded := bytes.Cut(rest, []byte{' '})
	switch {
	case len(rest) == 0:
		return start
	case string(order) != "bytes": // as texts, keys of other types are in another order
		return start[:bytes.IndexByte(start, ':')+1]
	case !bounded:
		return nil
	}
	n := 0
	for n < min(len(start), len(until)) && start[n] == until[n] {
		n++
	}
	return start[:n]
}

// Type returns the type of the key.
func (r *redis) Type(ctx context.Context, key []byte) (engine.CollectionType, error) {
	m, err := r.get(ctx, read("TYPE", key))
	if err != nil {
		return "", err
	}
	return typeOf(m)
}

func typeOf(m rueidis.RedisMessage) (engine.CollectionType, error) {
	switch name, err := m.ToString(); {
	case err != nil:
		return "", refusal(err)
	case name == "none":
		return "", engine.ErrNotFound
	case name == "string":
		return "", nil
	default:
		return engine.CollectionType(name), nil
	}
}
