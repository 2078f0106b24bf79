package copal_test

import (
	"fmt"
	"log"
	"time"

	"github.com/copaldb/copal"
)

// fruit is a store with three raw keys, and a snapshot of it.
func fruit() (*copal.DB, *copal.Snapshot) {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"apple", "pear", "plum"} {
		if err := db.Raw().Set([]byte(name), []byte("ripe")); err != nil {
			log.Fatal(err)
		}
	}
	s, err := db.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	return db, s
}

func ExampleSnapshot_Close() {
	db, s := fruit()
	defer db.Close()
	s.Close() // what was kept for it can go
	_, err := s.Raw().Load([]byte("pear"))
	fmt.Println(err)
	// Output:
	// copal: the snapshot is closed
}

func ExampleSnapshot_Seq() {
	db, s := fruit()
	defer db.Close()
	defer s.Close()
	db.Raw().Delete([]byte("pear"))
	later, err := db.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer later.Close()
	fmt.Println(later.Seq() - s.Seq())
	// Output:
	// 1
}

func ExampleSnapshot_Time() {
	db, s := fruit()
	defer db.Close()
	defer s.Close()
	fmt.Println(!s.Time().After(time.Now()))
	// Output:
	// true
}

func ExampleSnapshot_Raw_get() {
	db, s := fruit()
	defer db.Close()
	defer s.Close()
	db.Raw().Set([]byte("pear"), []byte("eaten"))
	value, err := s.Raw().Load([]byte("pear"))
	fmt.Println(string(value), err)
	// Output:
	// ripe <nil>
}

func ExampleSnapshot_Raw_has() {
	db, s := fruit()
	defer db.Close()
	defer s.Close()
	db.Raw().Set([]byte("fig"), []byte("ripe"))
	fmt.Println(s.Raw().Has([]byte("fig")))
	fmt.Println(s.Raw().Has([]byte("plum")))
	// Output:
	// false
	// true
}

func ExampleSnapshot_Raw_scan() {
	db, s := fruit()
	defer db.Close()
	defer s.Close()
	db.Raw().Delete([]byte("pear"))
	for key, value := range s.Raw().Prefix([]byte("p")) {
		fmt.Println(string(key), string(value))
	}
	// Output:
	// pear ripe
	// plum ripe
}

func ExampleSnapshot_Raw_scanKeys() {
	db, s := fruit()
	defer db.Close()
	defer s.Close()
	db.Raw().Delete([]byte("pear"))
	for key := range s.Raw().KeysBetween([]byte("p"), []byte("q")) {
		fmt.Println(string(key))
	}
	// Output:
	// pear
	// plum
}

func ExampleSnapshot_Raw_scanRange() {
	db, s := fruit()
	defer db.Close()
	defer s.Close()
	for key := range s.Raw().Between([]byte("apple"), []byte("plum")) { // without the end
		fmt.Println(string(key))
	}
	// Output:
	// apple
	// pear
}

func ExampleSnapshot_Raw_scanBackward() {
	db, s := fruit()
	defer db.Close()
	defer s.Close()
	for key := range s.Raw().Backward().Between(nil, nil) {
		fmt.Println(string(key))
	}
	// Output:
	// plum
	// pear
	// apple
}

func ExampleSnapshot_Raw_scanRangeKeys() {
	db, s := fruit()
	defer db.Close()
	defer s.Close()
	db.Raw().Delete([]byte("pear"))
	for key := range s.Raw().KeysBetween([]byte("b"), []byte("plum")) {
		fmt.Println(string(key))
	}
	// Output:
	// pear
}
