package copal_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/copaldb/copal"
)

func ExampleChange_Covers() {
	db, fruits := fruits()
	defer db.Close()
	before, err := db.Snapshot()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer before.Close()
	fruits.DeletePrefix("ap")
	for c, err := range fruits.At(before).Watch(context.Background()) { // every change since the snapshot
		fmt.Println(err, c.Range, string(c.Change.Key), string(c.To), c.Covers("apple"), c.Covers("fig"))
		break
	}
	// Output: <nil> true fruits:ap fruits:aq true false
}

func ExampleMapChange() {
	db, fruits := fruits()
	defer db.Close()
	for c, err := range fruits.Watch(context.Background(), copal.WithAfter(0)) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(c.Key, c.Deleted)
		break
	}
	// Output: fig false
}

func ExampleDB_Watch() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	changes := db.Watch(context.Background(), copal.WithPrefix([]byte("fruit:"))) // from now on

	db.Raw().Set([]byte("fruit:pear"), []byte("ripe"))
	db.Raw().Set([]byte("tree:pear"), []byte("old"))
	db.Raw().Delete([]byte("fruit:pear"))

	n := 0
	for c, err := range changes {
		if err != nil {
			log.Fatal(err) // copal.ErrHistoryLost: look at everything anew
		}
		value, err := c.Value()
		fmt.Println(c.Seq, string(c.Key), string(value), err)
		if n++; n == 2 {
			break
		}
	}
	// Output:
	// 1 fruit:pear ripe <nil>
	// 3 fruit:pear  copal: not found
}

// A watch can yield the changes of one key. A thousand such watches read the log once.
func ExampleWithKey() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	changes := db.Watch(context.Background(), copal.WithKey([]byte("b")))
	for _, key := range []string{"a", "b", "c"} {
		db.Raw().Set([]byte(key), nil)
	}
	for c, err := range changes {
		fmt.Println(string(c.Key), c.Seq, err)
		break
	}
	// Output:
	// b 2 <nil>
}

// A map with ExpiryEvents yields a change when an entry expires, even if no process was running at its deadline.
func ExampleExpiryEvents() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	sessions, err := copal.OpenMap[string, string](db, "sessions", copal.ExpiryEvents())
	if err != nil {
		log.Fatal(err)
	}
	changes := sessions.Watch(context.Background())
	sessions.SetTTL("s1", "alice", time.Millisecond)
	for c, err := range changes {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(c.Key, c.Deleted, c.Expired)
		if c.Expired {
			break
		}
	}
	// Output:
	// s1 false false
	// s1 true true
}

func ExampleWithPrefix() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	for _, key := range []string{"a1", "b1", "a2"} {
		db.Raw().Set([]byte(key), nil)
	}
	for c, err := range db.Watch(context.Background(), copal.WithPrefix([]byte("b")), copal.WithAfter(0)) {
		fmt.Println(string(c.Key), err)
		break
	}
	// Output:
	// b1 <nil>
}

// The watch ends with the last change that the snapshot has.
func ExampleWithUntil() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	for _, key := range []string{"pear", "plum"} {
		db.Raw().Set([]byte(key), nil)
	}
	s, err := db.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	for c, err := range db.Watch(context.Background(), copal.WithAfter(0), copal.WithUntil(s.Seq())) {
		fmt.Println(string(c.Key), err)
	}
	// Output:
	// pear <nil>
	// plum <nil>
}

// A copy of a store, or an index, begins with a snapshot and follows the changes from there.
func ExampleWithAfter() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	db.Raw().Set([]byte("pear"), []byte("green"))
	s, err := db.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	db.Raw().Set([]byte("pear"), []byte("ripe"))

	list := map[string]string{}
	for key, value := range s.Raw().Prefix(nil) {
		list[string(key)] = string(value)
	}
	s.Close()
	fmt.Println(list)
	for c, err := range db.Watch(context.Background(), copal.WithAfter(s.Seq())) {
		if err != nil {
			log.Fatal(err)
		}
		value, err := c.Value()
		if err != nil {
			log.Fatal(err)
		}
		list[string(c.Key)] = string(value)
		break
	}
	fmt.Println(list)
	// Output:
	// map[pear:green]
	// map[pear:ripe]
}

func ExampleMap_Watch() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	users, err := copal.OpenMap[string, User](db, "users")
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	changes := users.Watch(ctx)
	users.Set("alice", User{Name: "Alice", Age: 28})
	users.Delete("alice")
	for c, err := range changes {
		switch {
		case errors.Is(err, context.Canceled):
			fmt.Println("done")
		case err != nil:
			log.Fatal(err)
		case c.Deleted:
			fmt.Println(c.Key, "is gone")
			cancel()
		default:
			fmt.Println(c.Key, c.Value.Age)
		}
	}
	// Output:
	// alice 28
	// alice is gone
	// done
}

// A watch without changes yields its position, so that a later watch can go on from there.
func ExampleWithIdle() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	changes := db.Watch(context.Background(), copal.WithPrefix([]byte("fruit:")), copal.WithIdle(10*time.Millisecond))
	db.Raw().Set([]byte("tree:pear"), []byte("old"))
	for c, err := range changes {
		if c.Seq == 0 {
			continue // the watch has not reached the pear yet
		}
		fmt.Println(c.Idle, c.Seq, err)
		break
	}
	// Output: true 1 <nil>
}

// With OldValues each change has the value that it replaced.
func ExampleOldValues() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	stock, err := copal.OpenMap[string, int](db, "stock")
	if err != nil {
		log.Fatal(err)
	}
	stock.Set("apples", 5)
	changes := stock.Watch(context.Background(), copal.OldValues())
	stock.Set("apples", 3)
	stock.Set("pears", 1)
	for c, err := range changes {
		if err != nil {
			log.Fatal(err)
		}
		was, err := c.Old()
		fmt.Println(c.Key, c.Value, was, err)
		if c.Key == "pears" {
			break
		}
	}
	// Output:
	// apples 3 5 <nil>
	// pears 1 0 copal: not found
}

// Old returns the replaced value as raw bytes. Each changed element of a hash is a change of its own.
func ExampleChange_Old() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	cart := db.Raw().Hash([]byte("cart"))
	cart.Set("plums", []byte("9"))
	changes := db.Watch(context.Background(), copal.OldValues())
	cart.Set("plums", []byte("7"))
	for c, err := range changes {
		if err != nil {
			log.Fatal(err)
		}
		was, err := c.Old()
		fmt.Printf("%s %s was %s, %v\n", c.Key, c.Element, was, err)
		break
	}
	// Output:
	// cart plums was 9, <nil>
}
