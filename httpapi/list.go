package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/jsontext"
	"github.com/copaldb/copal/internal/ndjson"
)

// A listing is read in a snapshot. So it is one moment, and says which: whoever goes on with the changes since misses
// nothing. A page is cut by a cursor, which is the key that was last and nothing else; the server keeps none.

const (
	usualPage = 100
	mostPage  = 10_000
	pageBytes = 4 << 20 // of keys and values, after which a page ends
)

// cursorMark begins a cursor: the empty key is one, too.
const cursorMark = "k"

// selection is which entries of a map are listed.
type selection struct {
	prefix []byte // of whole keys: the prefix of the map
	keys   admin.Selection
	limit  int
	where  *filters // nil for none
}

// parseSelection reads the parameters of a listing.
func parseSelection(name string, query url.Values) (s selection, err error) {
	if name == "" {
		return s, problemf(badRequest, "the name of a map is empty")
	}
	s.prefix = copal.MapPrefix(name)
	whole := func(own string) []byte { return append(bytes.Clone(s.prefix), own...) }
	s.keys.Prefix = whole(query.Get("prefix"))
	if from := query.Get("from"); from != "" {
		s.keys.From = whole(from)
	}
	if to := query.Get("to"); to != "" {
		s.keys.To = whole(to)
	}
	if s.keys.Backward, err = flag(query, "reverse"); err != nil {
		return s, err
	}
	if text := query.Get("cursor"); text != "" {
		text, ours := strings.CutPrefix(text, cursorMark)
		own, err := base64.RawURLEncoding.Strict().DecodeString(text)
		if err != nil || !ours || len(own)+len(s.prefix) > copal.MaxKeyBytes {
			return s, problemf(badRequest, "the cursor is not from a page")
		}
		s.keys.After = whole(string(own))
	}
	s.keys.Keep = s.keys.After != nil || s.keys.From != nil // more is expected to come
	s.limit = usualPage
	if text := query.Get("limit"); text != "" {
		if s.limit, err = strconv.Atoi(text); err != nil || s.limit < 1 || s.limit > mostPage {
			return s, problemf(badRequest, "limit is from 1 to %d, and not %q", mostPage, text)
		}
	}
	s.where, err = parseFilters(query["where"])
	return s, err
}

// flag is a parameter that is true or false.
func flag(query url.Values, name string) (bool, error) {
	switch text := query.Get(name); text {
	case "":
		return query.Has(name), nil
	case "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, problemf(badRequest, "%s is true or false, and not %q", name, text)
	}
}

// each yields the entries of a snapshot that are selected, those that hold collections left out.
func (q *request) each(s *copal.Snapshot, sel *selection) iter.Seq2[*found, error] {
	return func(yield func(*found, error) bool) {
		for key, err := range admin.Keys(s, sel.keys) {
			if err != nil {
				yield(nil, err)
				return
			}
			if err := q.goOn(); err != nil {
				yield(nil, err)
				return
			}
			f, err := look(q, s, key)
			switch {
			case isMissing(err) || isCollection(err):
				continue
			case err != nil:
				yield(nil, err)
				return
			}
			if has, err := q.selects(s, sel, &f); err != nil {
				yield(nil, err)
				return
			} else if !has {
				continue
			}
			if !yield(&f, nil) {
				return
			}
		}
	}
}

// selects reports whether the filters select an entry of a snapshot. A value that is longer than JSON may be is none.
func (q *request) selects(s *copal.Snapshot, sel *selection, f *found) (bool, error) {
	value := f.value
	if f.Large > 0 && sel.where != nil && f.Large <= q.maxBody {
		l, err := q.open(s, f.Key)
		if err != nil {
			return false, err
		}
		defer l.Close()
		if value, err = q.load(l); err != nil {
			return false, err
		}
		defer q.give(l.Size() * shownBytes)
	}
	return sel.where.selects(q.goOn, value)
}

// snapshot is the moment that is asked for, or now.
func (q *request) snapshot() (*copal.Snapshot, func(), error) {
	s, end, err := q.moment()
	if s != nil || err != nil {
		return s, end, err
	}
	if s, err = q.db.Snapshot(); err != nil {
		return nil, nil, err
	}
	return s, func() { s.Close() }, nil
}

// list answers GET of a map: a page of JSON, or all as lines.
func (q *request) list() error {
	sel, err := parseSelection(q.r.PathValue("map"), q.parameters)
	if err != nil {
		return err
	}
	s, end, err := q.snapshot()
	if err != nil {
		return err
	}
	defer end()
	q.w.Header().Set("Copal-Seq", strconv.FormatUint(s.Seq(), 10))
	if q.accepts(typeLines) {
		if q.parameters.Has("limit") {
			return problemf(badRequest, "limit is for pages; lines have the whole selection")
		}
		if err := sel.keys.Check(q.db); err != nil {
			return err
		}
		return q.lines(s, &sel)
	}
	body := strconv.AppendUint([]byte(`{"seq":`), s.Seq(), 10)
	body = append(body, `,"entries":[`...)
	n, last, more := 0, []byte(nil), false
	var held buffer
	for f, err := range q.each(s, &sel) {
		if err != nil {
			return err
		}
		if n == sel.limit || len(body) > pageBytes {
			more = true
			break
		}
		if n > 0 {
			body = append(body, ',')
		}
		last = append(last[:0], f.Key[len(sel.prefix):]...)
		body = f.appendJSON(body, last)
		n++
		if err := held.holds(q, cap(body)); err != nil {
			return err
		}
	}
	body = append(body, ']')
	if more {
		body = append(body, `,"next":"`+cursorMark...)
		body = append(base64.RawURLEncoding.AppendEncode(body, last), '"')
	}
	return q.json(append(body, "}\n"...))
}

// json answers with JSON text.
func (q *request) json(body []byte) error {
	h := q.w.Header()
	h["Content-Type"] = sayJSON
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	// To find the few entries that a filter selects may have taken longer than an answer may.
	if err := q.sends(); err != nil {
		return err
	}
	q.code = http.StatusOK
	_, err := q.w.Write(body)
	return gaveUp(err)
}

// appendJSON appends an entry as pages have it. Of a large value it has the length.
func (f *found) appendJSON(dst, own []byte) []byte {
	dst = ndjson.AppendKey(append(dst, `{"key":`...), own)
	dst = jsontext.AppendString(append(dst, `,"etag":`...), etag(f.Seq))
	dst = ndjson.AppendTime(append(dst, `,"time":`...), f.Time)
	if !f.Expires.IsZero() {
		dst = ndjson.AppendTime(append(dst, `,"expires":`...), f.Expires)
	}
	if f.Content != "" && f.Content != typeJSON {
		dst = jsontext.AppendString(append(dst, `,"content":`...), f.Content)
	}
	if f.Large > 0 {
		dst = strconv.AppendInt(append(dst, `,"bytes":`...), f.Large, 10)
		return append(dst, '}')
	}
	return append(appendValue(append(dst, ','), f.value), '}')
}

// appendValue appends a value in one of the forms of an export. JSON of several lines becomes one line.
func appendValue(dst, value []byte) []byte {
	if bytes.IndexByte(value, '\n') >= 0 || bytes.IndexByte(value, '\r') >= 0 {
		var one bytes.Buffer
		if utf8.Valid(value) && json.Compact(&one, value) == nil {
			value = one.Bytes()
		}
	}
	return ndjson.AppendValue(dst, bytes.TrimSpace(value))
}

// maps answers GET of the list of maps, which it sends as it reads them.
func (q *request) maps() error {
	q.w.Header()["Content-Type"] = sayJSON
	out, body := &chunks{q: q}, []byte(`{"maps":[`)
	first := true
	for name, n := range q.db.Maps() {
		if !q.grant.MayRead(copal.MapPrefix(name)) {
			continue
		}
		if !first {
			body = append(body, ',')
		}
		first = false
		body = ndjson.AppendKey(append(body, `{"name":`...), []byte(name))
		body = append(strconv.AppendInt(append(body, `,"entries":`...), int64(n), 10), '}')
		if _, err := out.Write(body); err != nil {
			return err
		}
		body = body[:0]
	}
	out.Write(append(body, "]}\n"...))
	return out.flush()
}

// deleteRange answers DELETE of a map: of the entries with a prefix or in a range, or of all of them.
func (q *request) deleteRange() error {
	query := q.parameters
	if query.Has("all") && query.Get("all") == "" { // of a variable that is empty, perhaps
		return problemf(badRequest, "all is true or false")
	}
	all, err := flag(query, "all")
	if err != nil {
		return err
	}
	if !all && query.Get("prefix") == "" && query.Get("from") == "" && query.Get("to") == "" {
		return problemf(badRequest, "DELETE of a map needs prefix, from or to, or all=true")
	}
	sel, err := parseSelection(q.r.PathValue("map"), query)
	if err != nil {
		return err
	}
	d, err := q.durableAs()
	if err != nil {
		return err
	}
	if len(query) == 1 && all {
		err = q.clear(q.r.PathValue("map"), d)
	} else {
		err = q.deleteSelected(&sel.keys, d)
	}
	if err != nil {
		return err
	}
	q.status(http.StatusNoContent)
	return nil
}

// deleteSelected deletes the selected entries.
func (q *request) deleteSelected(sel *admin.Selection, d copal.Durability) error {
	of, err := sel.Range(q.db)
	if err != nil {
		return err
	}
	if err := admin.DeleteRange(q.db, &of); err != nil || d != copal.FSync {
		return err
	}
	return q.db.Sync()
}

// isCollection reports whether a collection was read as a value.
func isCollection(err error) bool {
	var c *copal.CollectionError
	return errors.As(err, &c)
}

// lines answers with all entries that are selected, as lines of an export, whose last one says that this is all.
func (q *request) lines(s *copal.Snapshot, sel *selection) error {
	q.w.Header().Set("Content-Type", typeLines)
	q.status(http.StatusOK)
	out := &chunks{q: q}
	w, err := ndjson.NewWriter(out, ndjson.Head{Seq: s.Seq(), Time: s.Time()})
	if err != nil {
		return err
	}
	w.Seq = true
	for f, err := range q.each(s, sel) {
		if err != nil {
			return err
		}
		if err := q.line(w, s, f, f.Key[len(sel.prefix):]); err != nil {
			return err
		}
	}
	if err := w.End(); err != nil {
		return err
	}
	return out.flush()
}

// line writes an entry of a snapshot as a line, under its key in the map.
func (q *request) line(w *ndjson.Writer, s *copal.Snapshot, f *found, own []byte) error {
	e := *f.Entry
	e.Key, e.Value = own, f.value
	e.Codec, e.Schema = "", "" // it is shown
	if f.Large == 0 {
		return w.Entry(&e)
	}
	l, err := q.open(s, f.Key)
	if err != nil {
		return err
	}
	defer l.Close()
	if !l.Entry.IsRendered(q.db) {
		return w.Long(&e, l, l.Size())
	}
	if e.Value, err = q.load(l); err != nil {
		return err
	}
	defer q.give(l.Size() * shownBytes)
	return w.Entry(&e)
}
