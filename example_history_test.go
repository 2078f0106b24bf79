package copal_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/copaldb/copal"
)

func ExampleDB_AsOf() {
	db, _ := copal.OpenMemory(copal.WithHistory(7 * 24 * time.Hour))
	defer db.Close()
	prices, _ := copal.OpenMap[string, int](db, "prices")
	prices.Set("apple", 90)
	morning := time.Now()
	time.Sleep(2 * time.Millisecond)
	prices.Set("apple", 95)

	then, err := db.AsOf(morning)
	if err != nil {
		log.Fatal(err)
	}
	defer then.Close()
	price, _ := prices.At(then).Get("apple")
	fmt.Println(price)
	// Output: 90
}

func ExampleWithHistory() {
	db, err := copal.OpenMemory(copal.WithHistory(7 * 24 * time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	for i := range 5 {
		db.Raw().Set([]byte("price"), fmt.Append(nil, i)) // each of them stays in the log
	}
	fmt.Println(db.Stats().Records)
	// Output: 5
}

// With both options the window ends at the bound that is reached first.
func ExampleWithHistoryBytes() {
	db, err := copal.OpenMemory(copal.WithHistory(7*24*time.Hour), copal.WithHistoryBytes(10<<30))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(db.Close())

	_, err = copal.OpenMemory(copal.WithHistoryBytes(-1))
	fmt.Println(err)
	// Output:
	// <nil>
	// copal: WithHistoryBytes(-1); it must not be negative
}

func ExampleMap_History() {
	db, _ := copal.OpenMemory(copal.WithHistory(copal.Forever))
	defer db.Close()
	prices, _ := copal.OpenMap[string, int](db, "prices")
	for _, price := range []int{90, 120, 95} {
		prices.Set("apple", price)
	}
	for version, err := range prices.History("apple") { // the newest first
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(version.Value)
	}
	// Output:
	// 95
	// 120
	// 90
}

func ExampleVersion() {
	db, _ := copal.OpenMemory(copal.WithHistory(copal.Forever))
	defer db.Close()
	prices, _ := copal.OpenMap[string, int](db, "prices")
	prices.Set("apple", 90)
	prices.Set("pear", 70)
	prices.Set("apple", 95)
	for version := range prices.History("apple") {
		then, err := db.AsOfSeq(version.Seq) // the store at the moment of this version
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(version.Value, prices.At(then).Len())
		then.Close()
	}
	// Output:
	// 95 2
	// 90 1
}

func ExampleDB_Snapshot() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	users, err := copal.OpenMap[string, User](db, "users")
	if err != nil {
		log.Fatal(err)
	}
	users.Set("alice", User{"Alice", 28})
	db.Raw().Set([]byte("greeting"), []byte("hello"))

	s, err := db.Snapshot() // the snapshot never changes
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	users.Set("alice", User{"Alice", 29})
	users.Set("bob", User{"Bob", 40})
	db.Raw().Delete([]byte("greeting"))

	fmt.Println(users.At(s).Get("alice"))
	greeting, err := s.Raw().Load([]byte("greeting"))
	fmt.Println(string(greeting), err)
	fmt.Println(users.Len(), users.At(s).Len())
	// Output:
	// {Alice 28} true
	// hello <nil>
	// 2 1
}

func ExampleMap_At() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	stock, err := copal.OpenMap[string, int](db, "stock")
	if err != nil {
		log.Fatal(err)
	}
	stock.Set("apples", 3)
	stock.Set("pears", 4)
	s, err := db.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	for name, n := range stock.At(s).All() {
		stock.Set(name, n+1) // the loop does not see this change
		stock.Set("more "+name, n)
	}
	fmt.Println(stock.At(s).Len(), stock.Len())
	// Output: 2 4
}

func ExampleDB_Backup() {
	base, err := os.MkdirTemp("", "copal")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(base)
	db, err := copal.Open(filepath.Join(base, "app.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ctx, dir := context.Background(), filepath.Join(base, "backup")

	if err := copal.Set(db, "greeting", "hello"); err != nil {
		log.Fatal(err)
	}
	if _, err := db.Backup(ctx, dir, nil); err != nil {
		log.Fatal(err)
	}
	if err := copal.Set(db, "greeting", "goodbye"); err != nil {
		log.Fatal(err)
	}

	backup, err := copal.Open(dir, copal.ReadOnly())
	if err != nil {
		log.Fatal(err)
	}
	defer backup.Close()
	fmt.Println(copal.Load[string](backup, "greeting"))
	// Output: hello <nil>
}

func ExampleDB_Compact() {
	m := sessions()
	for age := range 100 {
		m.Set("7f3a", User{"Alice", age})
	}
	if err := m.DB().Compact(context.Background(), nil); err != nil {
		log.Fatal(err)
	}
	// Three records are left: the entry, the name of its map, the schema of its type.
	fmt.Println(m.DB().Stats().Records)
	// Output: 3
}

func ExampleBackupReport() {
	dir := tempDir()
	db, _ := copal.OpenMemory()
	defer db.Close()
	db.Raw().Set([]byte("k"), []byte("v"))
	report, err := db.Backup(context.Background(), dir, nil)
	fmt.Println(report.Bytes == report.Linked+report.Copied, err)
	// Output: true <nil>
}

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
