package httpapi

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/ndjson"
)

// chunks writes to the client in pieces of some length, as long as it takes them.
type chunks struct {
	q    *request
	buf  []byte
	held buffer // of buf, and of the text from which a writer has made it
}

func (c *chunks) Write(p []byte) (int, error) {
	c.buf = append(c.buf, p...)
	if len(c.buf) < sentBytes {
		return len(p), nil
	}
	if err := c.held.holds(c.q, 2*cap(c.buf)); err != nil {
		return 0, err
	}
	return len(p), c.flush()
}

func (c *chunks) flush() error {
	if c.q.isRevoked() {
		panic(http.ErrAbortHandler)
	}
	if err := c.q.sends(); err != nil {
		return err
	}
	c.q.code = http.StatusOK
	_, err := c.q.w.Write(c.buf)
	c.buf = c.buf[:0]
	return gaveUp(err)
}

// bulkBytes is how much of a bulk counts together, at most.
const bulkBytes = 256 << 10

// mostErrors is how many bad lines a bulk names.
const mostErrors = 100

// lastDeadline is the last that an entry can have.
var lastDeadline = time.Unix(math.MaxInt64/1000-1, 0)

// lineProblem is a line of a bulk that was not carried out.
type lineProblem struct {
	line   int64
	detail string
}

// bulk answers POST of lines to a map. Each line counts by itself; lines that were read before the
// connection failed stay.
func (q *request) bulk() error {
	name := q.r.PathValue("map")
	kind, err := contentType(q.r)
	switch {
	case err != nil:
		return err
	case kind != "" && kind != typeLines:
		return problemf(wrongType, "a bulk of type %s; %s is taken", kind, typeLines)
	}
	if _, err := wholeKey(name, ""); err != nil {
		return err
	}
	d, err := q.durableAs()
	if err != nil {
		return err
	}
	if err := admin.DeclareMap(q.db, name); err != nil {
		return err
	}
	// A line at a time may come, as slowly as lines are made. Lines since the last batch are held, as text and
	// as entries.
	body := &patient{q: q, body: q.r.Body}
	counted, held := int64(0), buffer(0)
	in := ndjson.NewReader(readerFunc(func(p []byte) (int, error) {
		n, err := body.Read(p)
		if full := held.holds(q, int(2*(body.n-counted))); full != nil {
			return n, full
		}
		return n, err
	}))
	in.Loose, in.MaxBytes = true, q.maxBody
	written, expired, failures, bad := int64(0), int64(0), int64(0), []lineProblem(nil)
	fail := func(line int64, detail string) {
		if failures++; len(bad) < mostErrors {
			bad = append(bad, lineProblem{line, detail})
		}
	}
	var batch []*admin.Entry
	size := 0
	put := func() error {
		err := admin.Put(q.db, batch...)
		if err == nil {
			written += int64(len(batch))
		}
		clear(batch)
		batch, size, counted = batch[:0], 0, body.n
		held.free(q)
		return err
	}
	for {
		q.turn.Look(q.r.Context()) // a client that is gone shows when it is read from

		if body.n-counted > 2*bulkBytes { // lines of which no entry is kept count, too
			if err := put(); err != nil {
				return err
			}
		}
		l, err := in.Next()
		var wrong *ndjson.LineError
		if err == io.EOF {
			break
		}
		if errors.As(err, &wrong) {
			fail(wrong.Line, wrong.Reason)
			continue
		}
		if err != nil {
			switch {
			case errors.Is(err, ndjson.ErrVersion):
				err = problemf(badRequest, "%v", err)
			case errors.Is(err, ndjson.ErrLong):
				err = problemf(tooLarge, "%v", err)
			default:
				err = cutOff(err)
			}
			if err := put(); err != nil {
				return err
			}
			p := *problemOf(err) // which may be of all requests
			p.Detail += fmt.Sprintf("; entries written before it: %d", written)
			return &p
		}
		e, err := q.bulkEntry(name, &l)
		if err != nil {
			p := problemOf(err)
			if p.Status >= http.StatusInternalServerError {
				return err
			}
			fail(in.Line(), p.Detail)
			continue
		}
		if e == nil {
			continue
		}
		if !e.Expires.IsZero() && !e.Expires.After(time.Now()) {
			expired++
			continue
		}
		batch = append(batch, e)
		if size += len(e.Key) + len(e.Value); size > bulkBytes || len(batch) == 1000 {
			if err := put(); err != nil {
				return err
			}
		}
	}
	if err := put(); err != nil {
		return err
	}
	if d == copal.FSync {
		if err := q.db.Sync(); err != nil {
			return err
		}
	}
	text := strconv.AppendInt([]byte(`{"written":`), written, 10)
	text = strconv.AppendInt(append(text, `,"expired":`...), expired, 10)
	text = strconv.AppendInt(append(text, `,"failed":`...), failures, 10)
	text = append(text, `,"errors":[`...)
	for i, b := range bad {
		if i > 0 {
			text = append(text, ',')
		}
		text = fmt.Appendf(text, `{"line":%d,"detail":`, b.line)
		text = append(ndjson.AppendKey(text, []byte(b.detail)), '}')
	}
	return q.json(append(text, "]}\n"...))
}

// readerFunc is a function that reads.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// bulkEntry is the entry of a line, nil for a line that says something else.
func (q *request) bulkEntry(name string, l *ndjson.Line) (*admin.Entry, error) {
	switch l.Kind {
	case ndjson.Entry:
	case ndjson.Element, ndjson.Map:
		return nil, problemf(badRequest, "a line without an entry; copal import takes it")
	default:
		return nil, nil
	}
	e := &l.Entry
	if e.Collection != "" {
		return nil, problemf(badRequest, "a collection; copal import takes it")
	}
	if e.Codec != "" && e.Codec != "json" && e.Codec != "bytes" {
		return nil, problemf(badRequest, "a value of the codec %s; copal import takes it", e.Codec)
	}
	e.Codec, e.Schema = "", ""
	own := e.Key
	var err error
	if e.Key, err = wholeKey(name, string(own)); err != nil {
		return nil, err
	}
	if e.Expires.After(lastDeadline) {
		return nil, problemf(badRequest, "a deadline beyond the last possible one")
	}
	if e.Content, err = keptType(e.Content); err != nil {
		return nil, err
	}
	if isJSON(e.Content) {
		if err := checkJSON(e.Value); err != nil {
			return nil, err
		}
	}
	return e, admin.Fit(q.db, e)
}
