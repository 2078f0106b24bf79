package open

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

// TestOpenValueShows: a reader of a value reads the bytes that Get returns, with each codec.
func TestOpenValueShows(t *testing.T) {
	db, err := copal.OpenMemory(copal.WithCodec(codec.Binary))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	w, err := db.Raw().With(copal.FSync).Create([]byte("streamed"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	_, err = w.Write(bytes.Repeat([]byte("0123456789abcdef"), 3<<16))
	if err := errors.Join(err, copal.Set(db, "typed", kit.User{Name: "Alice", Age: 28}), db.Raw().Set([]byte("raw"), []byte{0, 1}), w.Commit()); err != nil {
		t.Fatal(err)
	}
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, key := range []string{"typed", "raw", "streamed"} {
		want, err := db.Raw().Load([]byte(key))
		if err != nil {
			t.Fatal(err)
		}
		for _, open := range []func([]byte) (*copal.ValueReader, error){db.Raw().Open, s.Raw().Open} {
			r, err := open([]byte(key))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(got, want) || r.Size() != int64(len(want)) {
				t.Errorf("%s: %d bytes are read of %d: %v", key, len(got), len(want), err)
			}
			r.Close()
		}
	}
	if _, err := db.Raw().Open([]byte("none")); err != copal.ErrNotFound {
		t.Errorf("a value that is not there: %v", err)
	}
}
