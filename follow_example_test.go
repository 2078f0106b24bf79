package copal_test

import (
	"fmt"
	"log"
	"os"
	"time"

	"github.com/copaldb/copal"
)

func ExampleDB_Refresh() {
	dir, err := os.MkdirTemp("", "copal")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := copal.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := copal.Set(db, "greeting", "hello"); err != nil {
		log.Fatal(err)
	}

	follower, err := copal.Open(dir, copal.ReadOnly()) // in another process, as a rule
	if err != nil {
		log.Fatal(err)
	}
	defer follower.Close()
	if err := copal.Set(db, "greeting", "goodbye"); err != nil {
		log.Fatal(err)
	}
	if err := follower.Refresh(); err != nil { // without it, the same a moment later
		log.Fatal(err)
	}
	fmt.Println(copal.Load[string](follower, "greeting"))
	// Output: goodbye <nil>
}

func ExampleWithFollowInterval() {
	dir, err := os.MkdirTemp("", "copal")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := copal.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	follower, err := copal.Open(dir, copal.ReadOnly(), copal.WithFollowInterval(5*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	defer follower.Close()
	_, err = copal.Open(dir, copal.ReadOnly(), copal.WithFollowInterval(0))
	fmt.Println(err)
	// Output: copal: WithFollowInterval(0s); it must be positive
}
