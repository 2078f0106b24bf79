package copal_test

import (
	"errors"
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

func ExampleMap_With_async() {
	m := sessions()
	m.With(copal.Async).SetTTL("7f3a", User{"Alice", 28}, time.Millisecond) // for caches: never written if it is gone by then
	time.Sleep(2 * time.Millisecond)
	_, ok := m.Get("7f3a")
	fmt.Println(ok, m.Len())
	// Output: false 0
}

func ExampleMap_TTL() {
	m := sessions()
	m.SetTTL("7f3a", User{"Alice", 28}, 24*time.Hour)
	m.Set("admin", User{"Root", 60})

	ttl, err := m.TTL("7f3a")
	fmt.Println(ttl.Round(time.Hour), err)
	ttl, err = m.TTL("admin")
	fmt.Println(ttl, err)
	_, err = m.TTL("nobody")
	fmt.Println(errors.Is(err, copal.ErrNotFound))
	// Output:
	// 24h0m0s <nil>
	// 0s <nil>
	// true
}

func ExampleMap_Expire() {
	m := sessions()
	m.Set("7f3a", User{"Alice", 28})
	err := m.Expire("7f3a", time.Hour) // the value stays, and need not be known
	ttl, _ := m.TTL("7f3a")
	fmt.Println(err, ttl.Round(time.Minute))
	// Output: <nil> 1h0m0s
}

func ExampleMap_Persist() {
	m := sessions(copal.WithTTL(time.Hour))
	m.Set("7f3a", User{"Alice", 28})
	err := m.Persist("7f3a")
	ttl, _ := m.TTL("7f3a")
	fmt.Println(err, ttl)
	// Output: <nil> 0s
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

func ExampleRaw_SetTTL() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	err := db.Raw().SetTTL([]byte("page:/"), []byte("<html>"), time.Hour)
	ttl, _ := db.Raw().TTL([]byte("page:/"))
	fmt.Println(err, ttl.Round(time.Minute))
	// Output: <nil> 1h0m0s
}

func ExampleRaw_TTL() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	_, err := db.Raw().TTL([]byte("page:/"))
	fmt.Println(errors.Is(err, copal.ErrNotFound))
	// Output: true
}

func ExampleRaw_Expire() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	copal.Set(db, "token", "s3cret") // single values and the entries of maps are raw entries, too
	fmt.Println(db.Raw().Expire([]byte("token"), time.Hour))
	// Output: <nil>
}

func ExampleRaw_Persist() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	db.Raw().SetTTL([]byte("page:/"), []byte("<html>"), time.Minute)
	fmt.Println(db.Raw().Persist([]byte("page:/")))
	// Output: <nil>
}
