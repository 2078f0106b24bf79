package copal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/copaldb/copal"
)

func ExampleRaw_SetUntil() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	key := []byte("ticket")
	midnight := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	err = db.Raw().SetUntil(key, []byte("one entry"), midnight)
	deadline, _ := db.Raw().Deadline(key)
	fmt.Println(err, deadline)

	err = db.Raw().SetUntil(key, nil, time.UnixMilli(0).UTC())
	fmt.Println(err)
	// Output:
	// <nil> 2100-01-01 00:00:00 +0000 UTC
	// copal: deadline 1970-01-01T00:00:00Z has passed
}

func ExampleRaw_View() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	db.Raw().Set([]byte("page"), []byte("line one\nline two\n"))

	var lines int
	err := db.Raw().View([]byte("page"), func(value []byte) error {
		lines = bytes.Count(value, []byte("\n"))
		return nil
	})
	fmt.Println(lines, err)
	// Output: 2 <nil>
}

func ExampleRaw_Batch() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	db.Raw().Set([]byte("account:alice"), []byte("10"))

	b := db.Raw().Batch()
	b.Set([]byte("account:alice"), []byte("7"))
	b.Set([]byte("account:bob"), []byte("3"))
	if err := b.Commit(); err != nil {
		log.Fatal(err) // neither has changed
	}
	for key, value := range db.Raw().Prefix([]byte("account:")) {
		fmt.Printf("%s %s\n", key, value)
	}
	// Output:
	// account:alice 7
	// account:bob 3
}

func ExampleBatch_Commit() {
	db, _ := copal.OpenMemory()
	defer db.Close()

	// Many entries, a thousand at a time.
	b := db.Raw().Batch()
	for i := range 2500 {
		b.Set(fmt.Appendf(nil, "row:%05d", i), []byte("…"))
		if b.Len() == 1000 {
			if err := b.Commit(); err != nil { // b is empty then
				log.Fatal(err)
			}
		}
	}
	if err := b.Commit(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(db.Raw().Len())
	// Output: 2500
}

// A program that knows no types asks what a key holds, and reads it as bytes.
func ExampleRaw_Type() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	raw := db.Raw()
	if err := errors.Join(raw.Set([]byte("greeting"), []byte("hello")), raw.SortedSet([]byte("scores")).Set("ann", 7)); err != nil {
		log.Fatal(err)
	}
	if _, err := raw.StringSet([]byte("tags")).Add("new", "blue"); err != nil {
		log.Fatal(err)
	}
	for key := range raw.Keys() {
		kind, err := raw.Type(key)
		fmt.Println(string(key), kind, err)
	}
	// Output:
	// greeting value <nil>
	// scores zset <nil>
	// tags set <nil>
}

// An element whose name begins with "e" is an entry of the stream; the other bytes of the name are its id. A program
// can read the streams that clients of the Redis server have written.
func ExampleRaw_Stream() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	raw := db.Raw()
	id := string([]byte{15: 7}) // 0-7
	if err := raw.Stream([]byte("events")).Set("e"+id, []byte("\x04what\x05start")); err != nil {
		log.Fatal(err)
	}
	fmt.Println(raw.Type([]byte("events")))
	fmt.Println(raw.Stream([]byte("events")).Count("e", "f"))
	// Output:
	// stream <nil>
	// 1
}

// After TellExpiry a watch yields a change when a raw key expires.
func ExampleRaw_TellExpiry() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	raw := db.Raw()
	if err := raw.TellExpiry(); err != nil {
		log.Fatal(err)
	}
	changes := db.Watch(context.Background())
	if err := raw.SetTTL([]byte("session"), []byte("Ada"), time.Millisecond); err != nil {
		log.Fatal(err)
	}
	for c, err := range changes {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s expired: %v\n", c.Key, c.Expired)
		if c.Expired {
			break
		}
	}
	// Output:
	// session expired: false
	// session expired: true
}

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
			return err // the key keeps its old value
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
	db.Raw().Delete([]byte("song")) // the reader still has the value

	if _, err := r.Seek(-6, io.SeekEnd); err != nil {
		log.Fatal(err)
	}
	io.Copy(os.Stdout, r)
	// Output:
	// fa sol
}

// Commit fails when the context of the handle is done.
func ExampleValueWriter() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	w, err := db.Raw().Create([]byte("film"))
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()
	io.Copy(w, strings.NewReader("a long story"))
	fmt.Println(w.Size(), w.Commit())
	// Output: 12 <nil>
}

func ExampleValueReader() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	db.Raw().Set([]byte("film"), []byte("a long story"))
	r, err := db.Raw().Open([]byte("film"))
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	part := make([]byte, 4)
	r.ReadAt(part, 2)
	fmt.Printf("%s, %d bytes\n", part, r.Size())
	// Output: long, 12 bytes
}

// The same verbs on bytes.
func ExampleRaw_verbs() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	raw := db.Raw()
	key, more := []byte("seats"), func(e *copal.Entry[[]byte]) error {
		e.Value = append(e.Value, '*')
		return nil
	}
	now, found, err := raw.GetOrSet(key, []byte("*"))
	fmt.Printf("%s %v %v\n", now, found, err)
	now, exists, err := raw.Update(key, more)
	fmt.Printf("%s %v %v\n", now, exists, err)
	now, exists, err = raw.UpdateFSync(key, more) // this one survives the loss of power
	fmt.Printf("%s %v %v\n", now, exists, err)
	now, exists, err = raw.GetAndDelete(key)
	fmt.Printf("%s %v %v\n", now, exists, err)
	// Output:
	// * false <nil>
	// ** true <nil>
	// *** true <nil>
	// *** true <nil>
}

// Handles of bytes read and write a transaction, and a snapshot.
func ExampleRaw_handles() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	raw := db.Raw()
	raw.With(copal.FSync).Set([]byte("a"), []byte("1"))
	then, err := db.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer then.Close()
	err = db.Update(func(tx *copal.Tx) error { return raw.In(tx).Set([]byte("b"), []byte("2")) })
	for key, value := range raw.All() {
		fmt.Printf("%s %s\n", key, value)
	}
	for key := range raw.At(then).Keys() {
		fmt.Printf("%s was there\n", key)
	}
	for key := range raw.Until([]byte("b")) { // but not b
		fmt.Printf("%s\n", key)
	}
	fmt.Println(err)
	// Output:
	// a 1
	// b 2
	// a was there
	// a
	// <nil>
}
