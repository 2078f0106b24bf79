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

func ExampleRaw_Create() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	upload := func(key string, r io.Reader) error {
		w, err := db.Raw().WithContext(context.Background()).Create([]byte(key))
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
	r, err := db.Raw().Open([]byte("backup.tar"))
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	fmt.Println(r.Size())
	// Output:
	// 11000000
}

func ExampleRaw_Open() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	db.Raw().Set([]byte("song"), []byte("do re mi fa sol"))
	r, err := db.Raw().Open([]byte("song"))
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	db.Raw().Delete([]byte("song")) // which the reader does not see

	if _, err := r.Seek(-6, io.SeekEnd); err != nil {
		log.Fatal(err)
	}
	io.Copy(os.Stdout, r)
	// Output:
	// fa sol
}

func ExampleSnapshot_Raw_openValue() {
	db, s := fruit()
	defer db.Close()
	defer s.Close()
	db.Raw().Set([]byte("pear"), []byte("eaten"))
	r, err := s.Raw().Open([]byte("pear"))
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	value, err := io.ReadAll(r)
	fmt.Println(string(value), err)
	// Output:
	// ripe <nil>
}
