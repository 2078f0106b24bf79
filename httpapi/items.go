package httpapi

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/jsontext"
	"github.com/copaldb/copal/internal/ndjson"
)

// The items are the entries of the map "items".
const items = "items"

var okBody = []byte(`{"status":"OK"}` + "\n")

func (q *request) ok(code int) error {
	h := q.w.Header()
	h["Content-Type"] = sayJSON
	h["Content-Length"] = []string{strconv.Itoa(len(okBody))}
	q.status(code)
	_, err := q.w.Write(okBody)
	return gaveUp(err)
}

// putItem answers PUT of {"id":…,"value":…}.
func (q *request) putItem() error {
	kind, err := contentType(q.r)
	switch {
	case err != nil:
		return err
	case kind != "" && kind != typeJSON:
		return problemf(wrongType, "an item of type %s; %s is taken", kind, typeJSON)
	}
	text, err := q.whole()
	if err != nil {
		return err
	}
	if err := checkJSON(text); err != nil {
		return err
	}
	if text = bytes.TrimSpace(text); text[0] != '{' {
		return problemf(badRequest, `an item is {"id":…,"value":…}`)
	}
	of := map[string][]byte{} // others, such as an age, are passed over
	err = jsontext.EachField(text, func(name string, field []byte) error {
		if of[name] != nil {
			return problemf(badRequest, "%q occurs twice", name)
		}
		of[name] = field
		return nil
	})
	if err != nil {
		return err
	}
	id, value := of["id"], of["value"]
	switch {
	case id == nil:
		return problemf(badRequest, `there is no "id"`)
	case value == nil:
		return problemf(badRequest, `there is no "value"`)
	}
	name, err := jsontext.Unquote(id)
	if err != nil {
		p := problemf(misfit, `"id": %v`, err)
		p.Field = "id"
		return p
	}
	key, err := wholeKey(items, name)
	if err != nil {
		return err
	}
	d, err := q.durableAs()
	if err != nil {
		return err
	}
	if _, err := q.write(items, &admin.Entry{Key: key, Value: value, Content: typeJSON}, d); err != nil {
		return err
	}
	return q.ok(http.StatusCreated)
}

// itemKey is the whole key of the item that the path names.
func (q *request) itemKey() ([]byte, error) {
	id, err := q.pathOrQuery("id")
	if err != nil {
		return nil, err
	}
	return wholeKey(items, id)
}

// getItem answers GET of an item.
func (q *request) getItem() error {
	key, err := q.itemKey()
	if err != nil {
		return err
	}
	f, err := look(q, q.db, key)
	if err != nil {
		return err
	}
	if f.Large > 0 {
		return q.getLongItem(key)
	}
	q.w.Header()["Etag"] = []string{etag(f.Seq)}
	return q.json(append(f.appendItem(make([]byte, 0, len(f.value)+len(key)+64), q.began), '\n'))
}

// appendItem appends {"id":…,"value":…,"age":…}, the age in seconds.
func (f *found) appendItem(dst []byte, now time.Time) []byte {
	dst = f.appendItemID(dst)
	if f.Content == typeJSON {
		dst = append(append(dst, `"value":`...), f.value...)
	} else {
		dst = appendValue(dst, f.value)
	}
	return f.appendItemAge(dst, now)
}

func (f *found) appendItemID(dst []byte) []byte {
	return append(ndjson.AppendKey(append(dst, `{"id":`...), f.Key[len(items)+1:]), ',')
}

func (f *found) appendItemAge(dst []byte, now time.Time) []byte {
	age := max(now.Sub(f.Time), 0) / time.Second
	return append(strconv.AppendInt(append(dst, `,"age":`...), int64(age), 10), '}')
}

// getLongItem answers GET of an item whose value is not in memory.
func (q *request) getLongItem(key []byte) error {
	q.w.Header()["Content-Type"] = sayJSON
	out := &chunks{q: q}
	if err := q.sendLongItem(out, nil, key, time.Now()); err != nil {
		return err
	}
	out.Write([]byte{'\n'})
	return out.flush()
}

// sendLongItem sends an item whose value is not in memory. Of one that is longer than JSON may be it is base64, of
// which a part at a time is read.
func (q *request) sendLongItem(out *chunks, s *copal.Snapshot, key []byte, now time.Time) error {
	l, err := q.open(s, key)
	if err != nil {
		return err
	}
	defer l.Close()
	f := found{Entry: &l.Entry.Entry}
	if l.Size() <= q.maxBody || l.Entry.IsRendered(q.db) {
		if f.value, err = q.load(l); err == nil {
			defer q.give(l.Size() * shownBytes)
			_, err = out.Write(f.appendItem(nil, now))
		}
		return err
	}
	out.Write(append(f.appendItemID(nil), `"base64":"`...))
	encoder := base64.NewEncoder(base64.StdEncoding, out)
	// Without its WriteTo, which copies each part.
	if _, err := io.Copy(encoder, struct{ io.Reader }{l}); err != nil {
		return err
	}
	encoder.Close() // to out, which has no errors
	out.Write(f.appendItemAge([]byte{'"'}, now))
	return nil
}

// listItems answers GET of all items, which it sends as it reads them.
func (q *request) listItems() error {
	s, err := q.db.Snapshot()
	if err != nil {
		return err
	}
	defer s.Close()
	q.w.Header()["Content-Type"] = sayJSON
	out := &chunks{q: q}
	sel := selection{prefix: copal.MapPrefix(items)}
	sel.keys.Prefix = sel.prefix
	q.code = http.StatusOK
	out.Write([]byte{'['})
	first, line, now := true, []byte(nil), time.Now()
	for f, err := range q.each(s, &sel) {
		if err != nil {
			return err
		}
		if line = line[:0]; !first {
			line = append(line, ",\n"...)
		}
		first = false
		if f.Large == 0 {
			if _, err := out.Write(f.appendItem(line, now)); err != nil {
				return err
			}
			continue
		}
		out.Write(line)
		if err := q.sendLongItem(out, s, f.Key, now); err != nil {
			return err
		}
	}
	out.Write([]byte("]\n"))
	return out.flush()
}

// deleteItem answers DELETE of an item.
func (q *request) deleteItem() error {
	key, err := q.itemKey()
	if err != nil {
		return err
	}
	d, err := q.durableAs()
	if err != nil {
		return err
	}
	done, err := admin.Write(q.db, &admin.Entry{Key: key, Deleted: true}, d)
	switch {
	case err != nil:
		return err
	case !done.Existed:
		return copal.ErrNotFound
	}
	return q.ok(http.StatusOK)
}

// deleteItems answers DELETE of all items.
func (q *request) deleteItems() error {
	d, err := q.durableAs()
	if err == nil {
		err = q.clear(items, d)
	}
	if err != nil {
		return err
	}
	return q.ok(http.StatusOK)
}

// clear deletes all entries of a map. It writes nothing if there are none.
func (q *request) clear(name string, d copal.Durability) error {
	prefix := copal.MapPrefix(name)
	if n, err := admin.Len(q.db, prefix); n == 0 && err == nil {
		if d == copal.FSync { // a deletion before may not be on the disk
			return q.db.Sync()
		}
		return nil
	}
	return q.db.Raw().With(d).DeletePrefix(prefix)
}

// help answers GET of the root.
func (q *request) help() error {
	text := "This is a store of copal. " + Page + " has all of it.\n\n" +
		"  curl -X PUT -d '{\"id\":\"a\",\"value\":1}' http://" + q.r.Host + "/items\n" +
		"  curl http://" + q.r.Host + "/items/a\n\n"
	for i := range routes {
		r := &routes[i]
		text += fmt.Sprintf("%-6s %-30s %s\n", r.method, r.path, r.does)
	}
	h := q.w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	q.code = http.StatusOK
	_, err := q.w.Write([]byte(text))
	return gaveUp(err)
}
