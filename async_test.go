package copal_test

import (
	"bytes"
	"errors"
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

// A raw Delete says whether raw readers saw the entry, whatever a map shows in its place.
func TestRawDeleteOfInMemoryValues(t *testing.T) {
	db := memory(t)
	m := mapOf[string, int](t, db, "m")
	mustSet(t, m, "hidden", 1)
	if _, exists, err := m.UpdateInMemory("hidden", func(u *copal.Update[int]) { u.Delete() }); exists || err != nil {
		t.Fatal(exists, err)
	}
	if err := errors.Join(m.SetInMemory("new", 1), m.SetAsync("async", 1)); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]bool{"hidden": true, "new": false, "async": true, "none": false} {
		if existed, err := db.Delete([]byte("m:" + key)); existed != want || err != nil {
			t.Errorf("raw Delete(m:%s) = %v, %v, want %v", key, existed, err, want)
		}
		wantAbsent(t, m, key)
	}
}
