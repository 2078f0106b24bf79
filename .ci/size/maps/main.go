// Command maps is opens that also keeps a typed map.
package main

import (
	"fmt"

	"github.com/copaldb/copal"
)

type user struct {
	Name string
	Age  int
}

func main() {
	users, err := copal.OpenSingleMap[string, user]("users.db")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer users.Close()
	if err := users.Set("alice", user{"Alice", 28}); err != nil {
		fmt.Println(err)
	}
	alice, ok := users.Get("alice")
	fmt.Println(alice, ok)
}
