package copal_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/copaldb/copal"
)

// A transaction moves money from one account to another: both change, or none.
func ExampleDB_Update() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	balance, err := copal.OpenMap[string, int](db, "balance")
	if err != nil {
		log.Fatal(err)
	}
	if err := balance.Set("alice", 100); err != nil {
		log.Fatal(err)
	}
	move := func(from, to string, amount int) error {
		return db.Update(func(tx *copal.Tx) error {
			b := balance.In(tx)
			had, _ := b.Get(from)
			if had < amount {
				return errors.New(from + " has not enough")
			}
			has, _ := b.Get(to)
			return errors.Join(b.Set(from, had-amount), b.Set(to, has+amount))
		})
	}
	fmt.Println(move("alice", "bob", 30))
	fmt.Println(move("bob", "alice", 50))
	err = db.View(func(tx *copal.Tx) error { // both as they were at one moment
		alice, _ := balance.In(tx).Get("alice")
		bob, _ := balance.In(tx).Get("bob")
		fmt.Println(alice, bob)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// <nil>
	// bob has not enough
	// 70 30
}
