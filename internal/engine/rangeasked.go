package engine

import "bytes"

// Asked are the words by which another process asks for the range: those of the record that deletes it, or, where a
// range in another order than that of bytes has a bound only, with that one alone.
func (r *Range) Asked() (start, rest []byte) {
	p := r.record()
	if r.by.IsBytes() {
		return p.Key, p.Value
	}
	start, rest = bytes.Clone(r.prefix), []byte(r.by.Name())
	if r.span.Low != nil {
		start = p.Key
	}
	if r.span.High != nil {
		rest = p.Value
	}
	return start, rest
}
