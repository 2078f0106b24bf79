package httpapi

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/copaldb/copal/internal/jsontext"
)

// A body is read as it arrives. Memory grows by the bytes that have come, whatever length the client
// names, and a client that stops in the middle is closed after a while.

const (
	typeJSON   = "application/json"
	typeBytes  = "application/octet-stream"
	typeMerge  = "application/merge-patch+json"
	typeLines  = "application/x-ndjson"
	typeEvents = "text/event-stream"
	typeForm   = "application/x-www-form-urlencoded" // the type that curl -d sends by default
)

// heldBytes is the length of a value in memory before the rest is streamed: the length of one record of the log.
const heldBytes = 1 << 20

// contentType is the type of the body, "" where the request does not say.
func contentType(r *http.Request) (string, error) {
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return "", problemf(wrongType, "a body with Content-Encoding %s; values are kept as they come, and have none", e)
	}
	kept, err := keptType(r.Header.Get("Content-Type"))
	if kept == typeForm {
		kept = ""
	}
	return kept, err
}

// keptType is a content type in the form in which a record keeps it.
func keptType(given string) (string, error) {
	if given == "" {
		return "", nil
	}
	kind, parameters, err := mime.ParseMediaType(given)
	if err != nil || !strings.Contains(kind, "/") {
		return "", problemf(wrongType, "Content-Type %q is malformed", given)
	}
	if kind == typeJSON || kind == typeForm {
		return kind, nil // JSON is UTF-8, whatever it says
	}
	kept := strings.ReplaceAll(mime.FormatMediaType(kind, parameters), "; ", ";")
	if kept == "" || len(kept) > 128 || strings.ContainsFunc(kept, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return "", problemf(wrongType, "Content-Type %q is longer than 128 characters, or has spaces within", given)
	}
	return kept, nil
}

// patient is a body of which each piece has to come within a time, and where it is paced at leastRate, too.
type patient struct {
	q     *request
	body  io.ReadCloser
	began time.Time // zero if it is not paced
	n     int64     // bytes that have come
}

func (p *patient) Read(b []byte) (int, error) {
	until := time.Now().Add(p.q.patience)
	if !p.began.IsZero() {
		if paced := p.began.Add(p.q.patience + time.Duration(p.n)*(time.Second/leastRate)); paced.Before(until) {
			until = paced
		}
	}
	if err := p.q.receives(until); err != nil {
		return 0, err
	}
	p.q.turn.End() // the client may take its time
	n, err := p.body.Read(b)
	p.n += int64(n)
	if err == io.EOF { // another request follows, or nothing; after any other error net/http reads on
		if err := p.q.receives(time.Time{}); err != nil {
			return n, err
		}
	}
	if err != nil {
		if err := p.q.sends(); err != nil {
			return n, err
		}
	}
	if p.q.isRevoked() {
		return 0, problemf(unauthorized, "the rights of the user have changed")
	}
	return n, err
}

// body is the body of the request, of at most so many bytes: a longer one is an error.
func (q *request) body(most int64) io.Reader {
	limited := http.MaxBytesReader(q.w, q.r.Body, most)
	return &patient{q: q, body: limited, began: time.Now()}
}

// read appends the bytes of r to the buffer of the request, up to a number of them, and reports whether r has no more.
func (q *request) read(r io.Reader, most int64) (all bool, err error) {
	b := *q.buf
	defer func() { *q.buf = b }()
	for int64(len(b)) < most {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
			*q.buf = b
			if err := q.grown(); err != nil {
				return false, err
			}
		}
		n, err := r.Read(b[len(b):min(int64(cap(b)), most)])
		b = b[:len(b)+n]
		switch {
		case err == io.EOF:
			return true, nil
		case err != nil:
			return false, cutOff(err)
		}
	}
	return false, nil
}

// cutOff is the error of a body that could not be read.
func cutOff(err error) error {
	var long *http.MaxBytesError
	var p *problem
	if errors.As(err, &long) || errors.As(err, &p) {
		return err
	}
	return problemf(badRequest, "the body is incomplete: %v", err)
}

// whole reads all of a body that is held in memory. It is the request's buffer, until that is used again.
func (q *request) whole() ([]byte, error) {
	if n := q.r.ContentLength; n > q.maxBody {
		return nil, problemf(tooLarge, "a body of %d bytes; the limit is %d", n, q.maxBody)
	}
	*q.buf = (*q.buf)[:0]
	_, err := q.read(q.body(q.maxBody), q.maxBody+1)
	return *q.buf, err
}

// checkJSON returns a problem for text that is not JSON.
func checkJSON(text []byte) error {
	if utf8.Valid(text) && json.Valid(text) {
		if jsontext.IsDeep(text) {
			return problemf(badRequest, "the body has more than %d levels of arrays and objects", jsontext.MaxDepth)
		}
		return nil
	}
	var any json.RawMessage
	why := "it is not UTF-8"
	if err := json.Unmarshal(text, &any); err != nil {
		why = err.Error()
	}
	return problemf(badRequest, "the body is not JSON: %s", why)
}

// isJSON reports whether a content type means JSON text.
func isJSON(kind string) bool {
	kind, _, _ = strings.Cut(kind, ";")
	return kind == typeJSON || strings.HasSuffix(kind, "+json")
}

// accepts reports whether the request asks for a content type by name.
func (q *request) accepts(kind string) bool {
	for _, line := range q.r.Header["Accept"] {
		for item := range strings.SplitSeq(line, ",") {
			item, _, _ = strings.Cut(item, ";")
			if strings.EqualFold(strings.TrimSpace(item), kind) {
				return true
			}
		}
	}
	return false
}
