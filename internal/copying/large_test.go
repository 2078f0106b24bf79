package copying

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/redisserver"
	"github.com/copaldb/copal/internal/storetest"
)

// TestLargeValues copies values that a round reads piece by piece: raw ones with content type and deadline, and those
// of a typed map.
func TestLargeValues(t *testing.T) {
	from, to := open(t, t.TempDir()), open(t, t.TempDir())
	texts, err := copal.OpenMap[string, []string](from, "texts")
	must(t, err)
	client, behind := served(t)
	_, address := redisserver.Start(t)
	redis := dial(t, address)
	long := func(word string) []byte { return bytes.Repeat([]byte(word), 3<<20) }
	copies := map[*copal.DB]*Copy{to: New(from, to), client: New(from, client), redis: New(from, redis)}
	sums := map[*copal.DB]Sum{}
	for round, word := range []string{"a", "b"} { // the walk, and the changes since
		must(t, admin.Put(from, &admin.Entry{Key: []byte("raw"), Value: long(word), Content: "image/png", Expires: time.Now().Add(time.Hour)}))
		must(t, texts.Set("a", []string{string(long(word)), word}))
		for db, c := range copies {
			must(t, c.CatchUp(t.Context()))
			if r := c.Report(); r.Entries != 2 || r.Written != int64(2*(round+1)) || r.Walks != 1 {
				t.Errorf("round %d: %+v", round, r)
			}
			sums[db] = c.Report().Sum
		}
		equal(t, from, to)
		equal(t, from, behind)
		if sums[to] != sums[client] || sums[to] == sums[redis] {
			t.Errorf("%v, %v and %v", sums[to], sums[client], sums[redis])
		}
	}
	if got, ok := redis.Raw().Get([]byte("raw")); !bytes.Equal(got, long("b")) || !ok {
		t.Errorf("the Redis has %d bytes", len(got))
	}
	must(t, to.Raw().Set([]byte("raw"), long("c")))
	s := storeOf(from)
	v, err := s.view(t.Context())
	must(t, err)
	defer v.close()
	for whole, err := range v.entries(nil, nil) {
		must(t, err)
		for e, err := range entriesOf(v, whole.Key, append(whole.Key, 0)) {
			must(t, err)
			a, err := sumOf(v, &whole, true)
			must(t, err)
			if b, err := sumOf(v, &e, true); a != b || err != nil || e.Large == 0 {
				t.Errorf("key %q, of %d bytes that were left out: %v and %v, %v", e.Key, e.Large, a, b, err)
			}
		}
	}
	var different *DifferentError
	if err := copies[to].Finish(t.Context()); !errors.As(err, &different) || string(different.Key) != "raw" {
		t.Errorf("another large value: %v", err)
	}
}

// TestValuesThatServersDoNotTake: the error says why, and which.
func TestValuesThatServersDoNotTake(t *testing.T) {
	client := dial(t, serving(t, open(t, t.TempDir()))+"?timeout=1m")
	s := storeOf(client)
	for _, err := range []error{
		s.putLarge(t.Context(), &admin.Entry{Key: []byte("k"), Large: mostServed + 1}, strings.NewReader("")),
		fits(mostServed + 1),
	} {
		if !errors.Is(err, copal.ErrTooLarge) {
			t.Error(err)
		}
	}
	must(t, fits(mostServed))
	if !storetest.Long() {
		return
	}
	from := open(t, t.TempDir())
	must(t, from.Raw().Set([]byte("most"), make([]byte, mostServed)), from.Raw().Set([]byte("more"), make([]byte, mostServed+1)))
	if err := New(from, client).CatchUp(t.Context()); !errors.Is(err, copal.ErrTooLarge) || !strings.Contains(err.Error(), `key "more"`) {
		t.Error(err)
	}
	_, err := from.Raw().Delete([]byte("more"))
	must(t, err)
	copyAll(t, from, client)
}

// TestLongestValues copies a value that is longer than any that is read at once. With COPAL_LONG alone: it takes two
// GiB on the disk.
func TestLongestValues(t *testing.T) {
	if !storetest.Long() {
		t.Skip("takes two GiB on the disk; COPAL_LONG runs it")
	}
	from, to := open(t, t.TempDir()), open(t, t.TempDir())
	w, err := from.Raw().Create([]byte("longest"))
	must(t, err)
	defer w.Close()
	_, err = io.CopyN(w, zeros{}, 1<<30+1)
	must(t, err, w.Commit())
	if r := copyAll(t, from, to); r.Entries != 1 {
		t.Errorf("%+v", r)
	}
	r, err := to.Raw().Open([]byte("longest"))
	must(t, err)
	defer r.Close()
	if r.Size() != 1<<30+1 {
		t.Errorf("it has %d bytes", r.Size())
	}
	client, _ := served(t)
	if err := New(from, client).CatchUp(t.Context()); !errors.Is(err, copal.ErrTooLarge) || !strings.Contains(err.Error(), `key "longest"`) {
		t.Error(err)
	}
	if err := New(dial(t, serving(t, from)), open(t, t.TempDir())).CatchUp(t.Context()); err == nil || !strings.Contains(err.Error(), `key "longest": copal: too large`) {
		t.Error(err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
