package killtest

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

// rawShape is raw keys: batches, values of all sizes, streams, deadlines.
type rawShape struct {
	verbs     string // which are drawn
	keys      int
	few, most int // changes of a batch
	bytes     int // of a value of a batch, at most
	least     int // and at least
	large     int // of any other value, at most
	deadlines bool
}

func (r *rawShape) plan(d *dice) step {
	s := d.step(d.one(r.verbs))
	s.key = d.IntN(r.keys)
	if r.deadlines && (s.verb == "expire" || s.verb == "persist") {
		s.key = r.keys/2 + s.key/2 // whose deadlines are far away
		s.until = d.far()
	}
	switch s.verb {
	case "put", "stream", "give-up":
		size := d.upTo(r.large)
		if s.verb == "stream" || s.verb == "give-up" || d.IntN(4) == 0 {
			size = d.IntN(r.large)
		}
		s.to = 1 + d.upTo(2<<20) // the pieces of a stream
		s.changes = []change{{key: s.key, value: d.value(0, size), until: r.deadline(d, s.key)}}
	case "batch":
		total := 0
		for i := range r.few + d.upTo(r.most-r.few) {
			c := change{key: d.IntN(r.keys), remove: d.IntN(5) == 0}
			if !c.remove {
				c.value = d.value(i, r.least+d.size(r.bytes-r.least))
				if d.IntN(40) == 0 && r.large > 0 {
					c.value.Size = uint32(d.IntN(r.large))
				}
				c.until = r.deadline(d, c.key)
			}
			if total += int(c.value.Size) + 60; total > stepBytes {
				break
			}
			s.changes = append(s.changes, c)
		}
		s.again = d.again(total)
	}
	return s
}

func (r *rawShape) deadline(d *dice, key int) int64 {
	switch n := d.IntN(4); {
	case !r.deadlines || n == 0:
		return 0
	case key >= r.keys/2 || n == 1:
		return d.far()
	}
	return d.soon()
}

func (r *rawShape) apply(c content, s *step) bool {
	name := rawName(s.key)
	t, had := c[name]
	switch s.verb {
	case "put", "stream", "batch":
		for _, ch := range s.changes {
			if ch.remove {
				delete(c, rawName(ch.key))
			} else {
				c[rawName(ch.key)] = thing{ch.value.text(), ch.until}
			}
		}
	case "delete":
		delete(c, name)
		return had || r.deadlines
	case "expire", "persist":
		if t.until = s.until; s.verb == "persist" {
			t.until = 0
		}
		if had {
			c[name] = t
		}
		return had
	}
	return true
}

func rawName(key int) string { return fmt.Sprintf("k%d", key) }

func (r *rawShape) open(db *copal.DB, writer uint8) (hands, error) {
	return &rawHands{r, db, fmt.Appendf(nil, "shape%d\n", writer)}, nil
}

type rawHands struct {
	*rawShape
	db     *copal.DB
	prefix []byte
}

func (h *rawHands) key(n int) []byte { return append(bytes.Clone(h.prefix), rawName(n)...) }

func (h *rawHands) do(s *step) (existed bool, err error) {
	key := h.key(s.key)
	switch s.verb {
	case "put":
		return true, h.put(s, key, s.changes[0])
	case "stream", "give-up":
		return true, h.stream(s, key, newBlob(s.changes[0].value))
	case "batch":
		return true, h.batch(s)
	case "delete":
		if s.fsync {
			existed, err = h.db.Raw().DeleteFSync(key)
		} else {
			existed, err = h.db.Raw().Delete(key)
		}
		return existed || h.deadlines, err // it may have expired
	case "expire":
		err = h.db.Raw().ExpireAt(key, time.UnixMilli(s.until))
	case "persist":
		err = h.db.Raw().Persist(key)
	}
	if errors.Is(err, copal.ErrNotFound) {
		return false, nil
	}
	return true, err
}

func (h *rawHands) put(s *step, key []byte, c change) error {
	v := newBlob(c.value)
	switch {
	case c.until != 0:
		return h.db.Raw().SetUntil(key, v, time.UnixMilli(c.until))
	case s.fsync:
		return h.db.Raw().SetFSync(key, v)
	}
	return h.db.Raw().Set(key, v)
}

// stream writes v in pieces.
func (h *rawHands) stream(s *step, key, v []byte) error {
	raw := h.db.Raw()
	if s.fsync {
		raw = raw.With(copal.FSync)
	}
	w, err := raw.Create(key)
	if err != nil {
		return err
	}
	defer w.Close()
	for len(v) > 0 {
		n := min(len(v), s.to)
		if _, err := w.Write(v[:n]); err != nil {
			return err
		}
		v = v[n:]
	}
	if s.verb == "give-up" {
		return w.Close()
	}
	return w.Commit()
}

func (h *rawHands) batch(s *step) error {
	raw := h.db.Raw()
	if s.fsync {
		raw = raw.With(copal.FSync)
	}
	b := raw.Batch()
	for _, c := range s.changes {
		switch key := h.key(c.key); {
		case c.remove:
			b.Delete(key)
		case c.until != 0:
			if err := b.SetUntil(key, newBlob(c.value), time.UnixMilli(c.until)); err != nil {
				return err
			}
		default:
			b.Set(key, newBlob(c.value))
		}
	}
	if s.fsync {
		return b.Commit()
	}
	return repeat(s, b.Commit)
}

// look reads all keys of the writer in a snapshot, so that one that expires meanwhile is there or
// not.
func (h *rawHands) look(c content) error {
	s, err := h.db.Snapshot()
	if err != nil {
		return err
	}
	defer s.Close()
	end := bytes.Clone(h.prefix)
	end[len(end)-1]++
	for e, err := range admin.Entries(s, h.prefix, end) {
		if err != nil {
			return err
		}
		t := thing{text: blobText(e.Value)}
		if !e.Expires.IsZero() {
			t.until = e.Expires.UnixMilli()
		}
		c[string(e.Key[len(h.prefix):])] = t
	}
	return nil
}
