package copal_test

import (
	"fmt"
	"log"

	"github.com/copaldb/copal"
)

// pupils is a map of names to years of birth, in order, and a snapshot of its store. Since then all have left.
func pupils() (*copal.DB, *copal.MapAt[string, int]) {
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

func ExampleMapAt_Get() {
	db, then := pupils()
	defer db.Close()
	fmt.Println(then.Get("Ada"))
	// Output:
	// 1815 true
}

func ExampleMapAt_Load() {
	db, then := pupils()
	defer db.Close()
	_, err := then.Load("Tim")
	fmt.Println(err == copal.ErrNotFound)
	// Output:
	// true
}

func ExampleMapAt_Has() {
	db, then := pupils()
	defer db.Close()
	fmt.Println(then.Has("Alan"))
	// Output:
	// true
}

func ExampleMapAt_Len() {
	db, then := pupils()
	defer db.Close()
	fmt.Println(then.Len())
	// Output:
	// 3
}

func ExampleMapAt_All() {
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

func ExampleMapAt_Keys() {
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

func ExampleMapAt_Values() {
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

func ExampleMapAt_Ascend() {
	db, then := pupils()
	defer db.Close()
	for name, year := range then.Ascend("Alan") {
		fmt.Println(name, year)
	}
	// Output:
	// Alan 1912
	// Grace 1906
}

func ExampleMapAt_Descend() {
	db, then := pupils()
	defer db.Close()
	for name, year := range then.Descend("Alan") {
		fmt.Println(name, year)
	}
	// Output:
	// Alan 1912
	// Ada 1815
}

func ExampleMapAt_After() {
	db, then := pupils()
	defer db.Close()
	for name, year := range then.After("Alan") {
		fmt.Println(name, year)
	}
	// Output:
	// Grace 1906
}

func ExampleMapAt_Before() {
	db, then := pupils()
	defer db.Close()
	for name, year := range then.Before("Alan") {
		fmt.Println(name, year)
	}
	// Output:
	// Ada 1815
}

func ExampleMapAt_Between() {
	db, then := pupils()
	defer db.Close()
	for name, year := range then.Between("Ada", "Grace") {
		fmt.Println(name, year)
	}
	// Output:
	// Ada 1815
	// Alan 1912
}

func ExampleMapAt_Backward() {
	db, then := pupils()
	defer db.Close()
	for name, year := range then.Backward() {
		fmt.Println(name, year)
	}
	// Output:
	// Grace 1906
	// Alan 1912
	// Ada 1815
}

func ExampleMapAt_Prefix() {
	db, then := pupils()
	defer db.Close()
	for name := range then.Prefix("A") {
		fmt.Println(name)
	}
	// Output:
	// Ada
	// Alan
}

func ExampleMapAt_First() {
	db, then := pupils()
	defer db.Close()
	fmt.Println(then.First())
	// Output:
	// Ada 1815 true
}

func ExampleMapAt_Last() {
	db, then := pupils()
	defer db.Close()
	fmt.Println(then.Last())
	// Output:
	// Grace 1906 true
}

func ExampleMapAt_KeysFrom() {
	db, then := pupils()
	defer db.Close()
	for name := range then.KeysFrom("B") {
		fmt.Println(name)
	}
	// Output:
	// Grace
}
