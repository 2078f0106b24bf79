package copal_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/copaldb/copal"
)

func ExampleDB_Create() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	upload := func(key string, r io.Reader) error {
		w, err := db.Create(context.Background(), []byte(key))
		if err != nil {
			return err
		}
		defer w.Close()
		if _, err := io.Copy(w, r); err != nil {
			return err // nothing of it shows
		}
		return w.Commit()
	}
	if err := upload("backup.tar", strings.NewReader(strings.Repeat("some bytes ", 1_000_000))); err != nil {
		log.Fatal(err)
	}
	r, err := db.OpenValue([]byte("backup.tar"))
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	fmt.Println(r.Size())
	// Output:
	// 11000000
}

func ExampleDB_OpenValue() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	db.Put([]byte("song"), []byte("do re mi fa sol"))
	r, err := db.OpenValue([]byte("song"))
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	db.Delete([]byte("song")) // which the reader does not see

	if _, err := r.Seek(-6, io.SeekEnd); err != nil {
		log.Fatal(err)
	}
	io.Copy(os.Stdout, r)
	// Output:
	// fa sol
}

func ExampleSnapshot_OpenValue() {
	db, s := fruit()
	defer db.Close()
	defer s.Close()
	db.Put([]byte("pear"), []byte("eaten"))
	r, err := s.OpenValue([]byte("pear"))
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	value, err := io.ReadAll(r)
	fmt.Println(string(value), err)
	// Output:
	// ripe <nil>
}
