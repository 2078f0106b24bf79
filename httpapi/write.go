package httpapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/jsontext"
)

// operation is a change of one entry, or a read of it: of a request by itself, or of a transaction.
type operation struct {
	does       string // get, put, patch, add or delete
	name       string // of the map
	key        []byte // whole
	value      []byte // of put and patch
	content    string // its content type
	by         int64  // of add
	conditions conditions
	expires    time.Time
	life       string // the deadline, as the request says it
	keep       bool   // the deadline is not spoken of: put has none, and others leave it
	redate     bool   // of patch: there is no value, the deadline alone changes
}

// outcome is the result of an operation.
type outcome struct {
	status int
	found         // of get: the entry
	value  []byte // of get, patch and add
}

// headers fills in the conditions and the deadline of an operation from the headers of a request.
func (q *request) headers(o *operation) (err error) {
	if o.conditions, err = conditionsOf(q.r.Header); err != nil {
		return err
	}
	return o.lives(q.r.Header.Get("Copal-TTL"), q.r.Header.Get("Copal-Expires"))
}

// lives fills in the deadline.
func (o *operation) lives(ttl, expires string) (err error) {
	o.life = ttl + " " + expires
	o.expires, o.keep, err = deadlineOf(ttl, expires)
	return err
}

// put answers PUT of an entry.
func (q *request) put() error {
	o := operation{does: "put"}
	var err error
	if o.name, o.key, err = q.mapAndKey(); err != nil {
		return err
	}
	if q.r.Header.Get("Content-Range") != "" {
		return problemf(badRequest, "Content-Range with PUT: a value is written as a whole")
	}
	said, err := contentType(q.r)
	if err != nil {
		return err
	}
	most := q.maxValue
	if isJSON(said) {
		most = q.maxBody
	}
	if n := q.r.ContentLength; n > most {
		return problemf(tooLarge, "a body of %d bytes; the limit is %d", n, most)
	}
	body := q.body(most)
	held := int64(heldBytes)
	if isJSON(said) {
		held = most
	}
	*q.buf = (*q.buf)[:0]
	all, err := q.read(body, held+1)
	if err == nil {
		err = q.headers(&o) // now, for a TTL begins when the value is there
	}
	switch {
	case err != nil:
		return err
	case !all:
		o.content = said
		return q.stream(&o, body)
	}
	o.value = *q.buf
	if o.content = said; said == "" {
		o.content = typeBytes
		if checkJSON(o.value) == nil {
			o.content = typeJSON
		}
	}
	return q.one(&o)
}

// stream is put of a value that does not fit memory. Its first bytes are in the buffer.
func (q *request) stream(o *operation, body io.Reader) error {
	if q.r.Header.Get("Idempotency-Key") != "" {
		return problemf(badRequest, "Idempotency-Key with a value of more than %d bytes; If-Match and If-None-Match make it safe to send it again", heldBytes)
	}
	d, err := q.durableAs()
	if err != nil {
		return err
	}
	if typed, err := admin.IsTyped(q.db, o.key); typed || err != nil {
		if err != nil {
			return err
		}
		return problemf(misfit, "the map %q holds values of a type, which are JSON of at most %d bytes", o.name, q.maxBody)
	}
	if err := admin.DeclareMap(q.db, o.name); err != nil {
		return err
	}
	w, err := admin.Create(q.r.Context(), q.db, o.key)
	if err != nil {
		return err
	}
	defer w.Close()
	if _, err := w.Write(*q.buf); err != nil {
		return err
	}
	for more := true; more; {
		*q.buf = (*q.buf)[:0]
		all, err := q.read(body, sentBytes)
		if err != nil {
			return err
		}
		if _, err := w.Write(*q.buf); err != nil {
			return err
		}
		more = !all
	}
	if err := q.headers(o); err != nil { // again: the rest has taken its time
		return err
	}
	existed := false
	seq, err := w.Commit(d, func(tx *copal.Tx) (admin.Entry, error) {
		now, err := seqIn(tx, o.key)
		if existed = now != 0; isCollection(err) && o.replaces() {
			existed, err = true, nil
		}
		if err == nil {
			err = o.conditions.hold(now)
		}
		return admin.Entry{Content: o.content, Expires: o.expires}, err
	})
	if err != nil {
		return err
	}
	q.w.Header()["Etag"] = []string{etag(seq)}
	q.status(created(existed))
	return nil
}

// created is the status of a write that has put an entry where there was one, or none.
func created(existed bool) int {
	if existed {
		return http.StatusNoContent
	}
	return http.StatusCreated
}

// seqIn is the number of the record of an entry, 0 if there is none.
func seqIn(tx *copal.Tx, key []byte) (seq uint64, err error) {
	err = admin.Look(tx, key, func(e *admin.Found) error {
		seq = e.Seq
		return nil
	})
	if isMissing(err) {
		err = nil
	}
	return seq, err
}

// delete answers DELETE of an entry.
func (q *request) delete() error {
	o := operation{does: "delete"}
	var err error
	if o.name, o.key, err = q.mapAndKey(); err != nil {
		return err
	}
	if err := q.headers(&o); err != nil {
		return err
	}
	return q.one(&o)
}

// patch answers PATCH of an entry: a merge patch, or another deadline.
func (q *request) patch() error {
	o := operation{does: "patch"}
	var err error
	if o.name, o.key, err = q.mapAndKey(); err != nil {
		return err
	}
	kind, err := contentType(q.r)
	if err != nil {
		return err
	}
	if kind != "" && kind != typeMerge && kind != typeJSON {
		q.w.Header().Set("Accept-Patch", typeMerge)
		return problemf(wrongType, "a patch of type %s; %s is taken", kind, typeMerge)
	}
	if o.value, err = q.whole(); err != nil {
		return err
	}
	if err := q.headers(&o); err != nil {
		return err
	}
	if len(o.value) == 0 {
		if o.redate = true; o.keep {
			return problemf(badRequest, "an empty patch; a deadline alone is changed by Copal-TTL or Copal-Expires")
		}
	} else if err := checkJSON(o.value); err != nil {
		return err
	}
	return q.one(&o)
}

// add answers POST of a counter.
func (q *request) add() error {
	o := operation{does: "add", by: 1}
	var err error
	if o.name, o.key, err = q.mapAndKey(); err != nil {
		return err
	}
	if err := q.headers(&o); err != nil {
		return err
	}
	if text := q.query("by"); text != "" {
		if o.by, err = strconv.ParseInt(text, 10, 64); err != nil {
			return problemf(badRequest, "by=%s is not a whole number of 64 bits", text)
		}
	}
	return q.one(&o)
}

// one carries out the one operation of a request.
func (q *request) one(o *operation) error {
	d, err := q.durableAs()
	if err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	key := q.r.Header.Get("Idempotency-Key")
	if key == "" && o.replaces() {
		return q.direct(o, d)
	}
	unchanged := uint64(0) // the number of the record of an entry that is left as it was
	reply := func(list []outcome) *reply {
		if unchanged = 0; list[0].Entry != nil {
			unchanged = list[0].Seq
		}
		out := &reply{Status: list[0].status}
		if out.Status == http.StatusOK {
			out.Type, out.Body = typeJSON, list[0].value
		}
		return out
	}
	return q.perform(d, key, []operation{*o}, reply, func(tx *copal.Tx) {
		if o.does != "delete" {
			q.w.Header()["Etag"] = []string{etag(cmp.Or(unchanged, admin.Written(tx, o.key)))}
		}
	})
}

// check refuses a value that is not of its content type.
func (o *operation) check() error {
	if o.does == "put" && isJSON(o.content) {
		return checkJSON(o.value)
	}
	return nil
}

// direct carries out a put or a delete that depends on nothing.
func (q *request) direct(o *operation, d copal.Durability) error {
	e := admin.Entry{Key: o.key, Value: o.value, Content: o.content, Expires: o.expires, Deleted: o.does == "delete"}
	done, err := q.write(o.name, &e, d)
	switch {
	case err != nil:
		return err
	case e.Deleted && !done.Existed:
		return copal.ErrNotFound
	case e.Deleted:
		q.status(http.StatusNoContent)
		return nil
	}
	q.w.Header()["Etag"] = []string{etag(done.Seq)}
	q.status(created(done.Existed))
	return nil
}

// write writes an entry of a map. The entry takes the map's form, and the map is declared.
func (q *request) write(name string, e *admin.Entry, d copal.Durability) (done admin.Result, err error) {
	if !e.Deleted {
		if err = admin.Fit(q.db, e); err == nil {
			err = admin.DeclareMap(q.db, name)
		}
		if err != nil {
			return done, err
		}
	}
	return admin.Write(q.db, e, d)
}

// putIn stores an entry in the form of its map, in a transaction.
func (q *request) putIn(tx *copal.Tx, e *admin.Entry) error {
	if err := admin.Fit(q.db, e); err != nil {
		return err
	}
	return admin.Put(tx, e)
}

// apply carries out an operation in a transaction.
func (q *request) apply(tx *copal.Tx, o *operation) (out outcome, err error) {
	if err := q.goOn(); err != nil {
		return out, err
	}
	var was admin.Entry
	var value []byte
	exists := true
	wants := o.does == "get" || o.does == "add" || o.does == "patch" && !o.redate
	err = admin.Look(tx, o.key, func(e *admin.Found) (err error) {
		was = e.Entry
		was.Value = nil
		if wants && e.Large > 0 {
			return problemf(tooLarge, "the value has %d bytes; the limit here is %d", e.Large, heldBytes)
		}
		if wants {
			value, err = e.AppendShown(nil, q.db)
		}
		return err
	})
	switch {
	case isMissing(err):
		exists, err = false, nil
	case isCollection(err) && o.replaces():
		err = nil
	}
	if err == nil {
		err = o.holds(tx, exists, was.Seq)
	}
	if err != nil {
		return out, err
	}
	now := admin.Entry{Key: o.key, Value: o.value, Content: o.content, Expires: o.expires}
	switch o.does {
	case "get", "delete":
		if !exists {
			return out, copal.ErrNotFound
		}
		if o.does == "get" {
			return outcome{http.StatusOK, found{Entry: &was, value: value}, value}, nil
		}
		now.Deleted = true
		return outcome{status: http.StatusNoContent}, admin.Put(tx, &now)
	case "put":
		return outcome{status: created(exists)}, q.putIn(tx, &now)
	case "add":
		if now.Value, err = added(value, exists, o.by); err != nil {
			return out, err
		}
	case "patch":
		switch {
		case o.redate && !exists:
			return out, copal.ErrNotFound
		case o.redate && o.keepsDeadline(&was):
			return outcome{status: http.StatusNoContent, found: found{Entry: &was}}, nil
		case o.redate && o.expires.IsZero():
			return outcome{status: http.StatusNoContent}, tx.Raw().Persist(o.key)
		case o.redate:
			return outcome{status: http.StatusNoContent}, tx.Raw().ExpireAt(o.key, o.expires)
		}
		if exists && checkJSON(value) != nil {
			return out, problemf(conflict, "the value is not JSON, so a merge patch cannot change it")
		}
		pieces := tally{q: q}
		now.Value, err = mergePatch(pieces.take, value, o.value)
		if pieces.free(); err != nil {
			return out, err
		}
	}
	if exists && o.keepsDeadline(&was) && (was.Content == "" || isJSON(was.Content)) && jsontext.Equal(value, now.Value) {
		if o.does == "add" {
			value = now.Value
		}
		return outcome{http.StatusOK, found{Entry: &was}, value}, nil
	}
	if now.Content = typeJSON; exists && isJSON(was.Content) {
		now.Content = was.Content
	}
	if o.keep {
		now.Expires = was.Expires
	}
	out = outcome{status: http.StatusOK, value: now.Value}
	return out, q.putIn(tx, &now)
}

// keepsDeadline reports whether the operation leaves the deadline of an entry.
func (o *operation) keepsDeadline(was *admin.Entry) bool {
	if o.keep || o.expires.IsZero() || was.Expires.IsZero() {
		return o.keep || o.expires.Equal(was.Expires)
	}
	return o.expires.Add(time.Millisecond-1).UnixMilli() == was.Expires.UnixMilli()
}

// replaces reports whether the operation replaces any entry, a collection, too.
func (o *operation) replaces() bool {
	return !o.conditions.given() && (o.does == "put" || o.does == "delete")
}

// holds checks the conditions of an operation. An entry that the transaction has written itself has no number yet.
func (o *operation) holds(tx *copal.Tx, exists bool, seq uint64) error {
	if exists && seq == 0 {
		if o.conditions.match.given && !o.conditions.match.any || o.conditions.none.given && o.conditions.none.any {
			return problemf(failed, "an operation before it has written the entry")
		}
		return nil
	}
	return o.conditions.hold(seq)
}

// added is the text of a counter that is added to. One that is not there is 0.
func added(value []byte, exists bool, by int64) ([]byte, error) {
	n := int64(0)
	if exists {
		if value = bytes.TrimSpace(value); len(value) > len("-9223372036854775808") {
			return nil, problemf(conflict, "the value is not a whole number of 64 bits")
		}
		if err := json.Unmarshal(value, &n); err != nil || string(value) == "null" {
			return nil, problemf(conflict, "the value is not a whole number of 64 bits")
		}
	}
	if sum := n + by; (sum > n) == (by > 0) || by == 0 {
		return strconv.AppendInt(nil, sum, 10), nil
	}
	return nil, problemf(conflict, "%d plus %d exceeds 64 bits", n, by)
}
