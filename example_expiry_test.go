package copal_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/copaldb/copal"
)

// sessions is a map in a store of its own, which the examples leave to the end of the program.
func sessions(opts ...copal.MapOption) *copal.Map[string, User] {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	m, err := copal.OpenMap[string, User](db, "sessions", opts...)
	if err != nil {
		log.Fatal(err)
	}
	return m
}

func ExampleMap_SetTTL() {
	m := sessions()
	if err := m.SetTTL("7f3a", User{"Alice", 28}, time.Hour); err != nil {
		log.Fatal(err)
	}
	ttl, err := m.TTL("7f3a")
	fmt.Println(ttl.Round(time.Minute), err)

	m.Set("7f3a", User{"Alice", 29}) // without one, it stays
	ttl, err = m.TTL("7f3a")
	fmt.Println(ttl, err)
	// Output:
	// 1h0m0s <nil>
	// 0s <nil>
}

func ExampleMap_With() {
	m := sessions()
	err := m.With(copal.FSync).SetTTL("7f3a", User{"Alice", 28}, time.Hour) // on the disk, deadline and all
	fmt.Println(err, m.Len())
	// Output: <nil> 1
}

func ExampleWithTTL() {
	m := sessions(copal.WithTTL(30 * time.Minute))
	m.Set("7f3a", User{"Alice", 28})
	m.Update("7f3a", func(u *copal.Entry[User]) error {
		u.Value.Age++         // an update leaves the deadline as it is
		u.TTL = 2 * time.Hour // unless it says so

		return nil
	})
	ttl, _ := m.TTL("7f3a")
	fmt.Println(ttl.Round(time.Minute))
	// Output: 2h0m0s
}

func ExampleWithOnExpire() {
	gone := make(chan string)
	m := sessions(copal.WithOnExpire(func(key string, u User) { gone <- key + " of " + u.Name }))
	m.SetTTL("7f3a", User{"Alice", 28}, time.Millisecond)
	fmt.Println(<-gone)
	// Output: 7f3a of Alice
}

// An entry that goes at a moment.
func ExampleMap_deadlines() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	offers, _ := copal.OpenMap[string, int](db, "offers")
	end := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

	offers.SetUntil("pear", 3, end)
	err := offers.ExpireAt("pear", end.Add(time.Hour))
	at, _ := offers.WithContext(context.Background()).Deadline("pear")
	fmt.Println(at, err)
	// Output: 2100-01-01 01:00:00 +0000 UTC <nil>
}
