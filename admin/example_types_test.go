package admin_test

import (
	"fmt"
	"log"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

func ExampleTypes() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	type User struct {
		Name string
		Age  int
	}
	users, err := copal.OpenMap[string, User](db, "users")
	if err != nil {
		log.Fatal(err)
	}
	if err := users.Set("alice", User{"Alice", 28}); err != nil {
		log.Fatal(err)
	}
	types, err := admin.Types(db, "users")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(types)
	// Output: [{json struct{Name string; Age int}}]
}
