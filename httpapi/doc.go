// Package httpapi serves a store by HTTP: its maps to programs and dashboards, its changes as they come, and items to
// whoever has curl.
//
//	db, err := copal.Open("app.db")
//	http.Handle("/", httpapi.Handler(db))
//
// The entry "alice" of the map "users" is /v1/maps/users/alice, its value shown as copal.Raw.Get shows it.
//
// docs/http.md has the routes.
package httpapi
