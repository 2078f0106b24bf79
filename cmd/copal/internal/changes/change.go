package changes

import (
	"fmt"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/fields"
	"github.com/copaldb/copal/internal/ndjson"
)

// change is a change of an entry, or of a range of them, as watch and log print it.
type change struct {
	seq        uint64 // 0 for a deadline that came without a record
	time       time.Time
	op         string
	key, to    []byte
	deadline   time.Time
	collection string
	element    []byte // of the collection, nil for the whole
	created    bool   // the collection is a new one
	from       []byte // the key that it had
	value      []byte // of a set, but for a whole collection
	more       bool   // others follow that count together with it
	fields     []fields.Field
}

// The kinds of changes, in text and in JSON.
const (
	opSet      = "set"
	opDel      = "del"
	opDelRange = "delrange"
	opDrop     = "drop"
	opExpired  = "expired"
)

// changeOf converts a change of a watch.
func changeOf(c *copal.Change) (change, error) {
	out := change{seq: c.Seq, time: c.Time, op: opSet, key: c.Key, to: c.To, deadline: c.Deadline, collection: c.Collection, more: c.More,
		element: c.Element, created: c.Created, from: c.From}
	switch {
	case c.Dropped:
		out.op = opDrop
	case c.Range:
		out.op = opDelRange
	case c.Expired:
		out.op = opExpired
	case c.Deleted:
		out.op = opDel
	}
	var err error
	if out.hasValue() {
		if out.value, err = c.Value(); err != nil {
			err = fmt.Errorf("%s: %w", cli.ShowKey(c.Key), err)
		}
	}
	return out, err
}

func (c *change) hasValue() bool {
	return c.op == opSet && (c.collection == "" || c.element != nil && c.collection != "set")
}

// show returns the change without its time, for a person.
func (c *change) show(paint cli.Painter) string {
	switch {
	case c.op == opDrop:
		return paint.Paint(cli.StyleBad, opDrop) + " " + paint.Paint(cli.StyleKey, cli.ShowKey(c.key))
	case c.op == opDelRange:
		return paint.Paint(cli.StyleBad, opDel) + " " + paint.Paint(cli.StyleKey, fmt.Sprintf("[%s, %s)", cli.ShowKey(c.key), showEnd(c.to)))
	case c.op != opSet:
		return paint.Paint(cli.StyleBad, c.op) + " " + paint.Paint(cli.StyleKey, c.name())
	}
	line := paint.Paint(cli.StyleGood, opSet) + " " + paint.Paint(cli.StyleKey, c.name())
	switch {
	case c.hasValue():
		line += "\t" + cli.ShowValue(c.value)
	case c.element == nil:
		line += "\t(" + c.collection + ")"
	}
	if c.from != nil {
		line += " from " + paint.Paint(cli.StyleKey, cli.ShowKey(c.from))
	}
	return line
}

// name returns the key, with the element in brackets.
func (c *change) name() string {
	switch {
	case c.element == nil:
		return cli.ShowKey(c.key)
	case c.collection == "list": // its position
		return fmt.Sprintf("%s[%x]", cli.ShowKey(c.key), c.element)
	}
	return cli.ShowKey(c.key) + "[" + cli.ShowKey(c.element) + "]"
}

// showEnd returns the end of a range.
func showEnd(key []byte) string {
	if key == nil {
		return "∞"
	}
	return cli.ShowKey(key)
}

// appendJSON appends the change as a line of JSON, the value in the form of an export.
func (c *change) appendJSON(line []byte) []byte {
	line = append(line, '{')
	if c.seq > 0 {
		line = fmt.Appendf(line, `"seq":%d,`, c.seq)
	}
	line = fmt.Appendf(line, `"time":"%s","op":"%s","key":`, c.time.UTC().Format(time.RFC3339Nano), c.op)
	line = ndjson.AppendKey(line, c.key)
	if c.to != nil {
		line = ndjson.AppendKey(append(line, `,"to":`...), c.to)
	}
	if !c.deadline.IsZero() {
		line = cli.AppendExpires(line, (*cli.JSONTime)(&c.deadline))
	}
	if c.collection != "" {
		line = fmt.Appendf(line, `,"collection":"%s"`, c.collection)
	}
	if c.element != nil {
		line = ndjson.AppendKey(append(line, `,"element":`...), c.element)
	}
	if c.created {
		line = append(line, `,"created":true`...)
	}
	if c.from != nil {
		line = ndjson.AppendKey(append(line, `,"from":`...), c.from)
	}
	if c.hasValue() {
		line = ndjson.AppendValue(append(line, ','), c.value)
	}
	line = AppendFields(line, c.fields)
	if c.more {
		line = append(line, `,"more":true`...)
	}
	return append(line, "}\n"...)
}

// AppendFields appends the parts of a value that differ. They are JSON.
func AppendFields(line []byte, list []fields.Field) []byte {
	if len(list) == 0 || list[0].Path == "" {
		return line
	}
	line = append(line, `,"changed":[`...)
	for i, f := range list {
		if i > 0 {
			line = append(line, ',')
		}
		line = ndjson.AppendKey(append(line, `{"field":`...), []byte(f.Path))
		if f.Before != nil {
			line = append(append(line, `,"before":`...), f.Before...)
		}
		if f.After != nil {
			line = append(append(line, `,"after":`...), f.After...)
		}
		line = append(line, '}')
	}
	return append(line, ']')
}

// ShowField returns the change of a part of a value for a person. Without a path it is the whole
// value.
func ShowField(paint cli.Painter, f fields.Field) string {
	name := ""
	if f.Path != "" {
		name = f.Path + ": "
	}
	switch {
	case f.Before == nil:
		return paint.Paint(cli.StyleGood, "+ "+name+cli.ShowValue(f.After))
	case f.After == nil:
		return paint.Paint(cli.StyleBad, "- "+name+cli.ShowValue(f.Before))
	}
	return "  " + name + paint.Paint(cli.StyleBad, cli.ShowValue(f.Before)) + " → " + paint.Paint(cli.StyleGood, cli.ShowValue(f.After))
}
