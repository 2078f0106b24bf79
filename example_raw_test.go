package copal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/copaldb/copal"
)

func ExampleRaw_SetFSync() {
	db, _ := copal.OpenMemory()
	defer db.Close()

	if err := db.Raw().SetFSync([]byte("order:17"), []byte("paid")); err != nil {
		log.Fatal(err) // it is not certain that the order is on the disk
	}
	value, _ := db.Raw().Load([]byte("order:17"))
	fmt.Printf("%s\n", value)
	// Output: paid
}

func ExampleRaw_DeleteFSync() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	db.Raw().Set([]byte("token"), []byte("secret"))

	fmt.Println(db.Raw().DeleteFSync([]byte("token")))
	// Output: true <nil>
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

func ExampleRaw_View_append() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	db.Raw().Set([]byte("a"), []byte("one, "))
	db.Raw().Set([]byte("b"), []byte("two"))

	var dst []byte
	for _, key := range []string{"a", "b"} {
		err := db.Raw().View([]byte(key), func(v []byte) error {
			dst = append(dst, v...) // v is not to be kept
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	fmt.Printf("%s\n", dst)
	// Output: one, two
}

func ExampleRaw_Len() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	users, _ := copal.OpenMap[string, User](db, "users")
	users.Set("alice", User{"Alice", 28})
	db.Raw().Set([]byte("raw"), nil)

	fmt.Println(db.Raw().Len(), users.Len())
	// Output: 2 1
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

func ExampleBatch_Set() {
	db, _ := copal.OpenMemory()
	defer db.Close()

	b := db.Raw().Batch()
	b.Set([]byte("k"), []byte("first"))
	b.Set([]byte("k"), []byte("second")) // the last counts
	fmt.Println(b.Len(), b.Commit())
	value, _ := db.Raw().Load([]byte("k"))
	fmt.Printf("%s\n", value)
	// Output:
	// 1 <nil>
	// second
}

func ExampleBatch_SetTTL() {
	db, _ := copal.OpenMemory()
	defer db.Close()

	b := db.Raw().Batch()
	fmt.Println(b.SetTTL([]byte("session"), []byte("alice"), time.Hour), b.Commit())
	left, _ := db.Raw().TTL([]byte("session"))
	fmt.Println(left > 59*time.Minute)
	// Output:
	// <nil> <nil>
	// true
}

func ExampleBatch_Delete() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	db.Raw().Set([]byte("old name"), []byte("v"))

	b := db.Raw().Batch()
	b.Delete([]byte("old name"))
	b.Set([]byte("new name"), []byte("v"))
	fmt.Println(b.Commit(), db.Raw().Len())
	// Output: <nil> 1
}

func ExampleBatch_Len() {
	db, _ := copal.OpenMemory()
	defer db.Close()

	b := db.Raw().Batch()
	for i := range 3 {
		b.Set(fmt.Append(nil, "key", i), nil)
	}
	fmt.Println(b.Len(), db.Raw().Len())
	// Output: 3 0
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

func ExampleBatch_Commit_fSync() {
	db, _ := copal.OpenMemory()
	defer db.Close()

	b := db.Raw().With(copal.FSync).Batch()
	b.Set([]byte("order:17"), []byte("paid"))
	b.Set([]byte("stock:apples"), []byte("41"))
	fmt.Println(b.Commit()) // one sync for both
	// Output: <nil>
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

// What begins with "e" is an entry of a stream, and the bytes behind it are its id. A program may look at
// what the Redis door has written.
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

// A watch tells when a raw key expires, if the store is asked to.
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
