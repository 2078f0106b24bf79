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

// A person reads a page and edits it. Require refuses to save if the page has changed since.
func ExampleTx_Require() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	pages, err := copal.OpenMap[string, string](db, "pages")
	if err != nil {
		log.Fatal(err)
	}
	if err := pages.Set("home", "Hello"); err != nil {
		log.Fatal(err)
	}
	save := func(seen *copal.Snapshot, text string) error {
		return db.Update(func(tx *copal.Tx) error {
			if err := tx.Require(seen, append(copal.MapPrefix("pages"), "home"...)); err != nil {
				return err
			}
			return pages.In(tx).Set("home", text)
		})
	}
	alice, err := db.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer alice.Close()
	bob, err := db.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer bob.Close()
	fmt.Println(save(alice, "Hello, world"))
	fmt.Println(errors.Is(save(bob, "Hi"), copal.ErrChanged))
	fmt.Println(pages.Get("home"))
	// Output:
	// <nil>
	// true
	// Hello, world true
}

// agesForTx is a store with a map of two entries.
func agesForTx() (*copal.DB, *copal.Map[string, int]) {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	ages, err := copal.OpenMap[string, int](db, "ages")
	if err == nil {
		err = errors.Join(ages.Set("alice", 28), ages.Set("bob", 35))
	}
	if err != nil {
		log.Fatal(err)
	}
	return db, ages
}

func ExampleDB_View() {
	db, ages := agesForTx()
	defer db.Close()
	err := db.View(func(tx *copal.Tx) error {
		m := ages.In(tx)
		alice, _ := m.Get("alice")
		bob, _ := m.Get("bob")
		fmt.Println(alice, bob) // as they were at one moment
		return nil
	})
	fmt.Println(err)
	// Output:
	// 28 35
	// <nil>
}

func ExampleMap_In() {
	db, ages := agesForTx()
	defer db.Close()
	err := db.Update(func(tx *copal.Tx) error {
		return errors.Join(ages.In(tx).Set("carol", 41), tx.Raw().Set([]byte("newest"), []byte("carol"))) // both, or none
	})
	fmt.Println(err, ages.Len())
	// Output:
	// <nil> 3
}
