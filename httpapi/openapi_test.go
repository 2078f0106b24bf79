package httpapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

type tree struct {
	Value int8
	Left  *tree
	Marks map[string]float64
}

// The description has each route with each status, an operationId for each operation, the types of maps, and leads
// nowhere that is not in it.
func TestOpenAPI(t *testing.T) {
	p := newPeer(t)
	trees, err := copal.OpenMap[string, tree](p.db, "big trees")
	if err != nil {
		t.Fatal(err)
	}
	if err := trees.Set("a", tree{Left: &tree{}}); err != nil {
		t.Fatal(err)
	}
	numbers, err := copal.OpenMap[string, []uint32](p.db, "numbers", copal.WithCodec(codec.Binary))
	if err != nil {
		t.Fatal(err)
	}
	if err := numbers.Set("a", []uint32{1}); err != nil {
		t.Fatal(err)
	}
	p.want("PUT /v1/maps/raw/a\n\n1", `201`)
	text := p.do("GET /openapi.json", "Content-Type")
	text, ok := strings.CutPrefix(text, "200 Content-Type=application/json ")
	if !ok {
		t.Fatal(text)
	}
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			OperationID string
			Parameters  []struct{ Name, In string }
			Responses   map[string]any
		}
		Components struct{ Schemas map[string]json.RawMessage }
		Info       struct{ License struct{ Name string } }
		Servers    []struct{ URL string }
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.OpenAPI != "3.1.0" || doc.Info.License.Name == "" || len(doc.Servers) != 1 || doc.Servers[0].URL == "" {
		t.Errorf("%.300s", text)
	}
	for _, r := range routes {
		o, ok := doc.Paths[r.path][strings.ToLower(r.method)]
		if !ok {
			t.Errorf("there is no %s %s", r.method, r.path)
		}
		for _, status := range r.status {
			if o.Responses[fmt.Sprint(status)] == nil {
				t.Errorf("%s %s does not answer %d", r.method, r.path, status)
			}
		}
		within := 0
		for _, parameter := range o.Parameters {
			if parameter.In == "path" && strings.Contains(r.path, "{"+parameter.Name+"}") {
				within++
			}
		}
		if within != strings.Count(r.path, "{") {
			t.Errorf("%s %s has %d parameters in the path", r.method, r.path, within)
		}
	}
	seen := map[string]bool{}
	for path, methods := range doc.Paths {
		for method, o := range methods {
			if seen[o.OperationID] {
				t.Errorf("%s %s is named %s as another is", method, path, o.OperationID)
			}
			seen[o.OperationID] = true
		}
	}
	for _, path := range []string{"/v1/maps/big%20trees/{key}", "/v1/maps/numbers/{key}"} {
		if doc.Paths[path]["get"].OperationID == "" || doc.Paths[path]["put"].OperationID == "" {
			t.Errorf("nothing of %s", path)
		}
	}
	if doc.Paths["/v1/maps/raw/{key}"] != nil {
		t.Error("a map without a type has a path of its own")
	}
	for piece := range strings.SplitSeq(text, `"$ref":`) {
		name, ok := strings.CutPrefix(strings.TrimSpace(piece), `"#/components/schemas/`)
		if ok {
			name, _, _ = strings.Cut(name, `"`)
			if doc.Components.Schemas[name] == nil {
				t.Errorf("there is no schema %s", name)
			}
		}
	}
	if got := string(doc.Components.Schemas["BigTrees"]); !strings.Contains(got, `"$ref": "#/components/schemas/BigTrees"`) || !strings.Contains(got, `"minimum": -128`) {
		t.Error(got)
	}
}
