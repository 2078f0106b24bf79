package copal_test

import (
	"fmt"
	"log"
	"time"

	"github.com/copaldb/copal"
)

// midnight is a moment that lies ahead.
var midnight = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

func ExampleRaw_SetUntil() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	key := []byte("ticket")
	err = db.Raw().SetUntil(key, []byte("one entry"), midnight)
	deadline, _ := db.Raw().Deadline(key)
	fmt.Println(err, deadline)

	err = db.Raw().SetUntil(key, nil, time.UnixMilli(0).UTC())
	fmt.Println(err)
	// Output:
	// <nil> 2100-01-01 00:00:00 +0000 UTC
	// copal: a deadline of 1970-01-01T00:00:00Z, which has passed
}

func ExampleRaw_Deadline() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	db.Raw().SetUntil([]byte("ticket"), nil, midnight)
	db.Raw().Set([]byte("forever"), nil)
	for _, key := range []string{"ticket", "forever", "nothing"} {
		deadline, err := db.Raw().Deadline([]byte(key))
		fmt.Println(deadline.Year(), deadline.IsZero(), err)
	}
	// Output:
	// 2100 false <nil>
	// 1 true <nil>
	// 1 true copal: key "nothing" is not found
}

func ExampleRaw_ExpireAt() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	key := []byte("ticket")
	db.Raw().Set(key, []byte("one entry"))
	err = db.Raw().ExpireAt(key, midnight)
	deadline, _ := db.Raw().Deadline(key)
	value, _ := db.Raw().Load(key)
	fmt.Println(err, deadline.Year(), string(value))
	// Output: <nil> 2100 one entry
}

func ExampleBatch_SetUntil() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	b := db.Raw().Batch()
	for _, key := range []string{"a", "b"} {
		if err := b.SetUntil([]byte(key), nil, midnight); err != nil {
			log.Fatal(err)
		}
	}
	err = b.Commit()
	deadline, _ := db.Raw().Deadline([]byte("b"))
	fmt.Println(err, deadline.Equal(midnight))
	// Output: <nil> true
}

// A counter that keeps its deadline.
func ExampleTx_Raw_setUntil() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	key := []byte("tries")
	db.Raw().SetUntil(key, []byte("1"), midnight)
	err = db.Update(func(tx *copal.Tx) error {
		deadline, err := tx.Raw().Deadline(key)
		if err != nil {
			return err
		}
		return tx.Raw().SetUntil(key, []byte("2"), deadline)
	})
	value, _ := db.Raw().Load(key)
	deadline, _ := db.Raw().Deadline(key)
	fmt.Println(err, string(value), deadline.Year())
	// Output: <nil> 2 2100
}

func ExampleTx_Raw_deadline() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	db.Raw().SetUntil([]byte("ticket"), nil, midnight)
	err = db.View(func(tx *copal.Tx) error {
		deadline, err := tx.Raw().Deadline([]byte("ticket"))
		fmt.Println(deadline.Year())
		return err
	})
	fmt.Println(err)
	// Output:
	// 2100
	// <nil>
}
