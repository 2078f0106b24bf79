package redisapi

import (
	"strconv"
	"testing"
)

// Places that are remembered are bounded, and an old one is refused and not taken for another.
func TestCursors(t *testing.T) {
	var k cursors
	first := k.give("", []byte("first"))
	for i := range maxCursors - 1 {
		k.give("", strconv.AppendInt(nil, int64(i), 10))
	}
	if at, ok := k.find("", first); string(at) != "first" || !ok {
		t.Errorf("%q, %v", at, ok)
	}
	last := k.give("", []byte("last"))
	if _, ok := k.find("", first); ok {
		t.Error("it is remembered for ever")
	}
	if at, ok := k.find("", last); string(at) != "last" || !ok || len(k.at) > maxCursors {
		t.Errorf("%q, %v, %d places", at, ok, len(k.at))
	}
	for range 3 * maxCursorBytes / 60_000 {
		last = k.give("", make([]byte, 60_000))
	}
	if _, ok := k.find("", last); !ok || k.bytes > maxCursorBytes {
		t.Errorf("%v, %d bytes", ok, k.bytes)
	}
}
