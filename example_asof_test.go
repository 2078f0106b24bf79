package copal_test

import (
	"fmt"
	"log"
	"time"

	"github.com/copaldb/copal"
)

func ExampleDB_AsOf() {
	db, _ := copal.OpenMemory(copal.WithHistory(7 * 24 * time.Hour))
	defer db.Close()
	prices, _ := copal.OpenMap[string, int](db, "prices")
	prices.Set("apple", 90)
	morning := time.Now()
	time.Sleep(2 * time.Millisecond)
	prices.Set("apple", 95)

	then, err := db.AsOf(morning)
	if err != nil {
		log.Fatal(err)
	}
	defer then.Close()
	price, _ := prices.At(then).Get("apple")
	fmt.Println(price)
	// Output: 90
}

func ExampleDB_AsOfSeq() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	db.Raw().Set([]byte("a"), []byte("1"))
	db.Raw().Set([]byte("a"), []byte("2"))

	first, err := db.AsOfSeq(1) // the record of the first write
	if err != nil {
		log.Fatal(err)
	}
	defer first.Close()
	value, _ := first.Raw().Get([]byte("a"))
	fmt.Printf("%s\n", value)
	// Output: 1
}
