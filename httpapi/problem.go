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

// Page is the address of the page that explains the types of problems, each under its own heading.
const Page = "https://github.com/copaldb/copal/blob/main/docs/http.md"

// kind is a kind of problem: a heading of the page.
type kind struct {
	slug   string
	status int
	title  string
	means  string // on the page
}

// The kinds of problems: the slug, status, title and text of a heading of docs/http.md, which
// TestManual writes from them.
var (
	badRequest   = &kind{"bad-request", 400, "Bad request", "A parameter, a header or the body is malformed. The detail names it. Change the request."}
	unauthorized = &kind{"unauthorized", 401, "Token required", "The server identifies users by tokens or a password. Send one by `Authorization: Bearer`, or as the password of Basic."}
	forbidden    = &kind{"forbidden", 403, "Not allowed", "The user has no right to read or write the map, the store was opened read-only, or a page of another origin tried to write."}
	notFound     = &kind{"not-found", 404, "Not found", "The key has no entry, or the route does not exist."}
	notAllowed   = &kind{"method-not-allowed", 405, "Method not allowed", "`Allow` lists the methods of the route."}
	conflict     = &kind{"conflict", 409, "Conflict with the entry", "The key holds a collection, which this route does not read, and does not replace under a condition; or the value is no whole number, and the request adds to it."}
	gone         = &kind{"gone", 410, "The past is gone", "The log no longer has the moment, or the changes since it. A reader of changes lists everything again, and continues from the `Copal-Seq` of that answer. `copal serve --history` keeps more of the past."}
	failed       = &kind{"precondition-failed", 412, "Condition failed", "`If-Match` or `If-None-Match` does not hold. Nothing was written. Read the entry again before another attempt."}
	tooLarge     = &kind{"too-large", 413, "Request too large", "A key, a value or a body is longer than the limit in the detail."}
	wrongType    = &kind{"unsupported-type", 415, "Content type not supported", "The route does not take the type or the encoding of the body."}
	badRange     = &kind{"range-not-satisfiable", 416, "No such range", "`Content-Range` has the length of the value."}
	misfit       = &kind{"does-not-fit", 422, "Value does not fit", "The value or the key is not of the type of the map, or a field of the request has the wrong type. `field` names the field, if it is known."}
	keyReused    = &kind{"idempotency-key-reused", 422, "Idempotency-Key already used", "Another request was carried out with the same `Idempotency-Key`. Give each request a key of its own."}
	tooMany      = &kind{"too-many-requests", 429, "Too many requests", "The address sent many wrong tokens, and this one was not checked; or the user has the most answers that are kept for an `Idempotency-Key`. Nothing was written. `Retry-After` has the seconds until the next attempt."}
	internal     = &kind{"internal", 500, "Server error", "The detail has the error, and so has the log of the server. `copal check` finds damage to files of the store."}
	unavailable  = &kind{"unavailable", 503, "Not available now", "The store is closing, or refuses writes after a disk error; the process lacks descriptors or the right to the files; or the server is at a limit. The detail has the reason. `Retry-After` has the seconds until the next attempt."}
	full         = &kind{"no-space", 507, "Disk full", "Nothing was written. Writes succeed again when there is room."}
)

// kinds are all of them, in the order of the page.
var kinds = []*kind{badRequest, unauthorized, forbidden, notFound, notAllowed, conflict, gone, failed, tooLarge, wrongType, badRange, misfit, keyReused, tooMany, internal, unavailable, full}

// problem is an error in the form of RFC 9457.
type problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail,omitempty"`
	Field     string `json:"field,omitempty"`     // of the value that does not fit
	Operation *int   `json:"operation,omitempty"` // of a transaction, from 0

	kind  *kind
	usual bool // no failure of the server
	after int  // seconds after which the client may ask again, 0 for retryAfter
}

// exhausted is the problem of a user that has used up its share of something.
func exhausted(seconds int, format string, args ...any) *problem {
	p := problemf(tooMany, format, args...)
	p.after = seconds
	return p
}

// busy is the problem of a request that exceeds a limit that all requests share.
func busy(format string, args ...any) *problem {
	p := problemf(unavailable, format, args...)
	p.usual = true
	return p
}

func problemf(k *kind, format string, args ...any) *problem {
	return &problem{Type: Page + "#" + k.slug, Title: k.title, Status: k.status, Detail: fmt.Sprintf(format, args...), kind: k}
}

func (p *problem) Error() string { return p.Title + ": " + p.Detail }

// problemOf returns the problem that a client gets for an error.
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
	case errors.Is(err, admin.ErrBound):
		return problemf(badRequest, "%s", plain(err))
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

// retryAfter is the number of seconds after which a client may ask again.
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
