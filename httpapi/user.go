package httpapi

import (
	"github.com/copaldb/copal"
)

// right is a right that the user of a request needs.
type right uint8

const (
	anybody right = iota // no token
	known                // to be known
	itself               // is looked at by the route itself
	reads                // to read the map: the one in the path, the items, or all maps if the route names none
	writes
)

var errUnknown = problemf(unauthorized, "the token is missing, or belongs to no user")

// mayDo refuses requests that the user has no right to.
func (q *request) mayDo(r *route) error {
	switch {
	case r.needs == anybody, q.grant.MayAdminister():
		return nil
	case q.grant == nil:
		return errUnknown
	case r.needs < reads:
		return nil
	case r.group == "Items":
		return q.may(r.needs, items)
	}
	return q.may(r.needs, q.r.PathValue("map"))
}

// may refuses to read or to write a map, "" for all of them.
func (q *request) may(need right, name string) error {
	var prefix []byte
	of := "all maps"
	if name != "" {
		prefix, of = copal.MapPrefix(name), "the map "+name
	}
	switch {
	case need == reads && !q.grant.MayRead(prefix):
		return problemf(forbidden, "%s has no right to read %s", q.grant.Name(), of)
	case need == writes && !q.grant.MayWrite(prefix):
		return problemf(forbidden, "%s has no right to write %s", q.grant.Name(), of)
	}
	return nil
}

// isRevoked reports whether the user has got other rights since the request began: then streams, listings and bodies
// end. A probe, which anybody may send, goes on.
func (q *request) isRevoked() bool { return q.grant != nil && q.grant.Revoked().Err() != nil }
