package copal_test

import (
	"fmt"
	"log"

	"github.com/copaldb/copal"
)

func ExampleDB_Snapshot() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	users, err := copal.OpenMap[string, User](db, "users")
	if err != nil {
		log.Fatal(err)
	}
	users.Set("alice", User{"Alice", 28})
	db.Raw().Set([]byte("greeting"), []byte("hello"))

	s, err := db.Snapshot() // from here on nothing changes in it
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	users.Set("alice", User{"Alice", 29})
	users.Set("bob", User{"Bob", 40})
	db.Raw().Delete([]byte("greeting"))

	fmt.Println(users.At(s).Get("alice"))
	greeting, err := s.Raw().Load([]byte("greeting"))
	fmt.Println(string(greeting), err)
	fmt.Println(users.Len(), users.At(s).Len())
	// Output:
	// {Alice 28} true
	// hello <nil>
	// 2 1
}

func ExampleMap_At() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	stock, err := copal.OpenMap[string, int](db, "stock")
	if err != nil {
		log.Fatal(err)
	}
	stock.Set("apples", 3)
	stock.Set("pears", 4)
	s, err := db.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	for name, n := range stock.At(s).All() {
		stock.Set(name, n+1) // the loop sees nothing of it
		stock.Set("more "+name, n)
	}
	fmt.Println(stock.At(s).Len(), stock.Len())
	// Output: 2 4
}
