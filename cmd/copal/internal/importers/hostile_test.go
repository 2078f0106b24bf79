package importers

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// A hostile file of bbolt is read, or is an error: with any length, with any bytes, and with a page
// that is its own child.
func TestBboltHostile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hostile.bolt")
	db, err := bolt.Open(file, 0o600, &bolt.Options{NoSync: true})
	check(t, err)
	var root uint64
	check(t, db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket([]byte("users"))
		check(t, err)
		for k, v := range sample(300) {
			check(t, b.Put([]byte(k), []byte(v)))
		}
		inner, err := b.CreateBucket([]byte("inline"))
		check(t, err)
		return inner.Put([]byte("k"), []byte("v"))
	}))
	check(t, db.View(func(tx *bolt.Tx) error {
		root = uint64(tx.Bucket([]byte("users")).RootPage())
		return nil
	}))
	page := int64(db.Info().PageSize)
	check(t, db.Close())
	whole, err := os.ReadFile(file)
	check(t, err)
	try := func(what string, b []byte) error {
		t.Helper()
		check(t, os.WriteFile(file, b, 0o600))
		g, err := readAll(t, "bbolt", Source{Path: file, Nested: "/"})
		if err == nil && g.items > 2000 {
			t.Errorf("%s: %d items", what, g.items)
		}
		return err
	}
	if err := try("the whole", whole); err != nil {
		t.Fatal(err)
	}
	own := bytes.Clone(whole)
	at := own[int64(root)*page:]
	if flags := binary.NativeEndian.Uint16(at[8:]); flags != branchPage {
		t.Fatalf("the root has the flags %d", flags)
	}
	binary.NativeEndian.PutUint64(at[pageHeader+8:], root)
	if err := try("a page that is its own child", own); err == nil || !strings.Contains(err.Error(), "are no tree") {
		t.Error(err)
	}
	for n := range len(whole)/int(page) + 1 {
		if err := try(fmt.Sprint("cut to ", n, " pages"), whole[:int64(n)*page]); err == nil && int64(n)*page < int64(len(whole))/2 {
			t.Errorf("%d pages of it are read without an error", n)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		b := bytes.Clone(whole)
		for range 1 + random.IntN(8) {
			// In the parts that the library reads: headers and elements of pages.
			i := 2*int(page) + random.IntN(len(b)/int(page)-2)*int(page) + random.IntN(256)
			b[i] = byte(random.Uint32())
		}
		try("changed at random", b)
	}
}

// A quote without an end takes memory for so many bytes, and no more.
func TestCSVWithoutEnd(t *testing.T) {
	endless := io.MultiReader(strings.NewReader("key,value\na,1\nb,\""), new(blanks))
	g, err := readAll(t, "csv", Source{In: endless, Key: "key"})
	if !errors.Is(err, errLongRow) || g.items != 1 {
		t.Errorf("%d items, %v", g.items, err)
	}
}

// blanks has no end.
type blanks struct{}

func (*blanks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}
