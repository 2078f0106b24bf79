package copal_test

import (
	"bytes"
	"fmt"
	"log"

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

func ExampleDB_PutAsync() {
	db, _ := copal.OpenMemory()
	defer db.Close()

	db.PutAsync([]byte("seen"), []byte("yes"))
	fmt.Println(db.Has([]byte("seen")))
	// Output: true <nil>
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
