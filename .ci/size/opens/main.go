// Command opens is hello that also opens a store.
package main

import (
	"fmt"

	"github.com/copaldb/copal"
)

func main() {
	db, err := copal.Open("app.db")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	fmt.Println("hello, world")
}
