package copal_test

import (
	"fmt"
	"log"

	"github.com/copaldb/copal"
)

func ExampleMap_History() {
	db, _ := copal.OpenMemory(copal.WithHistory(copal.Forever))
	defer db.Close()
	prices, _ := copal.OpenMap[string, int](db, "prices")
	for _, price := range []int{90, 120, 95} {
		prices.Set("apple", price)
	}
	for version, err := range prices.History("apple") { // the newest first
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(version.Value)
	}
	// Output:
	// 95
	// 120
	// 90
}

func ExampleRaw_History() {
	db, _ := copal.OpenMemory(copal.WithHistory(copal.Forever))
	defer db.Close()
	raw := db.Raw()
	raw.Set([]byte("motd"), []byte("hello"))
	raw.Delete([]byte("motd"))
	for version := range raw.History([]byte("motd")) {
		fmt.Printf("%q %v\n", version.Value, version.Deleted)
	}
	// Output:
	// "" true
	// "hello" false
}

func ExampleVersion() {
	db, _ := copal.OpenMemory(copal.WithHistory(copal.Forever))
	defer db.Close()
	prices, _ := copal.OpenMap[string, int](db, "prices")
	prices.Set("apple", 90)
	prices.Set("pear", 70)
	prices.Set("apple", 95)
	for version := range prices.History("apple") {
		then, err := db.AsOfSeq(version.Seq) // all else as it was when the price changed
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(version.Value, prices.At(then).Len())
		then.Close()
	}
	// Output:
	// 95 2
	// 90 1
}
