// Package httpapi serves a store by HTTP: entries, listings, transactions, streams of changes,
// metrics, and items for use with curl.
//
//	db, err := copal.Open("app.db")
//	http.Handle("/", httpapi.Handler(db))
//
// The entry "alice" of the map "users" is /v1/maps/users/alice, with the value that copal.Raw.Get returns.
//
// docs/http.md has the routes.
package httpapi
