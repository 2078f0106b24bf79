package httpapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strconv"
	"syscall"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

// Page is where the types of problems are explained, each under its own heading.
const Page = "https://github.com/copaldb/copal/blob/main/docs/http.md"

// kind is a kind of problem: a heading of the page.
type kind struct {
	slug   string
	status int
	title  string
	means  string // on the page
}

// The kinds of problems.
var (
	badRequest   = &kind{"bad-request", 400, "The request is not understood", "A parameter, a header or a body is not what it should be. The detail says which. Change the request."}
	unauthorized = &kind{"unauthorized", 401, "A token is wanted", "The server knows its users by tokens, or by a password. Send one of them by `Authorization: Bearer`, or as the password of Basic."}
	forbidden    = &kind{"forbidden", 403, "This is not allowed", "The user has no right to read or write the map, the store was opened for reading alone, or a page of another origin tried to write."}
	notFound     = &kind{"not-found", 404, "There is no such thing", "The key has no entry, or there is no such route."}
	notAllowed   = &kind{"method-not-allowed", 405, "This route has other methods", "`Allow` has the methods of the route."}
	conflict     = &kind{"conflict", 409, "Something else is there", "The key holds a collection, which is not read by this route, and not replaced under a condition; or a counter is to be added to what is no whole number."}
	gone         = &kind{"gone", 410, "The past is not kept", "The log does not have the moment, or the changes since it, any more. A reader of changes reads everything anew, and goes on from the `Copal-Seq` of that answer. More of the past is kept by `copal serve --history`."}
	failed       = &kind{"precondition-failed", 412, "The entry is not as expected", "`If-Match` or `If-None-Match` did not hold. Nothing was written. Read the entry again, and decide anew."}
	tooLarge     = &kind{"too-large", 413, "It is too large", "A key, a value or a body is longer than the limit that the detail names."}
	wrongType    = &kind{"unsupported-type", 415, "The content type is not taken", "The body is of a type, or has an encoding, that the route does not take."}
	badRange     = &kind{"range-not-satisfiable", 416, "The value has no such range", "`Content-Range` says how long the value is."}
	misfit       = &kind{"does-not-fit", 422, "The value does not fit", "The map holds values of a type, and this is none, or its keys are of another type, or a field of the request has the wrong type. `field` names it where it is known."}
	keyReused    = &kind{"idempotency-key-reused", 422, "The Idempotency-Key has been used", "Another request was carried out with the same `Idempotency-Key`. Give each request its own."}
	tooMany      = &kind{"too-many-requests", 429, "Too many requests", "Many wrong tokens came from the address, and this one was not checked; or as many answers are kept for the `Idempotency-Key`s of the user as a user may have. Nothing was written. `Retry-After` has the seconds until the next attempt."}
	internal     = &kind{"internal", 500, "The server failed", "The detail says how; the log of the server has it, too. Damage to a file of the store is found by `copal check`."}
	unavailable  = &kind{"unavailable", 503, "The server cannot do this now", "The store is being closed, or refuses writes after an error of the disk, or the process lacks descriptors or the right to the files, or too much is asked at a time. The detail has the reason. `Retry-After` says when to ask again, in seconds."}
	full         = &kind{"no-space", 507, "The disk is full", "The write did not happen. Writes succeed again when there is room."}
)

// kinds are all of them, in the order of the page.
var kinds = []*kind{badRequest, unauthorized, forbidden, notFound, notAllowed, conflict, gone, failed, tooLarge, wrongType, badRange, misfit, keyReused, tooMany, internal, unavailable, full}

// problem is an answer by RFC 9457.
type problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail,omitempty"`
	Field     string `json:"field,omitempty"`     // of the value that does not fit
	Operation *int   `json:"operation,omitempty"` // of a transaction, from 0

	kind  *kind
	usual bool // it is no failure of the server
	after int  // seconds after which the client may ask again, 0 for retryAfter
}

// exhausted is the problem of a user that has its share of something for some time.
func exhausted(seconds int, format string, args ...any) *problem {
	p := problemf(tooMany, format, args...)
	p.after = seconds
	return p
}

// busy is the problem of a request that comes while others have all there is of something.
func busy(format string, args ...any) *problem {
	p := problemf(unavailable, format, args...)
	p.usual = true
	return p
}

func problemf(k *kind, format string, args ...any) *problem {
	return &problem{Type: Page + "#" + k.slug, Title: k.title, Status: k.status, Detail: fmt.Sprintf(format, args...), kind: k}
}

func (p *problem) Error() string { return p.Title + ": " + p.Detail }

// problemOf is what an error is to a client.
func problemOf(err error) *problem {
	var p *problem
	var collection *copal.CollectionError
	var wrong *admin.MisfitError
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &collection):
		return problemf(conflict, "the key holds a %s", collection.Type)
	case errors.As(err, &long):
		return problemf(tooLarge, "a body of more than %d bytes", long.Limit)
	case errors.Is(err, copal.ErrNotFound):
		return problemf(notFound, "the key has no entry")
	case errors.Is(err, copal.ErrType):
		if !errors.As(err, &wrong) {
			return problemf(misfit, "%s", plain(err))
		}
		p = problemf(misfit, "%v", wrong.Err)
		p.Field = wrong.Field
		return p
	case errors.Is(err, copal.ErrTooLarge):
		return problemf(tooLarge, "%s", plain(err))
	case errors.Is(err, copal.ErrHistoryLost), errors.Is(err, copal.ErrSnapshotLost):
		return problemf(gone, "%s", plain(err))
	case errors.Is(err, copal.ErrNoSpace):
		return problemf(full, "%s", plain(err))
	case errors.Is(err, copal.ErrClosed):
		return problemf(unavailable, "the store is closed")
	case err == copal.ErrReadOnly:
		return problemf(forbidden, "%s", plain(err))
	case errors.Is(err, copal.ErrReadOnly), lacks(err):
		return problemf(unavailable, "%s", plain(err))
	}
	return problemf(internal, "%s", plain(err))
}

// lacks reports whether an error says that the process had no descriptor, or no right to the store's files. That
// passes: nothing has been attempted, and the store takes the next request.
func lacks(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, fs.ErrPermission)
}

// retryAfter is in how many seconds a client may ask again.
const retryAfter = 1

func (p *problem) write(w http.ResponseWriter, r *http.Request) {
	body, _ := json.Marshal(p) // of strings and numbers
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	h.Del("Etag")
	if p.kind == unauthorized {
		h.Set("WWW-Authenticate", `Basic realm="copal"`)
	}
	if p.kind == unavailable || p.kind == tooMany {
		h.Set("Retry-After", strconv.Itoa(cmp.Or(p.after, retryAfter)))
	}
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		w.Write(append(body, '\n'))
	}
}
