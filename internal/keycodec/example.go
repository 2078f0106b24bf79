package keycodec

import (
	"strings"
	"time"
)

// examples are keys of each form.
var examples = map[orderForm]string{
	orderBytes: "alice", orderInt: "42", orderFloat: "2.5", orderBool: "true", orderTime: "2026-11-21T06:45:00.000000000Z", orderHex: "9f8a",
}

// Example returns a key in the spelling of the order. It is the same key as the argument, if that
// is only spelled in another way, such as 7 for 07; otherwise any key.
func (o Order) Example(key string) string {
	if sortKey, ok := o.appendKey(nil, key); ok {
		if own, err := o.AppendKey(nil, sortKey); err == nil {
			return string(own)
		}
	}
	if at, err := time.Parse(time.RFC3339Nano, key); err == nil && o.elem == orderTime && o.count < 0 {
		return at.UTC().Format("2006-01-02T15:04:05.000000000Z")
	}
	parts, between := []Order{o}, "/"
	switch {
	case o.parts != nil:
		parts = *o.parts
	case o.count >= 0:
		parts, between = make([]Order, o.count), ","
		for i := range parts {
			parts[i] = Order{elem: o.elem, count: -1}
		}
	}
	texts := make([]string, len(parts))
	for i, p := range parts {
		if texts[i] = examples[p.elem]; p.count >= 0 {
			texts[i] = p.Example("?")
		}
	}
	return strings.Join(texts, between)
}
