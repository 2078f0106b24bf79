package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/httpapi"
	"github.com/copaldb/copal/internal/copying"
	"github.com/copaldb/copal/internal/typedoc"
)

const schemaHelp = `Print the types of values that the log knows: of MAP, or of all maps. A map that was written by
several versions of a program has several, the newest first.

Other languages take them as JSON Schema (2020-12), as declarations of TypeScript or of Go, or in
the description of the HTTP door (OpenAPI 3.1). They describe a value as get shows it, as JSON.

Of a copal serve it reads the values, of MAP or all: the types are those of the values that are there,
and stand in the order of their keys, whatever their age. A Redis keeps no types.`

func newSchema(a *app) *cobra.Command {
	var asJSONSchema, asScript, asGo, asOpenAPI, asJSON bool
	cmd := &cobra.Command{
		Use:               "schema DIR [MAP]",
		Short:             "Print the types of values, for other languages",
		Long:              schemaHelp,
		Example:           "  copal schema app.db\n  copal schema app.db users --ts > users.ts\n  copal schema app.db --json-schema",
		Args:              arguments(1, 2),
		ValidArgsFunction: completeDir,
	}
	cmd.RunE = a.runs(func(args []string, out *bufio.Writer) error {
		return a.view(args[0], func(db *copal.DB) error {
			if asOpenAPI && isFar(db) {
				return usageError{"--openapi needs a directory: a copal serve has the description at its HTTP door, /openapi.json"}
			}
			if asOpenAPI {
				text, err := httpapi.OpenAPI(db)
				if err == nil {
					_, err = out.Write(text)
				}
				return err
			}
			types := typesIn
			if isFar(db) {
				types = a.typesFar
			}
			maps, err := typesOf(db, args[1:], types)
			if err != nil {
				return err
			}
			switch {
			case asJSON:
				return writeJSON(out, maps)
			case asJSONSchema:
				return writeJSONSchema(out, maps)
			case asScript:
				for _, m := range maps {
					fmt.Fprint(out, typedoc.TypeScript(m.typeName, m.forms))
				}
				return nil
			case asGo:
				return writeGo(out, maps)
			}
			for _, m := range maps {
				for _, t := range m.Types {
					fmt.Fprintf(out, "%s  %s  %s\n", showKey([]byte(m.Name)), t.Codec, t.Schema)
				}
			}
			return nil
		})
	})
	f := cmd.Flags()
	f.BoolVar(&asJSONSchema, "json-schema", false, "print JSON Schema")
	f.BoolVar(&asScript, "ts", false, "print declarations of TypeScript")
	f.BoolVar(&asGo, "go", false, "print declarations of Go, of the newest type of each map")
	f.BoolVar(&asOpenAPI, "openapi", false, "print the description of the HTTP door, with the types of all maps")
	f.BoolVar(&asJSON, "json", false, "print maps and types as a list of JSON")
	cmd.MarkFlagsMutuallyExclusive("json-schema", "ts", "go", "openapi", "json")
	return cmd
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

// typesOf are the types of the maps that are named, or of all.
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

// typesIn are the types that the log knows, by map.
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

// typesFar are the types of the values that a server has, by map.
func (a *app) typesFar(db *copal.DB, names []string) (all map[string][]admin.Type, err error) {
	far, err := copying.Look(a.ctx, db)
	if err != nil {
		return nil, err
	}
	defer far.Close()
	if !far.Typed() {
		return nil, usageError{"schema needs a directory or a copal serve: this server keeps no types of values"}
	}
	maps, err := far.Maps(a.ctx)
	if err != nil {
		return nil, err
	}
	all = map[string][]admin.Type{}
	for _, name := range maps {
		if len(names) == 0 || name == names[0] {
			all[name] = nil
		}
	}
	var in span
	if len(names) > 0 {
		in = prefixSpan(copal.MapPrefix(names[0]))
	}
	for e, err := range far.Entries(in.from, in.to) {
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
		case defs[m.typeName] == nil: // else it stands in itself
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
