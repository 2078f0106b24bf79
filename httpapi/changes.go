package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/jsontext"
	"github.com/copaldb/copal/internal/ndjson"
)

// A stream of changes has one event, or one line, for each sequence number: all changes that count
// together under it. So each event is complete, its id is the number up to which all events have
// come, and a client that continues from there gets each change once. An event that is cut off is
// none: an EventSource drops it, and a line without an end is no JSON.
//
// The id follows the data, so that a client does not have it before the rest.

// A stream is never silent for longer than heartbeat. Before that it sends the number up to which it
// is complete, so that a client of a map with few changes comes back with a number that the log still
// has.
const (
	heartbeat = 15 * time.Second
	progress  = 14 * time.Second
)

// changes answers GET of the changes of a map, or of all.
func (q *request) changes() error {
	since, err := q.since()
	if err != nil {
		return err
	}
	var prefix []byte
	name := q.r.PathValue("map")
	if name != "" {
		prefix = append(copal.MapPrefix(name), q.query("prefix")...)
	}
	ctx, cancel := context.WithCancel(q.r.Context())
	defer cancel()
	defer context.AfterFunc(q.ctx, cancel)()
	defer context.AfterFunc(q.grant.Revoked(), cancel)() // the client comes back with its new rights
	options := []copal.WatchOption{copal.WithPrefix(prefix), copal.WithAfter(since)}
	for _, err := range q.db.Watch(ctx, append(options, copal.WithUntil(since))...) { // whose error says that the log does not have it
		switch {
		case err == nil || ctx.Err() != nil:
		case errors.Is(err, copal.ErrHistoryLost) && q.accepts(typeEvents) && !q.accepts(typeLines) && q.r.Method != http.MethodHead:
			return q.tooLate(err)
		default:
			return err
		}
	}
	if q.r.Method == http.MethodHead {
		q.status(http.StatusOK)
		return nil
	}
	if q.enter(q.lasting) != nil {
		return busy("%d streams of changes are open already", mostStreams)
	}
	q.ending.Lock()
	q.stop = cancel
	q.ending.Unlock()
	s := stream{q: q, name: name, events: !q.accepts(typeLines), control: http.NewResponseController(q.w)}
	defer func() {
		if q.lasts {
			q.streams.open.Add(-1)
		}
	}()
	s.begin(since)
	pieces := make(chan piece)
	go s.read(ctx, append(options, copal.WithIdle(progress)), pieces)
	defer func() {
		cancel()
		for range pieces { // until the reader has ended
		}
	}()
	return s.pass(pieces)
}

// tooLate answers an EventSource that wants changes which the log does not have any more. After a status other than 200
// it would be closed for good, and its page would not know why. So the answer is a stream of one event, error. The next
// attempt has the same answer, and comes later than usual.
func (q *request) tooLate(err error) error {
	s := stream{q: q, events: true, control: http.NewResponseController(q.w)}
	s.open()
	s.write([]byte("retry: 10000\n"))
	s.fail(err)
	return nil
}

// since returns the number after which the client wants changes: that of an EventSource that comes back, that of the
// query, or now.
func (q *request) since() (uint64, error) {
	if text := q.r.Header.Get("Last-Event-ID"); text != "" {
		return parseSince("Last-Event-ID", text)
	}
	if text := q.query("since"); text != "" {
		return parseSince("since", text)
	}
	s, err := q.db.Snapshot()
	if err != nil {
		return 0, err
	}
	defer s.Close()
	return s.Seq(), nil
}

func parseSince(name, text string) (uint64, error) {
	n, ok := parseSeq(text)
	if !ok {
		return 0, problemf(badRequest, "%s: %q is not a sequence number", name, text)
	}
	return n, nil
}

// stream is a stream of changes to a client.
type stream struct {
	q       *request
	name    string // of the map, "" for all
	events  bool   // and not lines
	control *http.ResponseController
}

// piece is some of the text of an event.
type piece struct {
	text  []byte
	whole bool  // an event ends here
	err   error // that ends the stream
}

// begin says where the stream begins, so that a client which is cut off before the first change knows.
func (s *stream) begin(since uint64) {
	var text []byte
	if s.events {
		text = []byte("retry: 1000\n")
	}
	s.q.lasts = true
	s.q.streams.open.Add(1)
	s.open()
	s.write(s.appendProgress(text, since))
	s.flush()
}

// open writes the head of the answer.
func (s *stream) open() {
	h := s.q.w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // of a proxy in between
	h.Set("Content-Type", typeLines)
	if s.events {
		h.Set("Content-Type", typeEvents)
	}
	s.q.status(http.StatusOK)
}

// pass passes pieces to the client as they come.
func (s *stream) pass(pieces <-chan piece) error {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	waiting, within := false, false // an event
	for ; ; beat.Reset(heartbeat) {
		var p piece
		var more bool
		select {
		case p, more = <-pieces:
		default:
			if waiting {
				s.flush()
			}
			waiting = false
			select {
			case p, more = <-pieces:
			case <-beat.C:
				s.beat(within)
				continue
			}
		}
		switch {
		case !more:
			return nil
		case p.err != nil:
			s.fail(p.err)
			return nil
		}
		if s.write(p.text); p.whole {
			s.q.streams.events.Add(1)
		}
		waiting, within = true, !bytes.HasSuffix(p.text, []byte{'\n'})
	}
}

// beat says that the stream is there: by a comment or an empty line or, between two changes of an event, by a space.
func (s *stream) beat(within bool) {
	switch {
	case within:
		s.write([]byte{' '})
	case s.events:
		s.write([]byte(":\n"))
	default:
		s.write([]byte{'\n'})
	}
	s.flush()
}

// fail says why there are no more changes.
func (s *stream) fail(err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, copal.ErrClosed) {
		return // the client comes back, and gets the error then
	}
	text, _ := json.Marshal(problemOf(err))
	if s.events {
		s.write([]byte("event: error\ndata: " + string(text) + "\n\n"))
	} else {
		s.write([]byte(`{"error":` + string(text) + "}\n"))
	}
	s.flush()
}

func (s *stream) write(text []byte) {
	gaveUp(s.q.sends())
	_, err := s.q.w.Write(text)
	gaveUp(err)
}

// flush sends the buffered bytes. A deadline would end a stream of HTTP/2 that is silent.
func (s *stream) flush() {
	gaveUp(s.control.Flush())
	gaveUp(s.q.waits())
}

// read reads the changes, and ends when ctx is done. There are two buffers, one of which is being written.
func (s *stream) read(ctx context.Context, options []copal.WatchOption, pieces chan<- piece) {
	defer close(pieces)
	var buffers [2][]byte
	var held [2]buffer
	n, within := 0, false
	for c, err := range s.q.db.Watch(ctx, options...) {
		text, whole := buffers[n%2][:0], false
		if cap(text) > freeBytes { // of a large change, which has been written
			text = nil
			held[n%2].free(s.q)
		}
		switch {
		case err != nil:
		case c.Idle:
			text = s.appendProgress(text, c.Seq)
		default:
			text, err = s.append(text, &c, within)
			within, whole = c.More, !c.More
		}
		if err == nil {
			err = held[n%2].holds(s.q, cap(text))
		}
		buffers[n%2] = text
		select {
		case pieces <- piece{text, whole, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
		n++
	}
}

// append appends a change to the text of its event, whose beginning and end it brings along.
func (s *stream) append(dst []byte, c *copal.Change, within bool) ([]byte, error) {
	if within {
		dst = append(dst, ',')
	} else {
		if s.events {
			dst = append(dst, "data: "...)
		}
		dst = strconv.AppendUint(append(dst, `{"seq":`...), c.Seq, 10)
		dst = append(ndjson.AppendTime(append(dst, `,"time":`...), c.Time), `,"changes":[`...)
	}
	dst, err := s.appendChange(dst, c)
	if err != nil || c.More {
		return dst, err
	}
	dst = append(dst, "]}\n"...)
	if s.events {
		dst = append(strconv.AppendUint(append(dst, "id: "...), c.Seq, 10), "\n\n"...)
	}
	return dst, nil
}

// appendProgress appends the number up to which the stream is complete.
func (s *stream) appendProgress(dst []byte, seq uint64) []byte {
	if s.events {
		return append(strconv.AppendUint(append(dst, "id: "...), seq, 10), "\n\n"...)
	}
	return append(strconv.AppendUint(append(dst, `{"seq":`...), seq, 10), `,"changes":[]}`+"\n"...)
}

func (s *stream) appendChange(dst []byte, c *copal.Change) ([]byte, error) {
	op := "set"
	switch {
	case c.Dropped:
		op = "drop"
	case c.Range:
		op = "delrange"
	case c.Expired:
		op = "expired"
	case c.Deleted:
		op = "del"
	}
	dst = append(append(append(dst, `{"op":"`...), op...), '"')
	prefix, name := s.split(c.Key)
	if prefix != nil {
		dst = ndjson.AppendKey(append(dst, `,"map":`...), []byte(name))
	}
	own := func(key []byte) []byte { return bytes.TrimPrefix(key, prefix) }
	if c.Range {
		if key := own(c.Key); len(key) > 0 && (prefix != nil || s.name == "") {
			dst = ndjson.AppendKey(append(dst, `,"from":`...), key)
		}
		if c.To != nil && bytes.HasPrefix(c.To, prefix) && (prefix != nil || s.name == "") {
			dst = ndjson.AppendKey(append(dst, `,"to":`...), own(c.To))
		}
		return append(dst, '}'), nil
	}
	dst = ndjson.AppendKey(append(dst, `,"key":`...), own(c.Key))
	if !c.Deadline.IsZero() && !c.Expired {
		dst = ndjson.AppendTime(append(dst, `,"expires":`...), c.Deadline)
	}
	if c.Collection != "" {
		dst = jsontext.AppendString(append(dst, `,"collection":`...), c.Collection)
	}
	if c.Element != nil {
		dst = ndjson.AppendKey(append(dst, `,"element":`...), c.Element)
	}
	if c.Created {
		dst = append(dst, `,"created":true`...)
	}
	if c.From != nil && s.q.grant.MayRead(c.From) {
		dst = ndjson.AppendKey(append(dst, `,"from":`...), own(c.From))
	}
	if op == "set" && (c.Collection == "" || c.Element != nil && c.Collection != "set") {
		if c.Large > 0 {
			dst = strconv.AppendInt(append(dst, `,"bytes":`...), c.Large, 10)
			return append(dst, '}'), nil
		}
		value, err := c.Value()
		if err != nil {
			return dst, err
		}
		dst = appendValue(append(dst, ','), value)
	}
	return append(dst, '}'), nil
}

// split finds the map that a whole key belongs to, and the prefix of its keys; nil for none. Of a range that goes
// beyond the map of the stream, the stream has the part within it.
func (s *stream) split(key []byte) (prefix []byte, name string) {
	if s.name != "" {
		if prefix = copal.MapPrefix(s.name); bytes.HasPrefix(key, prefix) {
			return prefix, s.name
		}
		return nil, ""
	}
	at := bytes.IndexByte(key, ':')
	if at < 0 {
		return nil, ""
	}
	name, err := url.PathUnescape(string(key[:at]))
	if err != nil || name == "" || !bytes.Equal(copal.MapPrefix(name), key[:at+1]) {
		return nil, ""
	}
	return key[:at+1], name
}
