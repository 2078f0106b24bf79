package command

import (
	"strconv"
	"testing"
)

// Places that are remembered are bounded, and an old one is refused and not taken for another.
func TestCursors(t *testing.T) {
	var k cursors
	first := k.Give("", []byte("first"))
	for i := range MaxCursors - 1 {
		k.Give("", strconv.AppendInt(nil, int64(i), 10))
	}
	if at, ok := k.Find("", first); string(at) != "first" || !ok {
		t.Errorf("%q, %v", at, ok)
	}
	last := k.Give("", []byte("last"))
	if _, ok := k.Find("", first); ok {
		t.Error("it is remembered for ever")
	}
	if at, ok := k.Find("", last); string(at) != "last" || !ok || len(k.at) > MaxCursors {
		t.Errorf("%q, %v, %d places", at, ok, len(k.at))
	}
	for range 3 * maxCursorBytes / 60_000 {
		last = k.Give("", make([]byte, 60_000))
	}
	if _, ok := k.Find("", last); !ok || k.bytes > maxCursorBytes {
		t.Errorf("%v, %d bytes", ok, k.bytes)
	}
}
