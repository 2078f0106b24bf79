package main

import (
	"fmt"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/fields"
	"github.com/copaldb/copal/internal/ndjson"
)

// change is what watch and log tell of an entry, or of a range of them.
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

// What a change does, in text and in JSON.
const (
	opSet      = "set"
	opDel      = "del"
	opDelRange = "delrange"
	opDrop     = "drop"
	opExpired  = "expired"
)

// changeOf is what a watch tells.
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
			err = fmt.Errorf("%s: %w", showKey(c.Key), err)
		}
	}
	return out, err
}

func (c *change) hasValue() bool {
	return c.op == opSet && (c.collection == "" || c.element != nil && c.collection != "set")
}

// show is the change without its time, as a person reads it.
func (c *change) show(paint painter) string {
	switch {
	case c.op == opDrop:
		return paint.paint(styleBad, opDrop) + " " + paint.paint(styleKey, showKey(c.key))
	case c.op == opDelRange:
		return paint.paint(styleBad, opDel) + " " + paint.paint(styleKey, fmt.Sprintf("[%s, %s)", showKey(c.key), showEnd(c.to)))
	case c.op != opSet:
		return paint.paint(styleBad, c.op) + " " + paint.paint(styleKey, c.name())
	}
	line := paint.paint(styleGood, opSet) + " " + paint.paint(styleKey, c.name())
	switch {
	case c.hasValue():
		line += "\t" + showValue(c.value)
	case c.element == nil:
		line += "\t(" + c.collection + ")"
	}
	if c.from != nil {
		line += " from " + paint.paint(styleKey, showKey(c.from))
	}
	return line
}

// name is the key, and the element in brackets.
func (c *change) name() string {
	switch {
	case c.element == nil:
		return showKey(c.key)
	case c.collection == "list": // its position
		return fmt.Sprintf("%s[%x]", showKey(c.key), c.element)
	}
	return showKey(c.key) + "[" + showKey(c.element) + "]"
}

// showEnd is the end of a range.
func showEnd(key []byte) string {
	if key == nil {
		return "∞"
	}
	return showKey(key)
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
		line = appendExpires(line, (*jsonTime)(&c.deadline))
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
	line = appendFields(line, c.fields)
	if c.more {
		line = append(line, `,"more":true`...)
	}
	return append(line, "}\n"...)
}

// appendFields appends what differs within a value: parts of it, which are JSON.
func appendFields(line []byte, list []fields.Field) []byte {
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

// showField is how a part of a value has changed, as a person reads it. It is the whole value where there is no path.
func showField(paint painter, f fields.Field) string {
	name := ""
	if f.Path != "" {
		name = f.Path + ": "
	}
	switch {
	case f.Before == nil:
		return paint.paint(styleGood, "+ "+name+showValue(f.After))
	case f.After == nil:
		return paint.paint(styleBad, "- "+name+showValue(f.Before))
	}
	return "  " + name + paint.paint(styleBad, showValue(f.Before)) + " → " + paint.paint(styleGood, showValue(f.After))
}
