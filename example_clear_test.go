package copal_test

import (
	"context"
	"fmt"

	"github.com/copaldb/copal"
)

func ExampleMap_Clear() {
	db, fruits := fruits()
	defer db.Close()
	if err := fruits.Clear(); err != nil {
		fmt.Println(err)
	}
	fmt.Println(fruits.Len())
	// Output: 0
}

func ExampleMap_DeleteRange() {
	db, fruits := fruits()
	defer db.Close()
	if err := fruits.DeleteRange("b", "e"); err != nil {
		fmt.Println(err)
	}
	for name := range fruits.Keys() {
		fmt.Println(name)
	}
	// Output:
	// apple
	// apricot
	// fig
}

func ExampleMap_DeletePrefix() {
	db, fruits := fruits()
	defer db.Close()
	err := db.Update(func(tx *copal.Tx) error {
		if err := fruits.In(tx).DeletePrefix("ap"); err != nil {
			return err
		}
		return fruits.In(tx).Set("apple", 7)
	})
	fmt.Println(err, fruits.Has("apple"), fruits.Has("apricot"))
	// Output: <nil> true false
}

func ExampleRaw_DeleteRange() {
	db, err := copal.OpenMemory()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	for _, key := range []string{"a", "b", "c"} {
		db.Raw().Set([]byte(key), nil)
	}
	fmt.Println(db.Raw().DeleteRange([]byte("b"), nil), db.Raw().Len())
	fmt.Println(db.Raw().DeletePrefix([]byte("a")), db.Raw().Len())
	fmt.Println(db.Raw().Clear())
	// Output:
	// <nil> 1
	// <nil> 0
	// <nil>
}

func ExampleDB_Drop() {
	db, fruits := fruits()
	defer db.Close()
	fmt.Println(db.Drop("fruits"))
	fruits.Close()
	fmt.Println(db.Drop("fruits"))
	counts, err := copal.OpenMap[int, int](db, "fruits") // a map with other types
	fmt.Println(err, counts.Len())
	// Output:
	// copal: map "fruits" is open: close it before it is dropped
	// <nil>
	// <nil> 0
}

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
	for c, err := range fruits.At(before).Watch(context.Background()) { // what has changed since
		fmt.Println(err, c.Range, string(c.Change.Key), string(c.To), c.Covers("apple"), c.Covers("fig"))
		break
	}
	// Output: <nil> true fruits:ap fruits:aq true false
}
