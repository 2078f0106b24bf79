package killtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/copaldb/copal"
)

// collectionShape is changes of hashes, lists, sets and sorted sets, and of whole ones. The keys
// may have any of them, and values too: a change that does not fit the type of a key returns false
// and changes nothing.
type collectionShape struct {
	verbs string
	keys  int
	most  int // elements of a step
	bytes int // of an element, at most
}

const names = 400 // of fields and members

// The content of a collection: under its name the type, and of a list the elements in their order;
// under the names of elements their values.
const (
	isValue = "value "
	isHash  = "hash"
	isList  = "list\n"
	isSet   = "set"
	isZSet  = "zset"
)

func (x *collectionShape) plan(d *dice) step {
	s := d.step(d.one(x.verbs))
	s.key = d.IntN(x.keys)
	s.to = (s.key + 1 + d.IntN(x.keys-1)) % x.keys
	switch s.verb {
	case "hset", "hset-notes", "push", "push-front", "sadd", "zadd", "hdel", "srem", "zrem", "put":
		total := 0
		for i := range 1 + d.upTo(x.most) {
			c := change{key: d.IntN(names), value: d.value(i, d.size(x.bytes))}
			if total += int(c.value.Size); total > stepBytes {
				break
			}
			s.changes = append(s.changes, c)
		}
		if strings.HasPrefix(s.verb, "hset") {
			s.again = d.again(total)
		}
	case "ldelete", "lset", "linsert":
		s.to = d.IntN(200)
		s.changes = []change{{value: d.value(0, d.upTo(x.bytes))}}
	}
	if s.verb == "put" {
		s.changes = s.changes[:1]
	}
	return s
}

// typeOf returns the type of the collection that a verb is for, "" for any.
func typeOf(verb string) string {
	switch verb {
	case "hset", "hset-notes", "hdel", "hclear", "hrename":
		return isHash
	case "push", "push-front", "pop", "pop-front", "ldelete", "lset", "linsert", "lclear", "lrename":
		return isList
	case "sadd", "srem", "sclear", "srename":
		return isSet
	case "zadd", "zrem", "zclear", "zrename":
		return isZSet
	}
	return ""
}

func (c content) typeOf(key string) string {
	text := c[key].text
	for _, t := range []string{isValue, isHash, isList, isSet, isZSet} {
		if strings.HasPrefix(text, t) {
			return t
		}
	}
	return ""
}

func (c content) drop(key string) bool {
	_, there := c[key]
	maps.DeleteFunc(c, func(name string, _ thing) bool { return name == key || strings.HasPrefix(name, key+"/") })
	return there
}

func (c content) move(key, to string) {
	moved := content{}
	for name, t := range c {
		if rest, ok := strings.CutPrefix(name, key+"/"); ok {
			moved[to+"/"+rest] = t
		}
	}
	moved[to] = c[key]
	c.drop(key)
	c.drop(to)
	maps.Copy(c, moved)
}

func (c content) empty(key string) bool {
	for name := range c {
		if strings.HasPrefix(name, key+"/") {
			return false
		}
	}
	return true
}

func (c content) list(key string) []string {
	text := strings.TrimPrefix(c[key].text, isList)
	if text == "" {
		return nil
	}
	return strings.Split(text[:len(text)-1], "\n")
}

func (c content) setList(key string, list []string) {
	if len(list) == 0 {
		c.drop(key)
		return
	}
	c[key] = thing{isList + strings.Join(list, "\n") + "\n", c[key].until}
}

func (x *collectionShape) apply(c content, s *step) bool {
	key, to := fmt.Sprint(s.key), fmt.Sprint(s.to)
	now, there := c[key]
	is, wants := c.typeOf(key), typeOf(s.verb)
	if wants != "" && there && is != wants {
		return false
	}
	switch s.verb {
	case "put":
		c.drop(key)
		c[key] = thing{text: isValue + s.changes[0].value.text()}
	case "delete", "hclear", "lclear", "sclear", "zclear":
		return c.drop(key)
	case "hrename", "lrename", "srename", "zrename":
		if there && key != to {
			c.move(key, to)
		}
		return there
	case "expire", "persist":
		if is == isValue {
			return false
		}
		if there {
			now.until = mortal
			if s.verb == "persist" {
				now.until = 0
			}
			c[key] = now
		}
		return there
	case "push", "push-front", "pop", "pop-front", "ldelete", "lset", "linsert":
		return x.applyList(c, key, s)
	case "hdel", "srem", "zrem":
		removed := false
		for _, ch := range s.changes {
			name := fmt.Sprint(key, "/", ch.key)
			_, had := c[name]
			removed = removed || had
			delete(c, name)
		}
		if there && c.empty(key) {
			c.drop(key)
		}
		return removed
	default:
		c[key] = thing{wants, now.until}
		for _, ch := range s.changes {
			c[fmt.Sprint(key, "/", ch.key)] = thing{text: ch.elementText(s.verb)}
		}
	}
	return true
}

func (c *change) elementText(verb string) string {
	switch verb {
	case "hset-notes":
		return c.value.stampText()
	case "hset":
		return c.value.text()
	case "zadd":
		return fmt.Sprint(c.score())
	}
	return ""
}

// score returns the score of a member of a sorted set.
func (c *change) score() float64 { return float64(c.value.Count%1000) + float64(c.value.Key)/1024 }

func (x *collectionShape) applyList(c content, key string, s *step) bool {
	list := c.list(key)
	switch s.verb {
	case "push", "push-front":
		for _, ch := range s.changes {
			if text := ch.value.text(); s.verb == "push" {
				list = append(list, text)
			} else {
				list = append([]string{text}, list...)
			}
		}
	case "pop", "pop-front":
		if len(list) == 0 {
			return false
		}
		if s.verb == "pop" {
			list = list[:len(list)-1]
		} else {
			list = list[1:]
		}
	case "ldelete":
		if len(list) == 0 {
			return true
		}
		list = slices.Delete(list, min(3, len(list)), min(max(s.to, 3), len(list)))
	case "linsert":
		if s.to > len(list) {
			return false
		}
		list = slices.Insert(list, s.to, s.changes[0].value.text())
	case "lset":
		if s.to >= len(list) {
			return false
		}
		list[s.to] = s.changes[0].value.text()
	}
	c.setList(key, list)
	return true
}

func (x *collectionShape) open(db *copal.DB, writer uint8) (hands, error) {
	return &collectionHands{x, db, fmt.Sprintf("collection of %d/", writer)}, nil
}

type collectionHands struct {
	*collectionShape
	db     *copal.DB
	prefix string
}

func (h *collectionHands) key(n int) []byte { return fmt.Append(nil, h.prefix, n) }

func (h *collectionHands) do(s *step) (existed bool, err error) {
	switch typeOf(s.verb) {
	case isHash:
		existed, err = h.hash(s)
	case isList:
		existed, err = h.list(s)
	case isSet:
		existed, err = h.set(s)
	case isZSet:
		existed, err = h.sortedSet(s)
	default:
		existed, err = h.any(s)
	}
	if errors.Is(err, copal.ErrNotFound) || errors.Is(err, copal.ErrType) {
		return false, nil
	}
	return existed, err
}

// whole makes a change of a whole collection.
func (h *collectionHands) whole(c *copal.Collection, s *step) (existed bool, err error) {
	switch to := string(h.key(s.to)); {
	case strings.HasSuffix(s.verb, "clear") && s.fsync:
		return c.With(copal.FSync).Clear()
	case strings.HasSuffix(s.verb, "clear"):
		return c.Clear()
	case s.fsync:
		return true, c.With(copal.FSync).Rename(to)
	default:
		return true, c.Rename(to)
	}
}

// any makes a change of a key of any type.
func (h *collectionHands) any(s *step) (existed bool, err error) {
	key := h.key(s.key)
	switch s.verb {
	case "put":
		return true, h.db.Raw().Set(key, newBlob(s.changes[0].value))
	case "delete":
		return h.db.Raw().Delete(key)
	}
	set, err1 := copal.OpenSet[int](h.db, string(key))
	sorted, err2 := copal.OpenSortedSet[int](h.db, string(key))
	if err := errors.Join(err1, err2); err != nil {
		return false, err
	}
	for _, c := range []*copal.Collection{&h.db.Raw().Hash(key).Collection, &h.db.Raw().List(key).Collection, &set.Collection, &sorted.Collection} {
		if s.verb == "expire" {
			err = c.Expire(2 * time.Hour)
		} else {
			err = c.Persist()
		}
		if !errors.Is(err, copal.ErrType) {
			break
		}
	}
	return true, err
}

func (h *collectionHands) hash(s *step) (existed bool, err error) {
	r := h.db.Raw().Hash(h.key(s.key))
	var fields []string
	blobs, notes := map[string][]byte{}, map[string]Note{}
	for _, c := range s.changes {
		field := fmt.Sprint(c.key)
		fields = append(fields, field)
		if s.verb == "hset" {
			blobs[field] = newBlob(c.value)
		} else if s.verb == "hset-notes" {
			notes[field] = newNote(c.value)
		}
	}
	switch s.verb {
	case "hset":
		if s.fsync {
			err = r.With(copal.FSync).SetAll(blobs)
		} else {
			err = repeat(s, func() error { return r.SetAll(blobs) })
		}
	case "hset-notes":
		typed, err := copal.OpenHash[string, Note](h.db, string(h.key(s.key)))
		if err != nil {
			return false, err
		}
		if s.fsync {
			return true, typed.With(copal.FSync).SetAll(notes)
		}
		return true, repeat(s, func() error { return typed.SetAll(notes) })
	case "hdel":
		n, err := r.Delete(fields...)
		return n > 0, err
	default:
		return h.whole(&r.Collection, s)
	}
	return true, err
}

func (h *collectionHands) list(s *step) (existed bool, err error) {
	r := h.db.Raw().List(h.key(s.key))
	var values [][]byte
	for _, c := range s.changes {
		values = append(values, newBlob(c.value))
	}
	switch s.verb {
	case "push":
		err = r.PushBack(values...)
	case "push-front":
		err = r.PushFront(values...)
	case "pop":
		_, existed, err := r.PopBack()
		return existed, err
	case "pop-front":
		_, existed, err := r.PopFront()
		return existed, err
	case "ldelete":
		err = r.DeleteRange(3, max(s.to, 3))
	case "linsert":
		err = r.Insert(s.to, values[0])
	case "lset":
		err = r.Set(s.to, values[0])
	default:
		return h.whole(&r.Collection, s)
	}
	return true, err
}

func (h *collectionHands) set(s *step) (existed bool, err error) {
	r, err := copal.OpenSet[int](h.db, string(h.key(s.key)))
	if err != nil {
		return false, err
	}
	switch members := s.members(); {
	case s.verb == "sadd" && s.fsync:
		_, err = r.With(copal.FSync).Add(members...)
	case s.verb == "sadd":
		_, err = r.Add(members...)
	case s.verb == "srem":
		n, err := r.Delete(members...)
		return n > 0, err
	default:
		return h.whole(&r.Collection, s)
	}
	return true, err
}

func (s *step) members() (list []int) {
	for _, c := range s.changes {
		list = append(list, c.key)
	}
	return list
}

func (h *collectionHands) sortedSet(s *step) (existed bool, err error) {
	r, err := copal.OpenSortedSet[int](h.db, string(h.key(s.key)))
	if err != nil {
		return false, err
	}
	switch s.verb {
	case "zadd":
		scores := map[int]float64{}
		for _, c := range s.changes {
			scores[c.key] = c.score()
		}
		err = r.SetAll(scores)
	case "zrem":
		n, err := r.Delete(s.members()...)
		return n > 0, err
	default:
		return h.whole(&r.Collection, s)
	}
	return true, err
}

func (h *collectionHands) look(c content) error {
	for key := range h.db.Raw().KeysBetween([]byte(h.prefix), nil) {
		if !strings.HasPrefix(string(key), h.prefix) {
			break
		}
		name := strings.TrimPrefix(string(key), h.prefix)
		if err := h.lookAt(c, name, key); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// lookAt reads the content of a key.
func (h *collectionHands) lookAt(c content, name string, key []byte) error {
	if v, err := h.db.Raw().Load(key); err == nil {
		c[name] = thing{text: isValue + blobText(v)}
		return nil
	} else if !errors.Is(err, copal.ErrType) {
		return err
	}
	set, err1 := copal.OpenSet[int](h.db, string(key))
	zset, err2 := copal.OpenSortedSet[int](h.db, string(key))
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	hash, list := h.db.Raw().Hash(key), h.db.Raw().List(key)
	n, sorted := 0, true
	for _, of := range []struct {
		text string
		c    interface {
			Len() int
			TTL() (time.Duration, error)
		}
		all func()
	}{
		{isHash, hash, func() {
			for field, v := range hash.All() {
				c[name+"/"+field] = thing{text: anyText(v)}
				n++
			}
		}},
		{isList, list, func() {
			var elements []string
			for v := range list.Between(0, list.Len()) {
				elements = append(elements, anyText(v))
				n++
			}
			c.setList(name, elements)
		}},
		{isSet, set, func() {
			for m := range set.All() {
				c[name+"/"+strconv.Itoa(m)] = thing{}
				n++
			}
		}},
		{isZSet, zset, func() {
			last := -1.0
			for m, score := range zset.All() {
				sorted = sorted && score >= last
				c[name+"/"+strconv.Itoa(m)] = thing{text: fmt.Sprint(score)}
				last = score
				n++
			}
		}},
	} {
		left, err := of.c.TTL()
		if errors.Is(err, copal.ErrType) {
			continue
		} else if err != nil {
			return err
		}
		c[name] = thing{text: of.text}
		of.all()
		t := c[name]
		if left > time.Hour {
			t.until = mortal
		} else if left > 0 {
			t.until = time.Now().Add(left).UnixMilli()
		}
		c[name] = t
		if of.c.Len() != n || !sorted {
			return fmt.Errorf("Len is %d, there are %d elements, sorted: %t", of.c.Len(), n, sorted)
		}
		return nil
	}
	return errors.New("it is nothing")
}

// anyText returns the text of a blob, or of a Note as JSON. No blob of a shape begins as a Note
// does: its fifth byte is another.
func anyText(b []byte) string {
	var n Note
	if bytes.HasPrefix(b, []byte(`{"Shelf":`)) && json.Unmarshal(b, &n) == nil {
		return noteText(n)
	}
	return blobText(b)
}
