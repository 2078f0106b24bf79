package httpapi

import (
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/access"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/built"
	"github.com/copaldb/copal/internal/typedoc"
)

// OpenAPI describes the routes of a Handler, and the types that the maps of a store have now, by OpenAPI 3.1. It is
// the body of GET /openapi.json.
func OpenAPI(db *copal.DB) ([]byte, error) { return openAPI(db, access.Everything) }

// mostDescribed is how many maps have their types described.
const mostDescribed = 1000

// openAPI has the types of the maps that may be read.
func openAPI(db *copal.DB, g *access.Grant) ([]byte, error) {
	schemas := map[string]any{"Problem": problemSchema}
	paths := map[string]map[string]any{}
	for i := range routes {
		r := &routes[i]
		if paths[r.path] == nil {
			paths[r.path] = map[string]any{}
		}
		paths[r.path][strings.ToLower(r.method)] = r.operation()
	}
	namer, described := typedoc.Namer{"Problem": 1}, 0
	for name := range db.Maps() {
		if !g.MayRead(copal.MapPrefix(name)) {
			continue
		}
		types, err := admin.Types(db, name)
		if err != nil {
			return nil, err
		}
		var forms []typedoc.Form
		for _, t := range types {
			if form, err := typedoc.FormOf(t.Codec, t.Schema); err == nil {
				forms = append(forms, form)
			}
		}
		if len(forms) == 0 {
			continue
		}
		if described++; described > mostDescribed {
			break
		}
		typeName := namer.Name(name)
		if schema := typedoc.JSONSchema(typeName, "#/components/schemas/", forms, schemas); schemas[typeName] == nil {
			schemas[typeName] = schema
		}
		paths["/v1/maps/"+url.PathEscape(name)+"/{key}"] = ofMap(name, typeName)
	}
	text, err := json.MarshalIndent(map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{"title": "copal", "version": built.Read().Version, "description": "The HTTP interface of a store. The manual: " + Page,
			"license": map[string]any{"name": "MIT", "identifier": "MIT"}},
		"servers": []any{map[string]any{"url": "/"}}, // the one that has sent this
		"paths":   paths,
		"components": map[string]any{
			"schemas":         schemas,
			"securitySchemes": map[string]any{"bearer": map[string]any{"type": "http", "scheme": "bearer"}, "basic": map[string]any{"type": "http", "scheme": "basic"}},
		},
		"security": []any{map[string]any{}, map[string]any{"bearer": []string{}}, map[string]any{"basic": []string{}}},
	}, "", "  ")
	return append(text, '\n'), err
}

var problemSchema = map[string]any{
	"type": "object", "required": []string{"type", "title", "status"},
	"properties": map[string]any{
		"type": map[string]any{"type": "string", "format": "uri"}, "title": textSchema, "status": map[string]any{"type": "integer"}, "detail": textSchema,
		"field": textSchema, "operation": map[string]any{"type": "integer"},
	},
}

var textSchema = map[string]any{"type": "string"}

// ofMap are the operations on an entry of a map whose values have a type.
func ofMap(name, typeName string) map[string]any {
	list := map[string]any{}
	value := map[string]any{typeJSON: map[string]any{"schema": map[string]any{"$ref": "#/components/schemas/" + typeName}}}
	for i := range routes {
		r := &routes[i]
		if r.path != "/v1/maps/{map}/{key}" || r.method != http.MethodGet && r.method != http.MethodPut {
			continue
		}
		o := r.operation()
		o["operationId"] = strings.ToLower(r.method) + typeName
		o["summary"] = strings.TrimSuffix(r.does, ".") + ", of the map " + strconv.Quote(name) + "."
		var parameters []any
		for _, p := range o["parameters"].([]any) {
			if p.(map[string]any)["name"] != "map" {
				parameters = append(parameters, p)
			}
		}
		o["parameters"] = parameters
		if r.method == http.MethodPut {
			o["requestBody"] = map[string]any{"required": true, "content": value}
		} else {
			o["responses"].(map[string]any)["200"] = map[string]any{"description": http.StatusText(http.StatusOK), "content": value}
		}
		list[strings.ToLower(r.method)] = o
	}
	return list
}

// operation describes a route.
func (r *route) operation() map[string]any {
	parameters := []any{}
	for piece := range strings.SplitSeq(r.path, "/") {
		if name, ok := strings.CutPrefix(piece, "{"); ok {
			parameters = append(parameters, map[string]any{"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true, "schema": textSchema})
		}
	}
	for _, name := range r.takes {
		in := "header"
		if query, ok := strings.CutPrefix(name, "?"); ok {
			name, in = strings.TrimSuffix(query, "="), "query"
		} else if name == "Content-Type" || name == "Accept" {
			continue // which OpenAPI has elsewhere
		}
		schema := parameterSchemas[name]
		if schema == nil {
			schema = textSchema
		}
		p := map[string]any{"name": name, "in": in, "schema": schema}
		if name == "reverse" {
			p["allowEmptyValue"] = true // which is true
		}
		parameters = append(parameters, p)
	}
	responses := map[string]any{}
	for _, status := range r.statuses() {
		answer := map[string]any{"description": http.StatusText(status)}
		switch {
		case status >= 400:
			answer["content"] = problemContent
		case status == http.StatusOK || status == http.StatusPartialContent:
			answer["content"] = r.content()
		}
		responses[strconv.Itoa(status)] = answer
	}
	o := map[string]any{"operationId": r.operationID(), "summary": r.does, "tags": []string{r.group}, "parameters": parameters, "responses": responses}
	if r.method == http.MethodPut || r.method == http.MethodPatch || r.method == http.MethodPost && !strings.HasSuffix(r.path, "/add") {
		o["requestBody"] = map[string]any{"content": r.body()}
	}
	return o
}

// statuses are all that the route may answer.
func (r *route) statuses() []int {
	list := append(slices.Clone(r.status), http.StatusBadRequest, http.StatusForbidden, http.StatusInternalServerError, http.StatusServiceUnavailable)
	if r.needs != anybody {
		list = append(list, http.StatusUnauthorized)
	}
	if r.method == http.MethodGet {
		list = append(list, http.StatusRequestEntityTooLarge) // of an unexpected body
	}
	if r.needs == writes || r.needs == itself {
		list = append(list, http.StatusInsufficientStorage)
	}
	if strings.Contains(r.path, "{") {
		list = append(list, http.StatusNotFound, http.StatusRequestEntityTooLarge) // of a path that names nothing, and of a key
	}
	return list
}

var (
	numberSchema = map[string]any{"type": "integer", "minimum": 0, "maximum": int64(math.MaxInt64)}
	flagSchema   = map[string]any{"type": "boolean"}
	stateSchema  = map[string]any{"type": "string", "pattern": `^(\*|"[0-9]{1,18}")$`}
)

// parameterSchemas are those of parameters and headers that are more than text.
var parameterSchemas = map[string]any{
	"limit": map[string]any{"type": "integer", "minimum": 1, "maximum": mostPage}, "reverse": flagSchema, "all": flagSchema, "since": numberSchema, "Last-Event-ID": numberSchema,
	"by": map[string]any{"type": "integer"}, "at": map[string]any{"anyOf": []any{numberSchema, map[string]any{"type": "string", "format": "date-time"}}},
	"Copal-TTL": map[string]any{"type": "string", "pattern": "^[1-9][0-9]{0,6}(s|m|h)?$"}, "Copal-Expires": map[string]any{"type": "string", "format": "date-time"},
	"Copal-Durability": map[string]any{"enum": []string{"async", "write", "fsync"}},
	"If-Match":         stateSchema, "If-None-Match": stateSchema,
	"Idempotency-Key": map[string]any{"type": "string", "minLength": 1, "maxLength": mostReplyKey},
}

var problemContent = map[string]any{"application/problem+json": map[string]any{"schema": map[string]any{"$ref": "#/components/schemas/Problem"}}}

// operationID is a name for the operation, such as putV1MapsMapKey.
func (r *route) operationID() string { return strings.ToLower(r.method) + typedoc.TypeName(r.path) }

// content describes the answers of the route.
func (r *route) content() map[string]any {
	switch {
	case r.path == "/v1/maps/{map}/{key}" && r.method == http.MethodGet:
		return ofTypes("*/*")
	case r.path == "/v1/maps/{map}" && r.method == http.MethodGet:
		return ofTypes(typeJSON, typeLines)
	case r.group == "Changes":
		return ofTypes("text/event-stream", typeLines)
	case r.path == "/", r.path == "/metrics":
		return ofTypes("text/plain")
	}
	return ofTypes(typeJSON)
}

// body describes the body that the route takes.
func (r *route) body() map[string]any {
	content := ofTypes(typeJSON)
	switch {
	case r.path == "/v1/maps/{map}/{key}" && r.method == http.MethodPut:
		return ofTypes("*/*")
	case r.path == "/v1/maps/{map}":
		return ofTypes(typeLines)
	case r.path == "/items":
		content[typeJSON] = map[string]any{"schema": itemSchema}
	case r.path == "/v1/tx":
		content[typeJSON] = map[string]any{"schema": map[string]any{
			"type": "object", "required": []string{"operations"}, "additionalProperties": false,
			"properties": map[string]any{"operations": map[string]any{"type": "array", "minItems": 1, "maxItems": mostOperations, "items": operationSchema()}},
		}}
	}
	return content
}

var itemSchema = map[string]any{"type": "object", "required": []string{"id", "value"}, "properties": map[string]any{"id": textSchema, "value": map[string]any{}}}

// operationSchema is the schema of an operation of a transaction.
func operationSchema() map[string]any {
	schemas := map[string]any{
		"if_match": stateSchema, "if_none_match": stateSchema, "value": map[string]any{}, "text": textSchema,
		"base64": map[string]any{"type": "string", "contentEncoding": "base64"}, "content": textSchema, "by": parameterSchemas["by"],
		"ttl": parameterSchemas["Copal-TTL"], "expires": parameterSchemas["Copal-Expires"],
	}
	var list []any
	for _, does := range slices.Sorted(maps.Keys(fieldsOf)) {
		properties := map[string]any{"op": map[string]any{"const": does}, "map": map[string]any{"type": "string", "minLength": 1}, "key": textSchema}
		for _, name := range fieldsOf[does] {
			properties[name] = schemas[name]
		}
		list = append(list, map[string]any{"type": "object", "required": []string{"op", "map", "key"}, "additionalProperties": false, "properties": properties})
	}
	return map[string]any{"oneOf": list}
}

func ofTypes(list ...string) map[string]any {
	content := map[string]any{}
	for _, name := range list {
		content[name] = map[string]any{}
	}
	return content
}

// openAPI answers the description of the door.
func (q *request) openAPI() error {
	text, err := openAPI(q.db, q.grant)
	if err != nil {
		return err
	}
	return q.json(text)
}
