package copal_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

// What a raw read returns is the caller's, also when the read had to write it first.
func TestAsyncRawGetGivesItsOwnBytes(t *testing.T) {
	db := memory(t)
	m := mapOf[int, []byte](t, db, "m", copal.WithCodec(codec.Bytes))
	want, got := map[int][]byte{}, map[int][]byte{}
	for i := range 200 {
		want[i] = bytes.Repeat([]byte{byte(i)}, 100+i)
		if err := m.SetAsync(i, want[i]); err != nil {
			t.Fatal(err)
		}
		v, err := db.Get(fmt.Append(nil, "m:", i))
		if err != nil {
			t.Fatal(err)
		}
		got[i] = v
	}
	for i, v := range got {
		if !bytes.Equal(v, want[i]) {
			t.Fatalf("the bytes that raw Get(m:%d) gave have changed: %.20q", i, v)
		}
	}
}
