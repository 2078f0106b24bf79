package upkeep

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/httpapi"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/copying"
	"github.com/copaldb/copal/internal/typedoc"
)

// Schema has the flags of schema: the form of the output.
type Schema struct{ JSONSchema, Script, GoTypes, OpenAPI, JSON bool }

// Write prints the types of the maps that are named, or of all.
func (f *Schema) Write(a *cli.App, db *copal.DB, names []string, out *bufio.Writer) error {
	if f.OpenAPI && cli.IsFar(db) {
		return cli.UsageError("--openapi needs a directory: a copal serve has the description at its HTTP door, /openapi.json")
	}
	if f.OpenAPI {
		text, err := httpapi.OpenAPI(db)
		if err == nil {
			_, err = out.Write(text)
		}
		return err
	}
	types := typesIn
	if cli.IsFar(db) {
		types = func(db *copal.DB, names []string) (map[string][]admin.Type, error) { return typesFar(a, db, names) }
	}
	maps, err := typesOf(db, names, types)
	if err != nil {
		return err
	}
	switch {
	case f.JSON:
		return cli.WriteJSON(out, maps)
	case f.JSONSchema:
		return writeJSONSchema(out, maps)
	case f.Script:
		for _, m := range maps {
			fmt.Fprint(out, typedoc.TypeScript(m.typeName, m.forms))
		}
		return nil
	case f.GoTypes:
		return writeGo(out, maps)
	}
	for _, m := range maps {
		for _, t := range m.Types {
			fmt.Fprintf(out, "%s  %s  %s\n", cli.ShowKey([]byte(m.Name)), t.Codec, t.Schema)
		}
	}
	return nil
}

// typedMap is a map with the types of its values.
type typedMap struct {
	Name  string      `json:"name"`
	Types []typeOfMap `json:"types"`

	typeName string // which no other map has
	forms    []typedoc.Form
}

type typeOfMap struct {
	Codec  string `json:"codec"`
	Schema string `json:"schema"`
}

// typesOf returns the types of the maps that are named, or of all.
func typesOf(db *copal.DB, names []string, of func(*copal.DB, []string) (map[string][]admin.Type, error)) (list []*typedMap, err error) {
	all, err := of(db, names)
	if err != nil {
		return nil, err
	}
	list = []*typedMap{}
	namer := typedoc.Namer{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		types := all[name]
		m := &typedMap{Name: name, Types: []typeOfMap{}, typeName: namer.Name(name)}
		for _, t := range types {
			m.Types = append(m.Types, typeOfMap(t))
			if form, err := typedoc.FormOf(t.Codec, t.Schema); err == nil { // else the codec has a grammar of its own
				m.forms = append(m.forms, form)
			}
		}
		list = append(list, m)
	}
	if len(names) > 0 && len(list) == 0 {
		return nil, fmt.Errorf("%w: there is no map %q", copal.ErrNotFound, names[0])
	}
	return list, nil
}

// typesIn returns the types that the log has, by map.
func typesIn(db *copal.DB, names []string) (all map[string][]admin.Type, err error) {
	all = map[string][]admin.Type{}
	for name := range db.Maps() {
		if len(names) > 0 && name != names[0] {
			continue
		}
		if all[name], err = admin.Types(db, name); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// typesFar returns the types of the values that a server has, by map.
func typesFar(a *cli.App, db *copal.DB, names []string) (all map[string][]admin.Type, err error) {
	far, err := copying.Look(a.Ctx, db)
	if err != nil {
		return nil, err
	}
	defer far.Close()
	if !far.Typed() {
		return nil, cli.UsageError("schema needs a directory or a copal serve: this server keeps no types of values")
	}
	maps, err := far.Maps(a.Ctx)
	if err != nil {
		return nil, err
	}
	all = map[string][]admin.Type{}
	for _, name := range maps {
		if len(names) == 0 || name == names[0] {
			all[name] = nil
		}
	}
	var in cli.Span
	if len(names) > 0 {
		in = cli.PrefixSpan(copal.MapPrefix(names[0]))
	}
	for e, err := range far.Entries(in.From, in.To) {
		if err != nil {
			return nil, err
		}
		escaped, _, ok := strings.Cut(string(e.Key), ":")
		name, err := url.PathUnescape(escaped)
		if is := (admin.Type{Codec: e.Codec, Schema: e.Schema}); ok && err == nil && e.Codec != "" && !slices.Contains(all[name], is) {
			all[name] = append(all[name], is)
		}
	}
	return all, nil
}

func writeJSONSchema(out *bufio.Writer, maps []*typedMap) error {
	defs := map[string]any{}
	doc := map[string]any{"$schema": "https://json-schema.org/draft/2020-12/schema"}
	for _, m := range maps {
		schema := typedoc.JSONSchema(m.typeName, "#/$defs/", m.forms, defs)
		switch {
		case len(maps) == 1:
			for key, value := range schema.(map[string]any) {
				doc[key] = value
			}
		case defs[m.typeName] == nil: // else it is defined already
			defs[m.typeName] = schema
		}
	}
	if len(defs) > 0 {
		doc["$defs"] = defs
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", text)
	return err
}

func writeGo(out *bufio.Writer, maps []*typedMap) error {
	var b strings.Builder
	for _, m := range maps {
		b.WriteString(typedoc.Go(m.typeName, m.forms))
	}
	fmt.Fprint(out, "package stored\n\n")
	var imports []string
	for _, is := range []struct{ name, path string }{{"json.", "encoding/json"}, {"time.", "time"}} {
		if strings.Contains(b.String(), is.name) {
			imports = append(imports, fmt.Sprintf("import %q\n", is.path))
		}
	}
	if len(imports) > 0 {
		fmt.Fprintf(out, "%s\n", strings.Join(imports, ""))
	}
	_, err := fmt.Fprint(out, b.String())
	return err
}
