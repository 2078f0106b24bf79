package comparing

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/cmd/copal/internal/changes"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/fields"
	"github.com/copaldb/copal/internal/ndjson"
)

// A difference shows values as get does, so that a person sees the values of a program: those of
// codecs as JSON.

// write prints an entry that differs, and counts it.
func (p *differences) write(d *admin.Difference) error {
	p.count(d)
	return p.writeNoted(d, "", 0)
}

// writeNoted prints an entry that differs, with a note for a person and the number of its changes,
// 0 if that is unknown.
func (p *differences) writeNoted(d *admin.Difference, note string, changes int) error {
	before, err := load(p.before, d.Key, d.A)
	if err != nil {
		return err
	}
	after, err := load(p.after, d.Key, d.B)
	if err != nil {
		return err
	}
	if p.json {
		err = p.writeJSON(d, before, after, changes)
	} else {
		err = p.writeText(d, before, after, note)
	}
	if err == nil && d.A != nil && d.B != nil && d.A.Collection == d.B.Collection && d.A.Collection != "" {
		err = p.elements(d)
	}
	return err
}

// load returns the value of an entry as get shows it, nil for a collection and for no entry.
func load(s cli.Source, key []byte, e *admin.Entry) ([]byte, error) {
	if e == nil || e.Collection != "" {
		return nil, nil
	}
	return s.Raw().Load(key)
}

func (p *differences) writeText(d *admin.Difference, before, after []byte, note string) error {
	key := cli.ShowKey(d.Key)
	switch {
	case d.B == nil:
		if d.A.Expires.IsZero() || d.A.Expires.After(p.after.At.Time()) || note != "" {
			return p.line(cli.StyleBad, "- "+key+"\t"+showEntry(d.A, before)+note)
		}
		return p.line(cli.StyleBad, "- "+key+"\t"+showEntry(d.A, before)+"\texpired")
	case d.A == nil:
		return p.line(cli.StyleGood, "+ "+key+"\t"+showEntry(d.B, after)+note)
	}
	if err := p.line(cli.StyleKey, "~ "+key+note); err != nil {
		return err
	}
	for _, f := range p.fieldsOf(d, before, after) {
		if err := p.field(f); err != nil {
			return err
		}
	}
	return nil
}

func (p *differences) line(s cli.Style, text string) error {
	_, err := fmt.Fprintln(p.out, p.paint.Paint(s, text))
	return err
}

// fieldsOf returns the parts in which an entry of both states differs.
func (p *differences) fieldsOf(d *admin.Difference, before, after []byte) (list []fields.Field) {
	switch {
	case d.A.Collection != d.B.Collection:
		list = append(list, fields.Field{Before: []byte(showEntry(d.A, before)), After: []byte(showEntry(d.B, after))})
	case d.A.Collection == "":
		list = fields.Compare(before, after)
	}
	for _, f := range []fields.Field{
		{Path: "expires", Before: showExpires(d.A), After: showExpires(d.B)},
		{Path: "codec", Before: []byte(d.A.Codec), After: []byte(d.B.Codec)},
		{Path: "type", Before: []byte(d.A.Schema), After: []byte(d.B.Schema)},
		{Path: "content", Before: []byte(d.A.Content), After: []byte(d.B.Content)},
	} {
		if string(f.Before) != string(f.After) {
			f.Path = "(" + f.Path + ")" // which is no field of the value
			list = append(list, f)
		}
	}
	return list
}

func showExpires(e *admin.Entry) []byte {
	if e.Expires.IsZero() {
		return []byte("never")
	}
	return []byte(e.Expires.Format("2006-01-02 15:04:05.000"))
}

// showEntry returns a whole entry, for a person.
func showEntry(e *admin.Entry, value []byte) string {
	if e.Collection != "" {
		return fmt.Sprintf("(%s of %d)", e.Collection, countElements(e))
	}
	return cli.ShowValue(cut(value))
}

// countElements returns the number of elements for a user: a member of a sorted set is two to the
// store.
func countElements(e *admin.Entry) int64 {
	if e.Collection == "zset" {
		return e.Elements / 2
	}
	return e.Elements
}

// mostOfValue is the length of a value in a line of text, at most.
const mostOfValue = 200

// cut returns a value, or the beginning of a long one.
func cut(value []byte) []byte {
	if len(value) <= mostOfValue {
		return value
	}
	begins := value[:mostOfValue]
	for n := range utf8.UTFMax { // a character may be cut
		if whole := begins[:len(begins)-n]; utf8.Valid(whole) {
			begins = whole
			break
		}
	}
	return fmt.Appendf(nil, "%s… (%d bytes)", begins, len(value))
}

// field prints how a part of an entry differs.
func (p *differences) field(f fields.Field) error {
	f.Before, f.After = cut(f.Before), cut(f.After)
	_, err := fmt.Fprintln(p.out, "  "+changes.ShowField(p.paint, f))
	return err
}

// elements prints how the elements of a collection differ.
func (p *differences) elements(d *admin.Difference) error {
	for e, err := range admin.DiffElements(p.before.At, p.after.At, d.Key) {
		if err != nil {
			return cli.Named(err, d.Key)
		}
		before, err := element(p.before, d.Key, d.A.Collection, e.A, e.AtA)
		if err != nil {
			return err
		}
		after, err := element(p.after, d.Key, d.A.Collection, e.B, e.AtB)
		if err != nil {
			return err
		}
		if p.json {
			err = p.elementJSON(d, &e, before, after)
		} else {
			err = p.elementText(d.A.Collection, &e, before, after)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *differences) elementText(collection string, e *admin.ElementDifference, before, after []byte) error {
	name := elementName(collection, e)
	switch {
	case collection == "set" && e.A == nil:
		return p.line(cli.StyleGood, "  + "+name)
	case collection == "set":
		return p.line(cli.StyleBad, "  - "+name)
	}
	return p.field(fields.Field{Path: name, Before: before, After: after})
}

// element returns the value of an element as a program reads it, nil for none. A member of a set
// has an empty value.
func element(s cli.Source, key []byte, collection string, e *admin.Element, at int64) ([]byte, error) {
	switch {
	case e == nil:
		return nil, nil
	case collection == "hash":
		return s.Raw().Hash(key).Load(string(e.Name))
	case collection == "list":
		return s.Raw().List(key).Load(int(at))
	}
	return append([]byte{}, e.Value...), nil
}

// elementName returns the name of an element for a person. In a list that is the index, in the
// second state if the element is there.
func elementName(collection string, e *admin.ElementDifference) string {
	switch {
	case collection == "list":
		return "[" + strconv.FormatInt(indexOf(e), 10) + "]"
	case e.A != nil:
		return cli.ShowKey(e.A.Name)
	}
	return cli.ShowKey(e.B.Name)
}

func indexOf(e *admin.ElementDifference) int64 {
	if e.B != nil {
		return e.AtB
	}
	return e.AtA
}

func (p *differences) writeJSON(d *admin.Difference, before, after []byte, times int) error {
	line := ndjson.AppendKey([]byte(`{"key":`), d.Key)
	line = appendChange(line, d.A != nil, d.B != nil)
	line = appendEntry(line, "before", d.A, before)
	line = appendEntry(line, "after", d.B, after)
	if d.A != nil && d.B != nil && d.A.Collection == "" && d.B.Collection == "" {
		line = changes.AppendFields(line, fields.Compare(before, after))
	}
	if times > 0 {
		line = strconv.AppendInt(append(line, `,"changes":`...), int64(times), 10)
	}
	_, err := p.out.Write(append(line, "}\n"...))
	return err
}

func (p *differences) elementJSON(d *admin.Difference, e *admin.ElementDifference, before, after []byte) error {
	line := ndjson.AppendKey([]byte(`{"key":`), d.Key)
	switch {
	case d.A.Collection == "list":
		line = strconv.AppendInt(append(line, `,"index":`...), indexOf(e), 10)
	case e.A != nil:
		line = ndjson.AppendKey(append(line, `,"element":`...), e.A.Name)
	default:
		line = ndjson.AppendKey(append(line, `,"element":`...), e.B.Name)
	}
	line = appendChange(line, e.A != nil, e.B != nil)
	if e.A != nil {
		line = append(ndjson.AppendValue(append(line, `,"before":{`...), before), '}')
	}
	if e.B != nil {
		line = append(ndjson.AppendValue(append(line, `,"after":{`...), after), '}')
	}
	_, err := p.out.Write(append(line, "}\n"...))
	return err
}

func appendChange(line []byte, had, has bool) []byte {
	word := "changed"
	switch {
	case !has:
		word = "removed"
	case !had:
		word = "added"
	}
	return append(append(append(line, `,"change":"`...), word...), '"')
}

// appendEntry appends the content of a key in one state, in the forms of an export; nothing for no
// entry.
func appendEntry(line []byte, name string, e *admin.Entry, value []byte) []byte {
	if e == nil {
		return line
	}
	line = append(append(append(line, `,"`...), name...), `":{`...)
	if e.Collection != "" {
		line = fmt.Appendf(line, `"collection":"%s","elements":%d`, e.Collection, countElements(e))
	} else {
		line = ndjson.AppendValue(line, value)
	}
	if !e.Expires.IsZero() {
		line = ndjson.AppendTime(append(line, `,"expires":`...), e.Expires)
	}
	if e.Seq > 0 { // else it is of a server
		line = ndjson.AppendTime(append(fmt.Appendf(line, `,"seq":%d`, e.Seq), `,"time":`...), e.Time)
	}
	if e.Codec != "" {
		line = ndjson.AppendKey(append(line, `,"codec":`...), []byte(e.Codec))
		line = ndjson.AppendKey(append(line, `,"type":`...), []byte(e.Schema))
	}
	if e.Content != "" {
		line = ndjson.AppendKey(append(line, `,"content":`...), []byte(e.Content))
	}
	return append(line, '}')
}
