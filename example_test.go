package copal_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/copaldb/copal"
)

// The examples are the manual. Most keep their store in memory, to leave nothing on
// your disk; all would read the same with copal.Open("app.db").

// User is the type of most values in the examples.
type User struct {
	Name string
	Age  int
}

// tempDir returns the path of a directory that does not exist yet.
func tempDir() string {
	parent, err := os.MkdirTemp("", "copal-example-")
	if err != nil {
		log.Fatal(err)
	}
	return filepath.Join(parent, "app.db")
}

func Example() {
	dir := tempDir() // you would write "app.db"
	defer os.RemoveAll(filepath.Dir(dir))

	db, err := copal.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	users, err := copal.OpenMap[string, User](db, "users")
	if err != nil {
		log.Fatal(err)
	}
	if err := users.Set("alice", User{Name: "Alice", Age: 28}); err != nil {
		log.Fatal(err)
	}
	if err := db.Close(); err != nil {
		log.Fatal(err)
	}

	// Tomorrow:
	db, err = copal.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	users, err = copal.OpenMap[string, User](db, "users")
	if err != nil {
		log.Fatal(err)
	}
	alice, ok := users.Get("alice")
	fmt.Println(alice.Name, alice.Age, ok)
	// Output: Alice 28 true
}

func ExampleOpen() {
	dir := tempDir()
	defer os.RemoveAll(filepath.Dir(dir))

	db, err := copal.Open(dir) // made when it is missing
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	// One process at a time may write. The text of the error names the holder.
	_, err = copal.Open(dir)
	fmt.Println(errors.Is(err, copal.ErrLocked))
	// Output: true
}

func ExampleOpenMemory() {
	db, err := copal.OpenMemory() // as Open, and gone after Close
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	hits, err := copal.OpenMap[string, int](db, "hits")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(hits.Set("/", 1), hits.Len())
	// Output: <nil> 1
}

func ExampleOpenMap() {
	db, _ := copal.OpenMemory()
	defer db.Close()

	// Any number of maps, each with types of its own.
	users, err := copal.OpenMap[string, User](db, "users")
	if err != nil {
		log.Fatal(err)
	}
	logins, err := copal.OpenMap[time.Time, string](db, "logins")
	if err != nil {
		log.Fatal(err)
	}
	users.Set("alice", User{"Alice", 28})
	logins.Set(time.Date(2024, 2, 29, 12, 30, 0, 0, time.UTC), "alice")

	// OpenMap refuses types that cannot be stored.
	_, err = copal.OpenMap[string, chan int](db, "channels")
	fmt.Println(users.Len(), logins.Len(), errors.Is(err, copal.ErrType))
	// Output: 1 1 true
}

func ExampleOpenSingleMap() {
	dir := tempDir()
	defer os.RemoveAll(filepath.Dir(dir))

	users, err := copal.OpenSingleMap[string, User](dir)
	if err != nil {
		log.Fatal(err)
	}
	defer users.Close() // closes the store as well

	err = users.Set("alice", User{"Alice", 28})
	fmt.Println(users.Len(), err)
	// Output: 1 <nil>
}

func ExampleMap_Get() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	users, _ := copal.OpenMap[string, User](db, "users")
	users.Set("alice", User{"Alice", 28})

	alice, ok := users.Get("alice")
	fmt.Println(alice, ok)
	nobody, ok := users.Get("nobody")
	fmt.Println(nobody, ok)
	// Output:
	// {Alice 28} true
	// { 0} false
}

func ExampleMap_Set() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	users, _ := copal.OpenMap[string, User](db, "users")

	// When Set returns nil, the entry survives the death of the process.
	if err := users.Set("alice", User{"Alice", 28}); err != nil {
		log.Fatal(err)
	}
	if err := users.Set("alice", User{"Alice", 29}); err != nil { // replaces
		log.Fatal(err)
	}
	alice, _ := users.Get("alice")
	fmt.Println(alice.Age, users.Len())
	// Output: 29 1
}

func ExampleMap_SetAsync() {
	db, _ := copal.OpenMemory()
	defer db.Close() // writes the values that still wait
	hits, _ := copal.OpenMap[string, int](db, "hits")

	for i := range 1000 {
		hits.SetAsync("/index.html", i+1) // the log gets the last value of each sync interval
	}
	fmt.Println(hits.Get("/index.html"))
	fmt.Println(hits.DeleteAsync("/old.html"))
	fmt.Println(hits.Sync()) // now it is on the disk
	// Output:
	// 1000 true
	// false <nil>
	// <nil>
}

func ExampleMap_SetInMemory() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	pages, _ := copal.OpenMap[string, Page](db, "pages")
	pages.Set("home", Page{Text: "Hello"})

	// Fields that are not stored, and can be made again, need no log.
	pages.SetInMemory("home", Page{Text: "Hello", rendered: "<p>Hello</p>"})
	page, _ := pages.Get("home")
	fmt.Println(page.rendered)

	pages.Set("home", Page{Text: "Goodbye"}) // takes the place of both
	page, _ = pages.Get("home")
	fmt.Printf("%+v\n", page)
	// Output:
	// <p>Hello</p>
	// {Text:Goodbye rendered:}
}

type Page struct {
	Text     string
	rendered string
}

func ExampleMap_Delete() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	users, _ := copal.OpenMap[string, User](db, "users")
	users.Set("alice", User{"Alice", 28})

	fmt.Println(users.Delete("alice"))
	fmt.Println(users.Delete("alice")) // no entry is left, and nothing is written
	// Output:
	// true <nil>
	// false <nil>
}

func ExampleMap_Update() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	users, _ := copal.OpenMap[string, User](db, "users")
	users.Set("alice", User{"Alice", 28})

	birthday := func(u *copal.Entry[User]) error {
		if !u.Exists {
			u.Cancel() // else the update would make one
			return nil
		}
		u.Value.Age++ // no other write comes between reading and storing

		return nil
	}
	fmt.Println(users.Update("alice", birthday))
	fmt.Println(users.Update("nobody", birthday))
	// Output:
	// {Alice 29} true <nil>
	// { 0} false <nil>
}

func ExampleEntry_Cancel() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	owners, _ := copal.OpenMap[string, string](db, "owners")
	owners.Set("cabin", "alice")

	// Take the cabin unless it has an owner.
	owner, _, err := owners.Update("cabin", func(u *copal.Entry[string]) error {
		if u.Exists {
			u.Cancel() // the entry stays, and nothing is written
			return nil
		}
		u.Value = "bob"

		return nil
	})
	fmt.Println(owner, err)
	// Output: alice <nil>
}

func ExampleMap_All() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	ages, _ := copal.OpenMap[string, int](db, "ages")
	ages.Set("alice", 28)
	ages.Set("bob", 17)
	ages.Set("carol", 16)

	for name, age := range ages.All() { // in no order
		if age < 18 {
			ages.Delete(name) // the store may be changed in the loop
		}
	}
	fmt.Println(maps.Collect(ages.All()))
	for age := range ages.Values() {
		fmt.Println(age)
	}
	// Output:
	// map[alice:28]
	// 28
}

func ExampleMap_Range() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	ages, _ := copal.OpenMap[string, int](db, "ages")
	ages.Set("alice", 28)

	err := ages.Range(func(name string, age int) error {
		fmt.Println(name, age)
		return nil // an error ends it
	})
	fmt.Println(err)
	// Output:
	// alice 28
	// <nil>
}

func ExampleMap_Close() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	users, _ := copal.OpenMap[string, User](db, "users")
	users.Set("alice", User{"Alice", 28})
	users.Close()

	// Once closed, a map may be opened with other types. Fields are found by their names.
	type Person struct {
		Name  string
		Email string
	}
	people, err := copal.OpenMap[string, Person](db, "users")
	if err != nil {
		log.Fatal(err)
	}
	alice, err := people.Load("alice")
	fmt.Printf("%+v %v\n", alice, err)
	// Output: {Name:Alice Email:} <nil>
}

func ExampleSet() {
	db, _ := copal.OpenMemory()
	defer db.Close()

	type Config struct {
		Debug bool
		Theme string
	}
	if err := copal.Set(db, "config", Config{Debug: true, Theme: "amber"}); err != nil {
		log.Fatal(err)
	}
	config, err := copal.Load[Config](db, "config")
	fmt.Println(config, err)
	// Output: {true amber} <nil>
}

func ExampleLoad() {
	db, _ := copal.OpenMemory()
	defer db.Close()

	_, err := copal.Load[int](db, "counter")
	fmt.Println(errors.Is(err, copal.ErrNotFound))
	copal.Set(db, "counter", 41)
	fmt.Println(copal.Load[int](db, "counter"))
	_, err = copal.Load[[]string](db, "counter")
	fmt.Println(errors.Is(err, copal.ErrType))
	// Output:
	// true
	// 41 <nil>
	// true
}

func ExampleDelete() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	copal.Set(db, "config", "dark")

	fmt.Println(db.Raw().Delete([]byte("config")))
	fmt.Println(db.Raw().Delete([]byte("config")))
	// Output:
	// true <nil>
	// false <nil>
}

func ExampleDB_Stats() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	for i := range 8 {
		db.Raw().Set([]byte("counter"), fmt.Append(nil, i))
	}
	stats := db.Stats()
	fmt.Printf("%d key, %d records, %.0f for each key\n", stats.Keys, stats.Records, stats.Ratio())
	// Output: 1 key, 8 records, 8 for each key
}

func ExampleDB_Maps() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	users, _ := copal.OpenMap[string, User](db, "users")
	users.Set("alice", User{Name: "Alice", Age: 28})
	copal.OpenMap[int, string](db, "a: b")
	db.Raw().Set([]byte("raw"), nil) // belongs to no map

	for name, keys := range db.Maps() {
		fmt.Printf("%q has %d\n", name, keys)
	}
	// Output:
	// "a: b" has 0
	// "users" has 1
}

func ExampleCorruptError() {
	dir := tempDir()
	defer os.RemoveAll(filepath.Dir(dir))
	db, _ := copal.Open(dir)
	copal.Set(db, "greeting", "hello")
	db.Close()
	log := filepath.Join(dir, "00000001.log")
	text, _ := os.ReadFile(log)
	text[len(text)-3] ^= 1
	os.WriteFile(log, text, 0o666)

	_, err := copal.Open(dir)
	var damage *copal.CorruptError
	if errors.As(err, &damage) {
		fmt.Println(filepath.Base(damage.File), damage.Reason != "")
	}
	// Output: 00000001.log true
}

func ExampleMap_Clear() {
	db, fruits := fruits()
	defer db.Close()
	if err := fruits.Clear(); err != nil {
		fmt.Println(err)
	}
	fmt.Println(fruits.Len())
	// Output: 0
}

func ExampleMapPrefix() {
	fmt.Printf("%s\n", copal.MapPrefix("users"))
	fmt.Printf("%s\n", copal.MapPrefix("a:b"))
	// Output:
	// users:
	// a%3ab:
}

func ExampleDurability() {
	for _, d := range []copal.Durability{copal.Async, copal.Write, copal.FSync} {
		fmt.Println(d)
	}
	// Output:
	// async
	// write
	// fsync
}

// Peek returns a value that is shared: read it, and never change it.
func ExampleMap_Peek() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	tags, _ := copal.OpenMap[string, []string](db, "tags")
	tags.Set("copal", []string{"go", "maps"})
	list, ok := tags.Peek("copal")
	fmt.Println(len(list), ok)
	// Output: 2 true
}

// Of several goroutines that do this at the same time, one makes the session.
func ExampleMap_GetOrSet() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	sessions, _ := copal.OpenMap[string, string](db, "sessions")
	fmt.Println(sessions.GetOrSet("alice", "s1"))
	fmt.Println(sessions.GetOrSet("alice", "s2"))
	// Output:
	// s1 false <nil>
	// s1 true <nil>
}

// A token can be used once.
func ExampleMap_GetAndDelete() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	tokens, _ := copal.OpenMap[string, string](db, "tokens")
	tokens.Set("t-17", "alice")
	fmt.Println(tokens.GetAndDelete("t-17"))
	fmt.Println(tokens.GetAndDelete("t-17"))
	// Output:
	// alice true <nil>
	//  false <nil>
}

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
