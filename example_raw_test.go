package copal_test

import (
	"bytes"
	"fmt"
	"log"
	"time"

	"github.com/copaldb/copal"
)

func ExampleDB_PutFSync() {
	db, _ := copal.OpenMemory()
	defer db.Close()

	if err := db.PutFSync([]byte("order:17"), []byte("paid")); err != nil {
		log.Fatal(err) // it is not certain that the order is on the disk
	}
	value, _ := db.Get([]byte("order:17"))
	fmt.Printf("%s\n", value)
	// Output: paid
}

func ExampleDB_DeleteFSync() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	db.Put([]byte("token"), []byte("secret"))

	fmt.Println(db.DeleteFSync([]byte("token")))
	// Output: true <nil>
}

func ExampleDB_AppendGet() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	db.Put([]byte("a"), []byte("1"))
	db.Put([]byte("b"), []byte("2"))

	var buf []byte
	for _, key := range []string{"a", "b"} {
		var err error
		if buf, err = db.AppendGet(buf[:0], []byte(key)); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %s\n", key, buf)
	}
	// Output:
	// a 1
	// b 2
}

func ExampleDB_ViewValue() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	db.Put([]byte("page"), []byte("line one\nline two\n"))

	var lines int
	err := db.ViewValue([]byte("page"), func(value []byte) error {
		lines = bytes.Count(value, []byte("\n"))
		return nil
	})
	fmt.Println(lines, err)
	// Output: 2 <nil>
}

func ExampleDB_Len() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	users, _ := copal.OpenMap[string, User](db, "users")
	users.Set("alice", User{"Alice", 28})
	db.Put([]byte("raw"), nil)

	fmt.Println(db.Len(), users.Len())
	// Output: 2 1
}

func ExampleDB_NewBatch() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	db.Put([]byte("account:alice"), []byte("10"))

	b := db.NewBatch()
	b.Put([]byte("account:alice"), []byte("7"))
	b.Put([]byte("account:bob"), []byte("3"))
	if err := b.Write(); err != nil {
		log.Fatal(err) // neither has changed
	}
	for key, value := range db.Scan([]byte("account:")) {
		fmt.Printf("%s %s\n", key, value)
	}
	// Output:
	// account:alice 7
	// account:bob 3
}

func ExampleBatch_Put() {
	db, _ := copal.OpenMemory()
	defer db.Close()

	b := db.NewBatch()
	b.Put([]byte("k"), []byte("first"))
	b.Put([]byte("k"), []byte("second")) // the last counts
	fmt.Println(b.Len(), b.Write())
	value, _ := db.Get([]byte("k"))
	fmt.Printf("%s\n", value)
	// Output:
	// 1 <nil>
	// second
}

func ExampleBatch_PutTTL() {
	db, _ := copal.OpenMemory()
	defer db.Close()

	b := db.NewBatch()
	fmt.Println(b.PutTTL([]byte("session"), []byte("alice"), time.Hour), b.Write())
	left, _ := db.TTL([]byte("session"))
	fmt.Println(left > 59*time.Minute)
	// Output:
	// <nil> <nil>
	// true
}

func ExampleBatch_Delete() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	db.Put([]byte("old name"), []byte("v"))

	b := db.NewBatch()
	b.Delete([]byte("old name"))
	b.Put([]byte("new name"), []byte("v"))
	fmt.Println(b.Write(), db.Len())
	// Output: <nil> 1
}

func ExampleBatch_Len() {
	db, _ := copal.OpenMemory()
	defer db.Close()

	b := db.NewBatch()
	for i := range 3 {
		b.Put(fmt.Append(nil, "key", i), nil)
	}
	fmt.Println(b.Len(), db.Len())
	// Output: 3 0
}

func ExampleBatch_Write() {
	db, _ := copal.OpenMemory()
	defer db.Close()

	// Many entries, a thousand at a time.
	b := db.NewBatch()
	for i := range 2500 {
		b.Put(fmt.Appendf(nil, "row:%05d", i), []byte("…"))
		if b.Len() == 1000 {
			if err := b.Write(); err != nil {
				log.Fatal(err)
			}
			b.Reset()
		}
	}
	if err := b.Write(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(db.Len())
	// Output: 2500
}

func ExampleBatch_WriteFSync() {
	db, _ := copal.OpenMemory()
	defer db.Close()

	b := db.NewBatch()
	b.Put([]byte("order:17"), []byte("paid"))
	b.Put([]byte("stock:apples"), []byte("41"))
	fmt.Println(b.WriteFSync()) // one sync for both
	// Output: <nil>
}

func ExampleBatch_Reset() {
	db, _ := copal.OpenMemory()
	defer db.Close()

	b := db.NewBatch()
	b.Put([]byte("k"), nil)
	b.Reset()
	fmt.Println(b.Len(), b.Write(), db.Len())
	// Output: 0 <nil> 0
}
