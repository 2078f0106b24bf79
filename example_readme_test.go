package copal_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

// The blocks of README.md stand here, where they are compiled and run; internal/tidy compares them.

var errNoSuchUser = errors.New("no such user")

func Example_readme() {
	dir, err := os.MkdirTemp("", "copal")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := copal.Open(filepath.Join(dir, "app.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	users, _ := copal.OpenMap[string, User](db, "users")
	users.Set("alice", User{Name: "Alice", Age: 28})
	users.Set("bob", User{Name: "Bob", Age: 31})

	func() {
		alice, exists, err := users.Update("alice", func(e *copal.Entry[User]) error {
			if !e.Exists {
				return errNoSuchUser // the entry stays as it is, and Update returns the error
			}
			e.Value.Age++ // stored when the function returns nil
			return nil
		})
		fmt.Println(alice, exists, err)
	}()

	func() {
		balances, err := copal.OpenMap[string, int](db, "balances")
		err = db.Update(func(tx *copal.Tx) error {
			in := balances.In(tx) // the same map, in the transaction
			from, _ := in.Get("alice")
			to, _ := in.Get("bob")
			return errors.Join(in.Set("alice", from-10), in.Set("bob", to+10))
		})
		fmt.Println(err)
	}()

	func() {
		events, err := copal.OpenMap[time.Time, string](db, "events", copal.Ordered())
		now := time.Now()
		events.Set(now, "started")
		for at, what := range events.Backward().Between(now.Add(-time.Hour), now.Add(time.Hour)) {
			fmt.Println(what, at.Equal(now)) // [from, to), the newest first
		}
		_ = err
	}()

	func() {
		sessions, err := copal.OpenMap[string, string](db, "sessions", copal.WithTTL(time.Hour))
		err = sessions.Set("s1", "alice")
		err = sessions.SetTTL("s2", "bob", time.Minute) // gone in a minute, for every reader at once
		left, err := sessions.TTL("s1")
		fmt.Println(left > 59*time.Minute, err)
	}()

	func() {
		scores, err := copal.OpenSortedSet[string](db, "scores")
		scores.Set("alice", 120)
		scores.Set("bob", 90)
		for name, score := range scores.Backward().Ranked(0, 10) {
			fmt.Println(name, score)
		}
		_ = err
	}()

	func() {
		raw := db.Raw()
		err := raw.With(copal.FSync).Set([]byte("k"), []byte("any bytes"))
		value, ok := raw.Get([]byte("users:alice")) // the entry "alice" of the map "users"
		fmt.Println(string(value), ok, err)
	}()

	func() {
		snapshot, err := db.Snapshot() // microseconds, and writers go on
		if err != nil {
			log.Fatal(err)
		}
		defer snapshot.Close()
		users.Set("alice", User{Name: "Alice", Age: 99})
		then, _ := users.At(snapshot).Get("alice")
		fmt.Println(then.Age)
	}()

	func() {
		flat, err := copal.OpenMap[int, User](db, "flat", copal.WithCodec(codec.Binary))
		fmt.Println(flat.Len(), err)
	}()
	// Output:
	// {Alice 29} true <nil>
	// <nil>
	// started true
	// true <nil>
	// alice 120
	// bob 90
	// {"Name":"Alice","Age":29} true <nil>
	// 29
	// 0 <nil>
}
