package copal_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/copaldb/copal"
)

// pupils is a map of names to years of birth, in order, and a snapshot of its store. Since then all have left.
func pupils() (*copal.DB, *copal.Map[string, int]) {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	m, err := copal.OpenMap[string, int](db, "pupils", copal.Ordered())
	if err != nil {
		log.Fatal(err)
	}
	born := map[string]int{"Ada": 1815, "Alan": 1912, "Grace": 1906}
	for name, year := range born {
		if err := m.Set(name, year); err != nil {
			log.Fatal(err)
		}
	}
	s, err := db.Snapshot() // ends with the store, as nobody closes it
	if err != nil {
		log.Fatal(err)
	}
	for name := range born {
		if _, err := m.Delete(name); err != nil {
			log.Fatal(err)
		}
	}
	return db, m.At(s)
}

func ExampleMap_At_get() {
	db, then := pupils()
	defer db.Close()
	fmt.Println(then.Get("Ada"))
	// Output:
	// 1815 true
}

func ExampleMap_At_load() {
	db, then := pupils()
	defer db.Close()
	_, err := then.Load("Tim")
	fmt.Println(errors.Is(err, copal.ErrNotFound))
	// Output:
	// true
}

func ExampleMap_At_has() {
	db, then := pupils()
	defer db.Close()
	fmt.Println(then.Has("Alan"))
	// Output:
	// true
}

func ExampleMap_At_len() {
	db, then := pupils()
	defer db.Close()
	fmt.Println(then.Len())
	// Output:
	// 3
}

func ExampleMap_At_all() {
	db, then := pupils()
	defer db.Close()
	for name, year := range then.All() {
		fmt.Println(name, year)
	}
	// Output:
	// Ada 1815
	// Alan 1912
	// Grace 1906
}

func ExampleMap_At_keys() {
	db, then := pupils()
	defer db.Close()
	for x := range then.Keys() {
		fmt.Println(x)
	}
	// Output:
	// Ada
	// Alan
	// Grace
}

func ExampleMap_At_values() {
	db, then := pupils()
	defer db.Close()
	for x := range then.Values() {
		fmt.Println(x)
	}
	// Output:
	// 1815
	// 1912
	// 1906
}

func ExampleMap_At_from() {
	db, then := pupils()
	defer db.Close()
	for name, year := range then.From("Alan") {
		fmt.Println(name, year)
	}
	// Output:
	// Alan 1912
	// Grace 1906
}

func ExampleMap_At_backward() {
	db, then := pupils()
	defer db.Close()
	for name, year := range then.Backward().Until("Grace") {
		fmt.Println(name, year)
	}
	// Output:
	// Alan 1912
	// Ada 1815
}

func ExampleMap_At_until() {
	db, then := pupils()
	defer db.Close()
	for name, year := range then.Backward().Until("Alan") {
		fmt.Println(name, year)
	}
	// Output:
	// Ada 1815
}

func ExampleMap_At_between() {
	db, then := pupils()
	defer db.Close()
	for name, year := range then.Between("Ada", "Grace") {
		fmt.Println(name, year)
	}
	// Output:
	// Ada 1815
	// Alan 1912
}

func ExampleMap_At_backwardalso() {
	db, then := pupils()
	defer db.Close()
	for name, year := range then.Backward().All() {
		fmt.Println(name, year)
	}
	// Output:
	// Grace 1906
	// Alan 1912
	// Ada 1815
}

func ExampleMap_At_prefix() {
	db, then := pupils()
	defer db.Close()
	for name := range then.Prefix("A") {
		fmt.Println(name)
	}
	// Output:
	// Ada
	// Alan
}

func ExampleMap_At_last() {
	db, then := pupils()
	defer db.Close()
	for name, year := range then.Backward().All() {
		fmt.Println(name, year)
		break
	}
	// Output:
	// Grace 1906
}

func ExampleMap_At_keysBetween() {
	db, then := pupils()
	defer db.Close()
	for name := range then.KeysBetween("B", "H") {
		fmt.Println(name)
	}
	// Output:
	// Grace
}
