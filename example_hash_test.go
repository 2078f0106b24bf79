package copal_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/copaldb/copal"
)

// stock is a hash of what a shop has of things.
func stock() (*copal.DB, *copal.HashOf[string, int]) {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	h, err := copal.OpenHash[string, int](db, "shop:1:stock")
	if err != nil {
		log.Fatal(err)
	}
	if err := h.SetAll(map[string]int{"apples": 3, "bread": 12, "cheese": 1}); err != nil {
		log.Fatal(err)
	}
	return db, h
}

func ExampleOpenHash() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	stock, err := copal.OpenHash[string, int](db, "shop:1:stock")
	if err != nil {
		log.Fatal(err)
	}
	if err := stock.Set("apples", 3); err != nil {
		log.Fatal(err)
	}
	fmt.Println(stock.Get("apples"))
	_, err = db.Raw().Load([]byte("shop:1:stock")) // it is no value
	fmt.Println(errors.Is(err, copal.ErrType))
	// Output:
	// 3 true
	// true
}

func ExampleHashOf_Set() {
	db, h := stock()
	defer db.Close()
	fmt.Println(h.Set("dates", 40))
	fmt.Println(h.Len())
	// Output:
	// <nil>
	// 4
}

func ExampleHashOf_SetFSync() {
	db, h := stock()
	defer db.Close()
	fmt.Println(h.SetFSync("dates", 40)) // on the disk
	// Output:
	// <nil>
}

func ExampleHashOf_SetAll() {
	db, h := stock()
	defer db.Close()
	fmt.Println(h.SetAll(map[string]int{"apples": 0, "dates": 40})) // both, or with an error none
	// Output:
	// <nil>
}

func ExampleHashOf_With() {
	db, h := stock()
	defer db.Close()
	fmt.Println(h.With(copal.FSync).WithContext(context.Background()).SetAll(map[string]int{"apples": 0, "dates": 40}))
	// Output:
	// <nil>
}

func ExampleHashOf_Get() {
	db, h := stock()
	defer db.Close()
	fmt.Println(h.Get("bread"))
	fmt.Println(h.Get("wine"))
	// Output:
	// 12 true
	// 0 false
}

func ExampleHashOf_Load() {
	db, h := stock()
	defer db.Close()
	_, err := h.Load("wine")
	fmt.Println(err)
	// Output:
	// copal: field "wine" of hash "shop:1:stock" is not found
}

func ExampleHashOf_Has() {
	db, h := stock()
	defer db.Close()
	fmt.Println(h.Has("cheese"), h.Has("wine"))
	// Output:
	// true false
}

func ExampleHashOf_Update() {
	db, h := stock()
	defer db.Close()
	left, _, err := h.Update("apples", func(u *copal.Entry[int]) error { u.Value--; return nil }) // also when others do the same
	fmt.Println(left, err)
	// Output:
	// 2 <nil>
}

func ExampleHashOf_UpdateFSync() {
	db, h := stock()
	defer db.Close()
	_, exists, err := h.UpdateFSync("cheese", func(u *copal.Entry[int]) error { u.Delete(); return nil })
	fmt.Println(exists, err)
	// Output:
	// false <nil>
}

func ExampleHashOf_Delete() {
	db, h := stock()
	defer db.Close()
	fmt.Println(h.Delete("apples", "wine"))
	fmt.Println(h.Len())
	// Output:
	// 1 <nil>
	// 2
}

func ExampleHashOf_DeleteFSync() {
	db, h := stock()
	defer db.Close()
	fmt.Println(h.DeleteFSync("apples"))
	// Output:
	// 1 <nil>
}

func ExampleHashOf_All() {
	db, h := stock()
	defer db.Close()
	for thing, n := range h.All() {
		fmt.Println(thing, n)
	}
	// Output:
	// apples 3
	// bread 12
	// cheese 1
}

func ExampleHashOf_Keys() {
	db, h := stock()
	defer db.Close()
	for thing := range h.Keys() {
		fmt.Println(thing)
	}
	// Output:
	// apples
	// bread
	// cheese
}

func ExampleHashOf_From() {
	db, h := stock()
	defer db.Close()
	for thing, n := range h.From("b") {
		fmt.Println(thing, n)
	}
	// Output:
	// bread 12
	// cheese 1
}

func ExampleHashOf_Backward() {
	db, h := stock()
	defer db.Close()
	for thing, n := range h.Backward().Until("cheese") {
		fmt.Println(thing, n)
	}
	// Output:
	// bread 12
	// apples 3
}

func ExampleHashOf_Between() {
	db, h := stock()
	defer db.Close()
	for thing, n := range h.Between("apples", "cheese") {
		fmt.Println(thing, n)
	}
	// Output:
	// apples 3
	// bread 12
}

func ExampleHashOf_KeysBetween() {
	db, h := stock()
	defer db.Close()
	for thing := range h.KeysBetween("b", "z") { // no value is read
		fmt.Println(thing)
	}
	// Output:
	// bread
	// cheese
}

func ExampleHashOf_Count() {
	db, h := stock()
	defer db.Close()
	fmt.Println(h.Count("b", "z"), "of", h.Len())
	// Output: 2 of 3
}

func ExampleHashOf_At() {
	db, h := stock()
	defer db.Close()
	s, err := db.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	if _, err := h.Clear(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Len(), h.At(s).Len())
	// Output:
	// 0 3
}

func ExampleCollection_Name() {
	db, h := stock()
	defer db.Close()
	fmt.Println(h.Name())
	// Output:
	// shop:1:stock
}

func ExampleCollection_Len() {
	db, h := stock()
	defer db.Close()
	fmt.Println(h.Len())
	// Output:
	// 3
}

func ExampleCollection_Clear() {
	db, h := stock()
	defer db.Close()
	fmt.Println(h.Clear()) // one record in the log, whatever the size
	fmt.Println(h.Has("bread"))
	// Output:
	// true <nil>
	// false
}

func ExampleCollection_With() {
	db, h := stock()
	defer db.Close()
	fmt.Println(h.With(copal.FSync).Clear())
	// Output:
	// true <nil>
}

func ExampleCollection_Rename() {
	db, h := stock()
	defer db.Close()
	fmt.Println(h.Rename("shop:2:stock"))
	there, err := copal.OpenHash[string, int](db, "shop:2:stock")
	fmt.Println(h.Len(), there.Len(), err)
	// Output:
	// <nil>
	// 0 3 <nil>
}

func ExampleCollection_Expire() {
	db, h := stock()
	defer db.Close()
	fmt.Println(h.Expire(time.Hour)) // with all fields
	// Output:
	// <nil>
}

func ExampleCollection_Persist() {
	db, h := stock()
	defer db.Close()
	if err := h.Expire(time.Hour); err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Persist())
	fmt.Println(h.TTL())
	// Output:
	// <nil>
	// 0s <nil>
}

func ExampleCollection_TTL() {
	db, h := stock()
	defer db.Close()
	if err := h.Expire(time.Hour); err != nil {
		log.Fatal(err)
	}
	left, err := h.TTL()
	fmt.Println(left > 59*time.Minute, err)
	// Output:
	// true <nil>
}

func ExampleRaw_Hash() {
	db, _ := stock()
	defer db.Close()
	raw := db.Raw().Hash([]byte("shop:1:stock")) // the same hash, in bytes
	if err := raw.Set("dates", []byte("40")); err != nil {
		log.Fatal(err)
	}
	for thing, n := range raw.From("bread") {
		fmt.Printf("%s %s\n", thing, n)
	}
	// Output:
	// bread 12
	// cheese 1
	// dates 40
}
