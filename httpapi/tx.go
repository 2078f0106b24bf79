package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/jsontext"
	"github.com/copaldb/copal/internal/ndjson"
)

// reply is an answer that can be given again.
type reply struct {
	Request string `json:"request"` // a sum of the request
	Status  int    `json:"status"`
	Type    string `json:"type,omitempty"`
	Body    []byte `json:"body,omitempty"`
}

func isMissing(err error) bool { return errors.Is(err, copal.ErrNotFound) }

// replies is the map of the answers to requests with an Idempotency-Key, where there are no users. Each user has a map
// of its own, such as http:replies:alice: the number of its entries is the user's share.
const replies = "http:replies"

// Limits of the answers that are kept. An answer is never removed before its time: a request that came again would be
// carried out twice. So a user with as many as mostReplies is refused, unless it may write everything.
const (
	repliesStay = 24 * time.Hour
	mostReplies = 1_000_000
	mostAnswer  = 64 << 10 // bytes
	replyWait   = 60       // seconds after which a refused request may come again
)

// repliesOf is the name of the map of a user's answers.
func repliesOf(user string) string {
	if user == "" {
		return replies
	}
	return replies + ":" + user
}

// outcomeBytes is the memory that a byte of an outcome takes: in the value, in the record and in the answer.
const outcomeBytes = 3

// perform carries out operations in one transaction, all or none. Its reply is made of the outcomes by answer.
// With a key, the answer is an entry that the transaction writes with the others: so a request that comes again is
// answered from it, and one that comes at the same time conflicts with the first. written is called when the
// transaction has committed, before the answer.
func (q *request) perform(d copal.Durability, key string, list []operation, answer func([]outcome) *reply, written func(tx *copal.Tx)) error {
	if !slices.ContainsFunc(list, func(o operation) bool { return o.does != "get" }) {
		key = "" // reads may be done twice
	}
	entry, sum, err := q.replyKey(key, list)
	if err != nil {
		return err
	}
	full := false // before the transaction, which may hold locks of keys
	if key != "" {
		if full, err = q.hasAllReplies(); err != nil {
			return err
		}
	}
	for i := range list {
		if list[i].does != "get" && list[i].does != "delete" {
			if err := admin.DeclareMap(q.db, list[i].name); err != nil {
				return err
			}
		}
	}
	var last *copal.Tx
	var out *reply
	again := false
	var held buffer // of the outcomes, and of the records of the transaction
	err = q.update(d, func(tx *copal.Tx) error {
		last, out, again = tx, nil, false
		if key != "" {
			var err error
			if out, err = replyIn(tx, entry, sum); err != nil || out != nil {
				again = out != nil
				return err
			}
			if full {
				return exhausted(replyWait, "%s has %d answers that are kept for an Idempotency-Key, each for %v", q.grant.Name(), q.most, repliesStay)
			}
		}
		outcomes, size := make([]outcome, len(list)), int64(0)
		for i := range list {
			var err error
			if outcomes[i], err = q.apply(tx, &list[i]); err != nil {
				if len(list) > 1 || q.r.PathValue("key") == "" {
					return inOperation(i, err)
				}
				return err
			}
			if size += int64(len(outcomes[i].value)); size > q.maxBody {
				return problemf(tooLarge, "an answer of more than %d bytes", q.maxBody)
			}
			if err := held.holds(q, int(outcomeBytes*size)); err != nil {
				return err
			}
		}
		out = answer(outcomes)
		if key == "" {
			return nil
		}
		out.Request = sum
		text, err := json.Marshal(out)
		if err != nil {
			return err
		}
		if len(text) > mostAnswer {
			return problemf(tooLarge, "an answer of more than %d bytes is not kept for an Idempotency-Key", mostAnswer)
		}
		return admin.Put(tx, &admin.Entry{Key: entry, Value: text, Content: typeJSON, Expires: time.Now().Add(repliesStay)})
	})
	if err != nil {
		return err
	}
	h := q.w.Header()
	if again {
		h.Set("Idempotency-Replayed", "true")
	} else {
		written(last)
	}
	if out.Type != "" {
		h.Set("Content-Type", out.Type)
		h.Set("Content-Length", strconv.Itoa(len(out.Body)))
	}
	if q.status(out.Status); len(out.Body) == 0 {
		return nil
	}
	_, err = q.w.Write(out.Body)
	return gaveUp(err)
}

// inOperation is the problem of one operation of several.
func inOperation(i int, err error) error {
	if unwrapped := problemOf(err); unwrapped.Status < http.StatusInternalServerError {
		p := *unwrapped
		p.Operation = &i
		return &p
	}
	return err
}

// mostReplyKey is how long an Idempotency-Key may be.
const mostReplyKey = 255

// replyKey returns the key of the answer to a request, and a sum that distinguishes the request from others.
func (q *request) replyKey(key string, list []operation) (entry []byte, sum string, err error) {
	if key == "" {
		return nil, "", nil
	}
	if len(key) > mostReplyKey {
		return nil, "", problemf(badRequest, "an Idempotency-Key of %d characters; the limit is %d", len(key), mostReplyKey)
	}
	entry = append(copal.MapPrefix(repliesOf(q.grant.Name())), key...)
	of := sha256.New()
	fmt.Fprintf(of, "%s %s\n", q.r.Method, q.r.URL.Path)
	for i := range list {
		o := &list[i]
		fmt.Fprintf(of, "%s %q %q %q %d %v %q\n", o.does, o.key, o.value, o.content, o.by, o.conditions, o.life)
	}
	return entry, hex.EncodeToString(of.Sum(nil)), nil
}

// hasAllReplies reports whether the user has all the answers that may be kept for it.
func (q *request) hasAllReplies() (bool, error) {
	name := repliesOf(q.grant.Name())
	if err := admin.DeclareMap(q.db, name); err != nil { // which makes the count immediate
		return false, err
	}
	n, err := admin.Len(q.db, copal.MapPrefix(name))
	return n >= q.most && !q.grant.MayAdminister(), err
}

// replyIn is the answer that a request has had, nil for none.
func replyIn(tx *copal.Tx, entry []byte, sum string) (out *reply, err error) {
	err = admin.Look(tx, entry, func(e *admin.Found) error {
		out = &reply{}
		if json.Unmarshal(e.Value, out) != nil {
			return problemf(conflict, "the entry %q is not an answer", entry)
		}
		return nil
	})
	switch {
	case isMissing(err):
		return nil, nil
	case err != nil:
		return nil, err
	case out.Request != sum:
		return nil, problemf(keyReused, "the key was used for another request within the last %v", repliesStay)
	}
	return out, nil
}

// operationBytes is about the memory that an operation takes beside its value.
const operationBytes = 1 << 10

// mostOperations is how many operations a transaction may have.
const mostOperations = 10_000

// transact answers POST of a transaction.
func (q *request) transact() error {
	kind, err := contentType(q.r)
	switch {
	case err != nil:
		return err
	case kind != "" && kind != typeJSON:
		return problemf(wrongType, "a transaction of type %s; %s is taken", kind, typeJSON)
	}
	d, err := q.durableAs()
	if err != nil {
		return err
	}
	text, err := q.whole()
	if err != nil {
		return err
	}
	pieces := tally{q: q}
	list, err := parseOperations(pieces.take, text)
	if err != nil {
		return err
	}
	for i := range list {
		need := writes
		if list[i].does == "get" {
			need = reads
		}
		if err := q.may(need, list[i].name); err != nil {
			return inOperation(i, err)
		}
		if err := list[i].check(); err != nil {
			return inOperation(i, err)
		}
	}
	answer := func(outcomes []outcome) *reply {
		body := []byte(`{"results":[`)
		for i := range outcomes {
			if i > 0 {
				body = append(body, ',')
			}
			body = outcomes[i].appendJSON(body, list[i].does)
		}
		return &reply{Status: http.StatusOK, Type: typeJSON, Body: append(body, "]}\n"...)}
	}
	return q.perform(d, q.r.Header.Get("Idempotency-Key"), list, answer, func(*copal.Tx) {})
}

// appendJSON appends the outcome in the form of an answer to a transaction.
func (o *outcome) appendJSON(dst []byte, does string) []byte {
	dst = strconv.AppendInt(append(dst, `{"status":`...), int64(o.status), 10)
	if o.status != http.StatusOK {
		return append(dst, '}')
	}
	if does == "get" && o.Seq != 0 {
		dst = jsontext.AppendString(append(dst, `,"etag":`...), etag(o.Seq))
	}
	return append(ndjson.AppendValue(append(dst, ','), o.value), '}')
}

// parseOperations reads the body of a transaction, which is not to change as long as the operations are there. take
// counts their memory.
func parseOperations(take func(int64) error, text []byte) (list []operation, err error) {
	if err := checkJSON(text); err != nil {
		return nil, err
	}
	var operations []byte
	wrong := problemf(badRequest, `a transaction is {"operations":[…]}, and has no other fields`)
	err = jsontext.EachField(text, func(name string, value []byte) error {
		if name != "operations" {
			return wrong
		}
		operations = value
		return nil
	})
	if err != nil || operations == nil {
		return nil, wrong
	}
	// The text is JSON, so the one error is another type.
	in := json.NewDecoder(bytes.NewReader(operations))
	if first, err := in.Token(); err != nil || first != json.Delim('[') || !in.More() {
		return nil, problemf(badRequest, `"operations" is a list of at least one`)
	}
	if err := take(int64(len(text))); err != nil { // which the decoder copies
		return nil, err
	}
	for i := 0; in.More(); i++ {
		if err := take(operationBytes); err != nil {
			return nil, err
		}
		if i == mostOperations {
			return nil, problemf(tooLarge, "there are more operations than %d", mostOperations)
		}
		var text json.RawMessage
		if err := in.Decode(&text); err != nil {
			return nil, err
		}
		o, err := parseOperation(text)
		if err != nil {
			return nil, inOperation(i, err)
		}
		list = append(list, o)
	}
	return list, nil
}

// mostFields is more than an operation may have.
const mostFields = 32

// fieldsOf are the fields that an operation may have beside op, map and key.
var fieldsOf = map[string][]string{
	"get":    {"if_match", "if_none_match"},
	"put":    {"if_match", "if_none_match", "value", "text", "base64", "content", "ttl", "expires"},
	"patch":  {"if_match", "if_none_match", "value", "ttl", "expires"},
	"add":    {"if_match", "if_none_match", "by", "ttl", "expires"},
	"delete": {"if_match", "if_none_match"},
}

func parseOperation(text []byte) (o operation, err error) {
	if len(text) == 0 || text[0] != '{' {
		return o, problemf(badRequest, "an operation is an object")
	}
	fields := map[string][]byte{}
	err = jsontext.EachField(text, func(name string, value []byte) error {
		if fields[name] = value; len(fields) > mostFields {
			return problemf(badRequest, "an operation has unknown fields")
		}
		return nil
	})
	var p *problem
	if err != nil && !errors.As(err, &p) {
		err = problemf(badRequest, "a JSON object: %v", err)
	}
	if err != nil {
		return o, err
	}
	// word takes the string of a field, "" if it is not there.
	word := func(name string) (text string) {
		if value, is := fields[name]; is && err == nil {
			if text, err = jsontext.Unquote(value); err != nil {
				err = problemf(badRequest, "%q: %v", name, err)
			}
		}
		delete(fields, name)
		return text
	}
	o.does, o.by = word("op"), 1
	known, is := fieldsOf[o.does]
	if err == nil && !is {
		return o, problemf(badRequest, `"op" is get, put, patch, add or delete, and not %q`, o.does)
	}
	if _, is := fields["key"]; !is && err == nil {
		return o, problemf(badRequest, `there is no "key"`)
	}
	own, errKey := parseName(fields["key"])
	delete(fields, "key")
	o.name = word("map")
	if err == nil {
		err = errKey
	}
	if err == nil {
		o.key, err = wholeKey(o.name, string(own))
	}
	if err != nil {
		return o, err
	}
	for name := range fields {
		if !slices.Contains(known, name) {
			return o, problemf(badRequest, "%s has no field %q", o.does, name)
		}
	}
	if err := o.parseValue(fields); err != nil {
		return o, err
	}
	if by, is := fields["by"]; is {
		if o.by, err = strconv.ParseInt(string(by), 10, 64); err != nil {
			return o, problemf(badRequest, `"by" is not a whole number of 64 bits`)
		}
	}
	if ttl := fields["ttl"]; len(ttl) > 0 && ttl[0] != '"' { // a number of seconds
		fields["ttl"] = jsontext.AppendString(nil, string(ttl))
	}
	said := word("content")
	if err == nil {
		o.content, err = keptType(said)
	}
	if o.does == "put" && o.content == "" {
		if o.content = typeBytes; json.Valid(o.value) {
			o.content = typeJSON
		}
	}
	header := http.Header{}
	for field, name := range map[string]string{"if_match": "If-Match", "if_none_match": "If-None-Match"} {
		if _, is := fields[field]; is {
			header.Set(name, word(field))
		}
	}
	ttl, expires := word("ttl"), word("expires")
	if err != nil {
		return o, err
	}
	if o.conditions, err = conditionsOf(header); err == nil {
		err = o.lives(ttl, expires)
	}
	return o, err
}

// parseValue reads the value of a put or a patch, in one of the forms of an export.
func (o *operation) parseValue(fields map[string][]byte) (err error) {
	n := 0
	for _, form := range []string{"value", "text", "base64"} {
		value, is := fields[form]
		if !is {
			continue
		}
		n++
		if form == "value" {
			o.value = value
			continue
		}
		text, err := jsontext.Unquote(value)
		if err == nil && form == "text" {
			o.value = []byte(text)
		} else if err == nil {
			o.value, err = base64.StdEncoding.DecodeString(text)
		}
		if err != nil {
			return problemf(badRequest, "%q: %v", form, err)
		}
	}
	switch {
	case o.does == "put" && n != 1:
		return problemf(badRequest, `put has one of "value", "text" and "base64"`)
	case o.does == "patch" && n == 0:
		if o.redate = true; fields["ttl"] == nil && fields["expires"] == nil {
			return problemf(badRequest, `patch has a "value", or a deadline`)
		}
	}
	return nil
}

// parseName reads a key: a string, or {"base64":"…"}.
func parseName(text []byte) ([]byte, error) {
	name, err := ndjson.ParseKey(text)
	if err != nil {
		return nil, problemf(badRequest, `"key": %v`, err)
	}
	return name, nil
}
