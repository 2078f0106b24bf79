package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

// found is an entry, as the headers of an answer describe it.
type found struct {
	*admin.Entry
	size  int64
	value []byte // unless it is large, in the request's buffer
}

// Content types of answers, as headers have them. They are constants.
var (
	sayJSON    = []string{typeJSON}
	sayBytes   = []string{typeBytes}
	sayNoSniff = []string{"nosniff"}
	saySandbox = []string{"sandbox"}
	sayRanges  = []string{"bytes"}
)

// look reads an entry. The value of a large one is left out.
func look[S admin.Source](q *request, in S, key []byte) (f found, err error) {
	err = admin.Look(in, key, func(e *admin.Found) (err error) {
		f.Entry, f.size = &e.Entry, e.Large
		if e.Large == 0 {
			*q.buf, err = e.AppendShown((*q.buf)[:0], q.db)
			f.value = *q.buf
			f.size = int64(len(f.value))
		}
		f.Value = nil // which is only lent
		if err == nil {
			err = q.grown()
		}
		return err
	})
	return f, err
}

// lookAt is look in a snapshot, or in the present store where there is none.
func (q *request) lookAt(s *copal.Snapshot, key []byte) (found, error) {
	if s != nil {
		return look(q, s, key)
	}
	return look(q, q.db, key)
}

// says is the content type of the value. Without a type the value decides, if it was read.
func (f *found) says() []string {
	switch {
	case f.Content == typeJSON, f.Content == "" && f.Codec != "" && f.Codec != "bytes":
		return sayJSON
	case f.Content != "":
		return []string{f.Content}
	case f.Large == 0 && utf8.Valid(f.value) && json.Valid(f.value):
		return sayJSON
	}
	return sayBytes
}

// describe writes the headers of the entry. A value other than JSON may be a page with a script, put there by a user; a
// browser shows it, if at all, as a page of no origin.
func (f *found) describe(h http.Header) {
	kind := f.says()
	h["Content-Type"] = kind
	if kind[0] != typeJSON {
		h["Accept-Ranges"] = sayRanges
		h["X-Content-Type-Options"] = sayNoSniff
		h["Content-Security-Policy"] = saySandbox
	}
	if f.Seq != 0 {
		h["Etag"] = []string{etag(f.Seq)}
	}
	if !f.Expires.IsZero() {
		h["Copal-Expires"] = []string{f.Expires.UTC().Format(timeForm)}
	}
}

// timeForm is the form of times: RFC 3339 with milliseconds.
const timeForm = "2006-01-02T15:04:05.000Z07:00"

// get answers GET and HEAD of an entry.
func (q *request) get() error {
	_, key, err := q.mapAndKey()
	if err != nil {
		return err
	}
	s, end, err := q.moment()
	if err != nil {
		return err
	}
	defer end()
	f, err := q.lookAt(s, key)
	if err != nil {
		return err
	}
	if f.Large > 0 {
		return q.large(s, key)
	}
	return q.answer(&f, nil)
}

// open opens a value that is not held in memory, in a snapshot, or in the present store where there is none.
func (q *request) open(s *copal.Snapshot, key []byte) (*admin.Large, error) {
	if s != nil {
		return admin.Open(s, key)
	}
	return admin.Open(q.db, key)
}

// shownBytes is about the memory that a byte of a value takes while the value is rendered.
const shownBytes = 3

// load returns the rendered value of l, in memory. The caller gives back shownBytes for each byte of l.
func (q *request) load(l *admin.Large) (value []byte, err error) {
	if err := q.take(l.Size() * shownBytes); err != nil {
		return nil, err
	}
	e := l.Entry
	e.Value = make([]byte, l.Size())
	if _, err := io.ReadFull(l, e.Value); err != nil {
		return nil, err
	}
	return e.AppendShown(nil, q.db)
}

// large answers with a value that is not held in memory.
func (q *request) large(s *copal.Snapshot, key []byte) error {
	l, err := q.open(s, key)
	if err != nil {
		return err
	}
	defer l.Close()
	if !l.Entry.IsRendered(q.db) {
		return q.answer(&found{Entry: &l.Entry.Entry, size: l.Size()}, l)
	}
	value, err := q.load(l) // it is shown as a whole, or not at all
	if err != nil {
		return err
	}
	return q.answer(&found{Entry: &l.Entry.Entry, size: int64(len(value)), value: value}, nil)
}

// answer answers with a value, or a part of it, as the conditions and the range say. value reads it where it is not in
// memory.
func (q *request) answer(f *found, value io.ReadSeeker) error {
	h := q.w.Header()
	f.describe(h)
	from := q.r.Header
	if len(from["If-Match"])+len(from["If-None-Match"]) > 0 {
		c, err := conditionsOf(from)
		if err != nil {
			return err
		}
		if c.match.given && !c.match.has(f.Seq) {
			return c.hold(f.Seq)
		}
		if c.none.has(f.Seq) {
			delete(h, "Content-Type")
			q.status(http.StatusNotModified)
			return nil
		}
	}
	begin, length, code := int64(0), f.size, http.StatusOK
	if text := from.Get("Range"); text != "" && q.r.Method == http.MethodGet && (from.Get("If-Range") == "" || from.Get("If-Range") == h.Get("Etag")) {
		part, n, ok, err := parseRange(text, f.size)
		if err != nil {
			h.Set("Content-Range", "bytes */"+strconv.FormatInt(f.size, 10))
			return err
		}
		if ok {
			begin, length, code = part, n, http.StatusPartialContent
			h.Set("Content-Range", "bytes "+strconv.FormatInt(begin, 10)+"-"+strconv.FormatInt(begin+length-1, 10)+"/"+strconv.FormatInt(f.size, 10))
		}
	}
	whole := code == http.StatusOK && f.value != nil && q.r.Method != http.MethodHead
	if !whole || length > countedBytes {
		h["Content-Length"] = []string{strconv.FormatInt(length, 10)}
	}
	if q.r.Method == http.MethodHead {
		q.status(code)
		return nil
	}
	if whole {
		q.code = http.StatusOK
		_, err := q.w.Write(f.value)
		return gaveUp(err)
	}
	if value == nil {
		value = bytes.NewReader(f.value)
	}
	if _, err := value.Seek(begin, io.SeekStart); err != nil {
		return err
	}
	q.status(code)
	return q.send(io.LimitReader(value, length))
}

// countedBytes is how long an answer is of which net/http finds the length itself.
const countedBytes = 2000

// parseRange reads a Range header for a value of so many bytes. ok is false for headers to be ignored: other units,
// and several ranges.
func parseRange(text string, size int64) (begin, length int64, ok bool, err error) {
	text, ours := strings.CutPrefix(text, "bytes=")
	if !ours || strings.Contains(text, ",") {
		return 0, 0, false, nil
	}
	first, last, dash := strings.Cut(strings.TrimSpace(text), "-")
	if !dash {
		return 0, 0, false, nil
	}
	end := size - 1
	if first == "" { // the last so many
		n, ok := parseOffset(last)
		if !ok {
			return 0, 0, false, nil
		}
		begin = max(size-n, 0)
		if n == 0 {
			begin = size
		}
	} else {
		if begin, ok = parseOffset(first); !ok {
			return 0, 0, false, nil
		}
		if last != "" {
			n, ok := parseOffset(last)
			if !ok || n < begin {
				return 0, 0, false, nil
			}
			end = min(end, n)
		}
	}
	if begin >= size {
		return 0, 0, false, problemf(badRange, "the value has %d bytes", size)
	}
	return begin, end - begin + 1, true, nil
}

// parseOffset reads a number of digits; one that is too large is the largest.
func parseOffset(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	if text == "" || strings.Trim(text, "0123456789") != "" || err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, false
	}
	return n, true
}

// sentBytes is how much of a long answer is written at a time.
const sentBytes = 64 << 10

// send writes the bytes of r, as long as the client takes them.
func (q *request) send(r io.Reader) error {
	if cap(*q.buf) < sentBytes {
		*q.buf = make([]byte, sentBytes)
	}
	b := (*q.buf)[:sentBytes]
	for {
		n, err := io.ReadFull(r, b)
		if q.isRevoked() {
			panic(http.ErrAbortHandler)
		}
		if n > 0 {
			if err := q.sends(); err != nil {
				return err
			}
			if _, err := q.w.Write(b[:n]); err != nil {
				return gaveUp(err)
			}
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			return nil
		default:
			return err
		}
	}
}

// gaveUp ends the connection of a client that has given up. That is no failure of the server.
func gaveUp(err error) error {
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}
