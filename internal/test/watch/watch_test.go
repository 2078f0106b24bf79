package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

// TestWatch: a change has the same value as reads, from each writer and in each encoding.
func TestWatch(t *testing.T) {
	db, err := copal.OpenMemory(copal.WithCodec(codec.Binary))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	users, err := copal.OpenMap[string, kit.User](db, "users")
	if err != nil {
		t.Fatal(err)
	}
	before := time.Now().Truncate(time.Millisecond)
	alice, bob := kit.User{Name: "Alice", Age: 28}, kit.User{Name: "Bob", Age: 31}
	batch := db.Raw().Batch()
	batch.Set([]byte("raw"), []byte{0, 1})
	batch.Set([]byte("users:\xff"), []byte("no JSON"))
	for _, err := range []error{
		users.SetTTL("alice", alice, time.Hour),
		db.Update(func(tx *copal.Tx) error {
			_, err := users.In(tx).Delete("alice")
			return errors.Join(err, users.In(tx).Set("bob", bob), tx.Raw().Set([]byte("raw"), nil))
		}),
		users.SetAsync("bob", alice),
		db.Sync(),
		batch.Commit(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	type seen struct {
		key, value string
		more       bool
	}
	want := []seen{
		{"users:alice", `{"Name":"Alice","Age":28}`, false},
		{"raw", "", true}, {"users:alice", "deleted", true}, {"users:bob", `{"Name":"Bob","Age":31}`, false},
		{"users:bob", `{"Name":"Alice","Age":28}`, false},
		{"raw", "\x00\x01", true}, {"users:\xff", "no JSON", false},
	}
	last := uint64(0)
	more := false
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for c, err := range db.Watch(ctx, copal.WithAfter(0)) {
		if errors.Is(err, context.Canceled) && len(want) == 0 {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		value, err := c.Value()
		switch {
		case c.Deleted && err == copal.ErrNotFound:
			value = []byte("deleted")
		case c.Deleted || err != nil:
			t.Errorf("%q, deleted: %v: %v", c.Key, c.Deleted, err)
		}
		if got := (seen{string(c.Key), string(value), c.More}); got != want[0] {
			t.Errorf("%+v is told, want %+v", got, want[0])
		}
		if c.Seq < last || (c.Seq == last) != more || c.Time.Before(before) || c.Time.After(time.Now()) {
			t.Errorf("%q has number %d after %d, of %v", c.Key, c.Seq, last, c.Time)
		}
		if first := last == 0; first != !c.Deadline.IsZero() || first && (c.Deadline.Before(before.Add(time.Hour)) || c.Deadline.After(before.Add(2*time.Hour))) {
			t.Errorf("%q expires %v", c.Key, c.Deadline)
		}
		last, more = c.Seq, c.More
		if want = want[1:]; len(want) == 0 {
			cancel()
		}
	}
	wrong := 0
	for c, err := range users.Watch(t.Context(), copal.WithAfter(0), copal.WithPrefix([]byte("raw"))) {
		switch {
		case err != nil && c.Seq == 0:
			t.Fatal(err)
		case c.Key == "\xff":
			if wrong++; !errors.Is(err, copal.ErrType) {
				t.Errorf("what is no JSON: %v", err)
			}
			db.Close()
		case c.Key == "alice" && !c.Deleted && c.Value != alice, c.Key == "bob" && c.More && c.Value != bob, err != nil:
			t.Errorf("%+v is told: %v", c, err)
		}
		if wrong > 0 {
			break
		}
	}
	for _, err := range db.Watch(t.Context()) {
		if err != copal.ErrClosed {
			t.Errorf("watching a closed store: %v", err)
		}
	}
}

// TestWatchWithoutAnOption: a nil WatchOption is ignored, in any position.
func TestWatchWithoutAnOption(t *testing.T) {
	db := kit.Memory(t)
	m := kit.MapOf[string, int](t, db, "m")
	if err := errors.Join(m.Set("a", 1), db.Raw().Set([]byte("raw"), nil)); err != nil {
		t.Fatal(err)
	}
	s := kit.MustSnapshot(t, db)
	defer s.Close()
	for c, err := range db.Watch(t.Context(), nil, copal.WithAfter(0), copal.WithUntil(s.Seq()), nil, copal.WithKey([]byte("raw"))) {
		if string(c.Key) != "raw" || err != nil {
			t.Errorf("%q is told: %v", c.Key, err)
		}
	}
	n := 0
	for c, err := range m.Watch(t.Context(), nil, copal.WithAfter(0), nil, copal.WithUntil(s.Seq()), nil) {
		if n++; c.Key != "a" || c.Value != 1 || err != nil {
			t.Errorf("%+v is told: %v", c, err)
		}
	}
	if n != 1 {
		t.Errorf("%d changes of the map are told", n)
	}
}

// TestWatchBeginsAtTheCall: changes between the call and a loop are yielded, to each loop again,
// and changes before the call are not.
func TestWatchBeginsAtTheCall(t *testing.T) {
	db := kit.Memory(t)
	m := kit.MapOf[string, int](t, db, "m")
	kit.Must(t, m.Set("before", 1))
	s := kit.MustSnapshot(t, db)
	defer s.Close()
	changes := m.Watch(t.Context(), copal.WithUntil(s.Seq()+2))
	kit.Must(t, errors.Join(m.Set("between", 2), m.Set("later", 3)))
	for range 2 {
		var told []string
		for c, err := range changes {
			kit.Must(t, err)
			told = append(told, c.Key)
		}
		if !slices.Equal(told, []string{"between", "later"}) {
			t.Errorf("told is %q", told)
		}
	}
}

// A watch that ends with a number yields the changes up to it, and none that come later.
func TestWatchUntil(t *testing.T) {
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	raw := db.Raw()
	for n := range 5 {
		err := errors.Join(raw.Set([]byte{byte(n)}, []byte("one")), db.Update(func(tx *copal.Tx) error {
			return errors.Join(raw.In(tx).Set([]byte("a"), nil), raw.In(tx).Set([]byte("b"), make([]byte, 3<<20)))
		}), raw.Hash([]byte("h")).Set("f", []byte{byte(n)}))
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := raw.Set([]byte("later"), nil); err != nil {
		t.Fatal(err)
	}
	var all []uint64
	for until := range s.Seq() + 1 {
		var told []uint64
		for c, err := range db.Watch(t.Context(), copal.WithAfter(0), copal.WithUntil(s.Seq()-until)) {
			if err != nil {
				t.Fatal(err)
			}
			told = append(told, c.Seq)
		}
		if until == 0 {
			all = told
		}
		for c := range db.Watch(t.Context(), copal.WithAfter(0), copal.WithUntil(s.Seq()-until), copal.WithPrefix([]byte("none"))) {
			t.Errorf("%q is told", c.Key)
		}
		want := all[:sort.Search(len(all), func(i int) bool { return all[i] > s.Seq()-until })]
		if !slices.Equal(told, want) {
			t.Errorf("up to %d: %v is told, want %v", s.Seq()-until, told, want)
		}
	}
	if len(all) != 4*5+1 { // the hash is a new one
		t.Errorf("%d changes are told: %v", len(all), all)
	}
	for c, err := range db.Watch(t.Context(), copal.WithAfter(s.Seq()), copal.WithUntil(0)) {
		t.Errorf("behind its end %q is told, %v", c.Key, err)
	}
}

// TestWatchOldValues: a watch with OldValues has the old value of each change, in the types of the
// map and as raw bytes.
func TestWatchOldValues(t *testing.T) {
	clock := kit.NewManualClock()
	db, err := copal.OpenMemory(kit.WithClock(clock))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	m, err := copal.OpenMap[string, []string](db, "m", copal.ExpiryEvents())
	if err != nil {
		t.Fatal(err)
	}
	h := db.Raw().Hash([]byte("h"))
	err = errors.Join(m.Set("a", []string{"0"}), h.Set("f", []byte("old")), m.SetTTL("b", []string{"mortal"}, time.Second), db.Raw().Set([]byte("v"), make([]byte, 2<<20)))
	if err != nil {
		t.Fatal(err)
	}
	then, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer then.Close()
	err = errors.Join(m.Set("a", []string{"1"}), m.Set("c", nil), h.Set("f", []byte("new")), db.Update(func(tx *copal.Tx) error {
		_, err := m.In(tx).Delete("a")
		return errors.Join(err, m.In(tx).Set("c", []string{"in a transaction"}))
	}), db.Raw().Set([]byte("v"), nil), db.Raw().Set([]byte("h2"), nil))
	if err != nil {
		t.Fatal(err)
	}
	clock.Advance(2 * time.Second)
	if m.Has("b") {
		t.Error("b has not expired")
	}
	if err := errors.Join(m.Clear(), db.Raw().Set([]byte("end"), nil)); err != nil {
		t.Fatal(err)
	}
	var told []string
	for c, err := range db.Watch(t.Context(), copal.WithAfter(then.Seq()), copal.OldValues()) {
		if err != nil {
			t.Fatal(err)
		}
		was, err := c.Old()
		switch {
		case errors.Is(err, copal.ErrNotFound):
			told = append(told, fmt.Sprintf("%s%s: none", c.Key, c.Element))
		case err != nil:
			t.Errorf("%s: %v", c.Key, err)
		case len(was) > 100:
			told = append(told, fmt.Sprintf("%s: %d bytes", c.Key, len(was)))
		default:
			told = append(told, fmt.Sprintf("%s%s: %s", c.Key, c.Element, was))
		}
		if string(c.Key) == "end" {
			break
		}
	}
	const want = `m:a: ["0"]|m:c: none|hf: old|m:a: ["1"]|m:c: null|v: 2097152 bytes|h2: none|m:b: ["mortal"]|m:: none|end: none`
	if got := strings.Join(told, "|"); got != want {
		t.Errorf("told is\n%s, want\n%s", got, want)
	}

	// The values of a map are the caller's own. The store may be closed within the loop.
	var last error
	for c, err := range m.Watch(t.Context(), copal.WithAfter(then.Seq()), copal.OldValues()) {
		if err != nil {
			last = err
			break
		}
		was, err := c.Old()
		if err != nil || was[0] != "0" {
			t.Fatalf("%v, %v", was, err)
		}
		if _, err := (&copal.Change{}).Old(); !errors.Is(err, copal.ErrHandle) {
			t.Errorf("without the option: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	if !errors.Is(last, copal.ErrClosed) {
		t.Errorf("the loop ends with %v", last)
	}
}

// A store is watched in each of several bubbles, and outside, wherever the first watch was.
func TestWatchInBubbles(t *testing.T) {
	db, err := copal.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	watch := func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		seen := make(chan error)
		go func() {
			for _, err := range db.Watch(ctx) {
				seen <- err
				return
			}
		}()
		synctest.Wait()
		if err := db.Raw().Set([]byte("k"), nil); err != nil {
			t.Error(err)
		}
		if err := <-seen; err != nil {
			t.Error(err)
		}
		cancel()
	}
	for range 2 {
		synctest.Test(t, watch)
	}
}
