package crash

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/vfs"
)

// TestReadADamagedStore changes one byte after the other of a store with a map, a hash and raw
// keys. A reader gets the right value or an error, except for a key that the damage made illegible,
// which the error handler gets.
func TestReadADamagedStore(t *testing.T) {
	type user struct {
		Name string
		Age  int
	}
	made := t.TempDir()
	db, err := copal.Open(made)
	if err != nil {
		t.Fatal(err)
	}
	users, err := copal.OpenMap[string, user](db, "users", copal.WithCodec(codec.Binary))
	if err != nil {
		t.Fatal(err)
	}
	cart, err := copal.OpenHash[string, int](db, "cart")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		key := fmt.Sprint("u", i%3)
		err := errors.Join(users.Set(key, user{key, i}), cart.Set(key, i), db.Raw().Set([]byte(key), fmt.Append(nil, i)))
		if err != nil {
			t.Fatal(err)
		}
	}
	kit.MustClose(t, db)
	logtest.RemoveIndex(vfs.OS(), made)
	text, err := os.ReadFile(filepath.Join(made, "00000001.log"))
	if err != nil {
		t.Fatal(err)
	}
	const first = 0 // of the first line, too
	for at := first; at < len(text); at += 3 {
		dir := filepath.Join(t.TempDir(), "db")
		if err := os.CopyFS(dir, os.DirFS(made)); err != nil {
			t.Fatal(err)
		}
		changed := append([]byte(nil), text...)
		changed[at] ^= 2
		if err := os.WriteFile(filepath.Join(dir, "00000001.log"), changed, 0o666); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		told := 0
		db, err := copal.Open(dir, copal.ReadOnly(), copal.WithErrorHandler(func(error) { mu.Lock(); told++; mu.Unlock() }))
		if err != nil {
			t.Fatalf("byte %d: %v", at, err)
		}
		wrong, read := 0, 0
		look := func(got any, err error, want any) {
			if err == nil {
				read++
			}
			if err == nil && got != want || errors.Is(err, copal.ErrNotFound) {
				wrong++
			}
		}
		users, mapErr := copal.OpenMap[string, user](db, "users", copal.WithCodec(codec.Binary))
		cart, hashErr := copal.OpenHash[string, int](db, "cart")
		for i := 3; i < 6; i++ {
			key := fmt.Sprint("u", i%3)
			if mapErr == nil {
				got, err := users.Load(key)
				look(got, err, user{key, i})
			}
			if hashErr == nil {
				got, err := cart.Load(key)
				look(got, err, i)
			}
			b, err := db.Raw().Load([]byte(key))
			look(string(b), err, fmt.Sprint(i))
		}
		if err := db.Close(); err != nil {
			t.Errorf("byte %d: Close: %v", at, err)
		}
		mu.Lock()
		if told == 0 || wrong > 1 || read < 3 {
			t.Errorf("byte %d, %q: told %d errors, %d entries read, %d of them wrong; %v %v", at, text[max(at-20, first):min(at+20, len(text))], told, read, wrong, mapErr, hashErr)
		}
		mu.Unlock()
	}
}
