// Hello counts how often it has been run.
package main

import (
	"fmt"
	"log"
	"os"

	"github.com/copaldb/copal"
)

type User struct {
	Name string
	Runs int
}

func main() {
	dir := "hello.db"
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	db, err := copal.Open(dir) // a directory; created when it is missing
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	users, err := copal.OpenMap[string, User](db, "users")
	if err != nil {
		log.Fatal(err)
	}

	alice, ok := users.Get("alice")
	fmt.Println(alice, ok)
	alice.Name = "Alice"
	alice.Runs++
	if err := users.Set("alice", alice); err != nil { // survives kill -9 when Set returns
		log.Fatal(err)
	}
	for name, user := range users.All() {
		fmt.Println(name, user)
	}
}
