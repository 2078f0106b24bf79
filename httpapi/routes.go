package httpapi

import "strings"

// route is a row of the table of routes. The handler, the manual of GET / and the tables of docs/http.md are made of
// these rows.
type route struct {
	group  string
	method string // GET is HEAD, too
	path   string
	does   string
	takes  []string // parameters of the query, and headers beside those that all routes have
	status []int    // when it succeeds, and problems of its own
	run    func(*request) error
	needs  right
}

// patterns are those of the ServeMux. An entry whose key no path can have, because it is empty, a dot, two dots or
// "changes", is named by the query of the path that ends with a slash.
func (r *route) patterns() []string {
	switch {
	case r.path == "/":
		return []string{"/{$}"}
	case strings.HasSuffix(r.path, "/{key}"):
		return []string{r.path, strings.TrimSuffix(r.path, "{key}") + "{$}"}
	case strings.HasSuffix(r.path, "/{id}"):
		return []string{r.path, strings.TrimSuffix(r.path, "{id}") + "{$}"}
	}
	return []string{r.path}
}

// Parameters and headers of several routes.
var (
	ofOneEntry  = []string{"If-Match", "If-None-Match", "Copal-TTL", "Copal-Expires", "Copal-Durability", "Idempotency-Key"}
	ofWrites    = append(ofOneEntry[:len(ofOneEntry):len(ofOneEntry)], "?key=")
	ofSelection = []string{"?prefix=", "?from=", "?to="}
)

var routes []route

func init() {
	routes = []route{
		{"Entries", "GET", "/v1/maps/{map}/{key}", "Returns the value of an entry.",
			[]string{"If-Match", "If-None-Match", "Range", "If-Range", "?at=", "?key="}, []int{200, 206, 304, 404, 409, 410, 412, 416, 422}, (*request).get, reads},
		{"Entries", "PUT", "/v1/maps/{map}/{key}", "Puts a value, of any type and length.",
			append([]string{"Content-Type"}, ofWrites...), []int{201, 204, 409, 412, 413, 415, 422}, (*request).put, writes},
		{"Entries", "PATCH", "/v1/maps/{map}/{key}", "Changes a JSON value by a merge patch (RFC 7396), or only the deadline if the body is empty.",
			ofWrites, []int{200, 204, 404, 409, 412, 413, 415, 422}, (*request).patch, writes},
		{"Entries", "DELETE", "/v1/maps/{map}/{key}", "Deletes an entry.",
			[]string{"If-Match", "If-None-Match", "Copal-Durability", "Idempotency-Key", "?key="}, []int{204, 404, 409, 412, 422}, (*request).delete, writes},
		{"Entries", "POST", "/v1/maps/{map}/{key}/add", "Adds to a whole number, 0 if there is none, and returns the sum.",
			append([]string{"?by="}, ofOneEntry...), []int{200, 409, 412, 422}, (*request).add, writes},
		{"Maps", "GET", "/v1/maps", "Lists the maps.", nil, []int{200}, (*request).maps, known},
		{"Maps", "GET", "/v1/maps/{map}", "Lists entries in the order of their keys: a page of JSON or, with Accept: application/x-ndjson, all entries as lines.",
			append(ofSelection[:3:3], "?where=", "?reverse=", "?limit=", "?cursor=", "?at="), []int{200, 410}, (*request).list, reads},
		{"Maps", "POST", "/v1/maps/{map}", "Puts the entries of lines of JSON.", []string{"Content-Type", "Copal-Durability"}, []int{200, 413, 415}, (*request).bulk, writes},
		{"Maps", "DELETE", "/v1/maps/{map}", "Deletes the entries with a prefix or in a range, or all entries with all=true.",
			append(ofSelection[:3:3], "?all=", "Copal-Durability"), []int{204}, (*request).deleteRange, writes},
		{"Transactions", "POST", "/v1/tx", "Carries out several operations, all or none.", []string{"Copal-Durability", "Idempotency-Key"}, []int{200, 404, 409, 412, 413, 415, 422}, (*request).transact, itself},
		{"Changes", "GET", "/v1/changes", "Sends all changes as they come.", []string{"?since=", "Last-Event-ID", "Accept"}, []int{200, 410}, (*request).changes, reads},
		{"Changes", "GET", "/v1/maps/{map}/changes", "Sends the changes of a map as they come.", []string{"?prefix=", "?since=", "Last-Event-ID", "Accept"}, []int{200, 410}, (*request).changes, reads},
		{"Items", "GET", "/", "Returns a short manual.", nil, []int{200}, (*request).help, known},
		{"Items", "PUT", "/items", `Puts an item: {"id":…,"value":…}.`, []string{"Content-Type", "Copal-Durability"}, []int{201, 413, 415, 422}, (*request).putItem, writes},
		{"Items", "GET", "/items", "Returns all items.", nil, []int{200}, (*request).listItems, reads},
		{"Items", "GET", "/items/{id}", `Returns an item: {"id":…,"value":…,"age":…}, the age in seconds.`, []string{"?id="}, []int{200, 404, 409}, (*request).getItem, reads},
		{"Items", "DELETE", "/items/{id}", "Deletes an item.", []string{"Copal-Durability", "?id="}, []int{200, 404}, (*request).deleteItem, writes},
		{"Items", "DELETE", "/items", "Deletes all items.", []string{"Copal-Durability"}, []int{200}, (*request).deleteItems, writes},
		{"Operations", "GET", "/livez", "Reports that the server runs. Needs no token.", nil, []int{200}, (*request).alive, anybody},
		{"Operations", "GET", "/readyz", "Reports whether the store takes writes and the server takes requests. Needs no token.", nil, []int{200, 503}, (*request).ready, anybody},
		{"Operations", "GET", "/healthz", "Same as `/readyz`.", nil, []int{200, 503}, (*request).ready, anybody},
		{"Operations", "GET", "/metrics", "Returns metrics in the text format of Prometheus.", nil, []int{200}, (*request).metrics, known},
		{"Operations", "GET", "/openapi.json", "Returns an OpenAPI 3.1 description of the routes, and of the types of all maps.", nil, []int{200}, (*request).openAPI, known},
		{"Operations", "GET", "/version", "Returns the version of the server.", nil, []int{200}, (*request).version, known},
	}
}
