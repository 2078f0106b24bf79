package admin_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/codec"
)

func openMemory(t *testing.T, opts ...copal.Option) *copal.DB {
	t.Helper()
	db, err := copal.OpenMemory(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// lookAll returns the results of Look for a key in the store, in a snapshot and in a transaction.
func lookAll(t *testing.T, db *copal.DB, key string) (list []admin.Found) {
	t.Helper()
	take := func(e *admin.Found) error {
		c := *e
		c.Value = bytes.Clone(e.Value)
		list = append(list, c)
		return nil
	}
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := errors.Join(admin.Look(db, []byte(key), take), admin.Look(s, []byte(key), take),
		db.View(func(tx *copal.Tx) error { return admin.Look(tx, []byte(key), take) })); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestLook(t *testing.T) {
	db := openMemory(t)
	deadline := time.UnixMilli(4102444800123)
	done, err := admin.Write(db, &admin.Entry{Key: []byte("k"), Value: []byte("v"), Content: "text/plain", Expires: deadline}, copal.FSync)
	if err != nil || done.Existed || !done.Changed {
		t.Fatal(done, err)
	}
	for _, e := range lookAll(t, db, "k") {
		if string(e.Key) != "k" || string(e.Value) != "v" || e.Content != "text/plain" || !e.Expires.Equal(deadline) || e.Seq != done.Seq || e.Codec != "" || e.Large != 0 || e.Time.IsZero() {
			t.Errorf("%+v", e)
		}
	}
	users, err := copal.OpenMap[string, []int](db, "m", copal.WithCodec(codec.Binary))
	if err != nil {
		t.Fatal(err)
	}
	if err := users.Set("a", []int{1, 2}); err != nil {
		t.Fatal(err)
	}
	for _, e := range lookAll(t, db, "m:a") {
		shown, err := e.AppendShown([]byte("= "), db)
		if string(shown) != "= [1,2]" || err != nil || !e.IsRendered(db) || e.Codec != "binary" {
			t.Errorf("%s, %v: %+v", shown, err, e)
		}
	}
	long := bytes.Repeat([]byte("0123456789"), 300_000)
	if err := db.Raw().Set([]byte("long"), long); err != nil {
		t.Fatal(err)
	}
	for _, e := range lookAll(t, db, "long") {
		if e.Value != nil || e.Large != int64(len(long)) {
			t.Errorf("of a long value there are %d bytes, and it says %d", len(e.Value), e.Large)
		}
	}
	if err := db.Raw().Hash([]byte("h")).Set("f", nil); err != nil {
		t.Fatal(err)
	}
	nothing := func(*admin.Found) error { return errors.New("it was called") }
	var c *copal.CollectionError
	if err := admin.Look(db, []byte("h"), nothing); !errors.As(err, &c) {
		t.Error(err)
	}
	if err := admin.Look(db, []byte("none"), nothing); err != copal.ErrNotFound {
		t.Error(err)
	}
	gone := admin.Entry{Key: []byte("k"), Deleted: true}
	first, err := admin.Write(db, &gone, copal.Write)
	if err != nil || !first.Existed || !first.Changed || first.Seq <= done.Seq {
		t.Errorf("%+v %v", first, err)
	}
	if again, err := admin.Write(db, &gone, copal.Write); err != nil || again != (admin.Result{Seq: first.Seq}) {
		t.Errorf("a deletion without an entry: %+v, after %+v: %v", again, first, err)
	}
	for _, content := range []string{"a b", "ä/b", strings.Repeat("x", 129)} {
		if _, err := admin.Write(db, &admin.Entry{Key: []byte("k"), Content: content}, copal.Write); !errors.Is(err, copal.ErrType) {
			t.Errorf("%q: %v", content, err)
		}
	}
}

// An entry that a transaction has written has a number after the commit, and none before; each
// entry of a group has its own.
func TestPutInTransaction(t *testing.T) {
	db := openMemory(t)
	var last *copal.Tx
	err := db.Update(func(tx *copal.Tx) error {
		last = tx
		for _, key := range []string{"a", "b"} {
			if err := admin.Put(tx, &admin.Entry{Key: []byte(key), Value: []byte(key), Content: "x/" + key}); err != nil {
				return err
			}
		}
		return admin.Look(tx, []byte("b"), func(e *admin.Found) error {
			if e.Seq != 0 || string(e.Value) != "b" || e.Content != "x/b" {
				t.Errorf("%+v", e)
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b"} {
		e := lookAll(t, db, key)[0]
		if e.Seq == 0 || e.Seq != admin.Written(last, []byte(key)) || e.Content != "x/"+key {
			t.Errorf("%+v, and written was %d", e, admin.Written(last, []byte(key)))
		}
	}
	if admin.Written(last, []byte("c")) != 0 {
		t.Error("an unwritten key has a number")
	}
	err = db.Update(func(tx *copal.Tx) error { return admin.Put(tx, &admin.Entry{Key: []byte("a"), Deleted: true}) })
	if err != nil || db.Raw().Has([]byte("a")) {
		t.Error(err)
	}
}

// A content type stays with its value, through another deadline, compaction and opening again; and not with another
// value.
func TestContentStays(t *testing.T) {
	dir := t.TempDir()
	db, err := copal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b"} {
		if err := admin.Put(db, &admin.Entry{Key: []byte(key), Value: []byte("v"), Content: "text/css"}); err != nil {
			t.Fatal(err)
		}
	}
	err = errors.Join(db.Raw().Expire([]byte("a"), time.Hour), db.Raw().Set([]byte("b"), []byte("w")),
		db.Update(func(tx *copal.Tx) error { return tx.Raw().Expire([]byte("a"), 2*time.Hour) }), db.Compact(t.Context(), nil), db.Close())
	if err != nil {
		t.Fatal(err)
	}
	if db, err = copal.Open(dir); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for key, content := range map[string]string{"a": "text/css", "b": ""} {
		for _, e := range lookAll(t, db, key) {
			if e.Content != content {
				t.Errorf("%+v", e)
			}
		}
	}
}

func TestLarge(t *testing.T) {
	db := openMemory(t)
	long := bytes.Repeat([]byte("0123456789"), 300_000)
	create := func(value []byte) *admin.LargeWriter {
		t.Helper()
		w, err := admin.Create(t.Context(), db, []byte("k"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(value); err != nil {
			t.Fatal(err)
		}
		return w
	}
	w := create(long)
	if db.Raw().Has([]byte("k")) {
		t.Error("it is there before the commit")
	}
	calls := 0
	seq, err := w.Commit(copal.FSync, func(tx *copal.Tx) (admin.Entry, error) {
		if calls++; calls == 1 { // somebody comes between
			if err := admin.Look(tx, []byte("k"), func(*admin.Found) error { return nil }); err != copal.ErrNotFound {
				t.Error(err)
			}
			done := make(chan error)
			go func() { done <- db.Raw().Set([]byte("k"), []byte("other")) }()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		return admin.Entry{Content: "video/mp4", Expires: time.UnixMilli(4102444800000)}, nil
	})
	if err != nil || calls != 2 {
		t.Fatal(err, calls)
	}
	l, err := admin.Open(db, []byte("k"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(l)
	if err != nil || !bytes.Equal(got, long) || l.Entry.Seq != seq || l.Entry.Content != "video/mp4" || l.Entry.Expires.UnixMilli() != 4102444800000 || l.Entry.Large != int64(len(long)) {
		t.Errorf("%d bytes, %v, %+v", len(got), err, l.Entry)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	// One whose function does not want it leaves the value before, and one whose function panics, too.
	refused := errors.New("no")
	if _, err := create(append(long, 'x')).Commit(copal.Write, func(*copal.Tx) (admin.Entry, error) { return admin.Entry{}, refused }); err != refused {
		t.Error(err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is gone")
			}
		}()
		create(long).Commit(copal.Write, func(*copal.Tx) (admin.Entry, error) { panic("own") })
	}()
	if value, err := db.Raw().Load([]byte("k")); !bytes.Equal(value, long) || err != nil {
		t.Errorf("%d bytes, %v", len(value), err)
	}
	w = create([]byte("short"))
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if _, err := w.Commit(copal.Write, func(*copal.Tx) (admin.Entry, error) { return admin.Entry{}, nil }); err == nil {
		t.Error("a value counts that was given up")
	}
}

func ExampleLook() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	done, err := admin.Write(db, &admin.Entry{Key: []byte("logo"), Value: []byte("<svg/>"), Content: "image/svg+xml"}, copal.Write)
	if err != nil {
		log.Fatal(err)
	}
	err = admin.Look(db, []byte("logo"), func(e *admin.Found) error {
		fmt.Println(e.Content, e.Seq == done.Seq)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: image/svg+xml true
}

// Committed is the number by which a watch reports the changes of a transaction.
func TestCommitted(t *testing.T) {
	db := openMemory(t)
	raw := db.Raw()
	for _, keys := range []string{"", "a", "abc"} {
		var last *copal.Tx
		before, err := db.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		err = db.Update(func(tx *copal.Tx) error {
			last = tx
			for _, key := range keys {
				if err := raw.In(tx).List([]byte(string(key))).PushBack([]byte("1"), []byte("2")); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		seq, ok := admin.Committed(last)
		if !ok || (seq == 0) != (keys == "") {
			t.Errorf("%q: %d, %v", keys, seq, ok)
		}
		for c, err := range db.Watch(t.Context(), copal.WithAfter(before.Seq()), copal.WithUntil(max(seq, before.Seq()))) {
			if err != nil || c.Seq != seq {
				t.Errorf("%q: a change has the number %d, want %d: %v", keys, c.Seq, seq, err)
			}
		}
		before.Close()
	}
}
