package copal_test

import (
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/copaldb/copal"
)

// openExample opens a store in memory.
func openExample() *copal.DB {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	return db
}

// tags is a set of words.
func tags() (*copal.DB, *copal.SetOf[string]) {
	db := openExample()
	s, err := copal.OpenSet[string](db, "post:1:tags")
	if err == nil {
		_, err = s.Add("go", "amber", "maps")
	}
	if err != nil {
		log.Fatal(err)
	}
	return db, s
}

func ExampleOpenSet() {
	db := openExample()
	defer db.Close()
	tags, err := copal.OpenSet[string](db, "post:1:tags")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tags.Add("go", "amber", "go"))
	fmt.Println(tags.Has("go"), tags.Has("rust"), tags.Len())
	// Output:
	// 2 <nil>
	// true false 2
}

func ExampleSetOf_Add() {
	db, s := tags()
	defer db.Close()
	fmt.Println(s.Add("go", "log")) // how many are new
	// Output:
	// 1 <nil>
}

// jobs is a queue.
func jobs() (*copal.DB, *copal.ListOf[string]) {
	db := openExample()
	l, err := copal.OpenList[string](db, "jobs")
	if err == nil {
		err = l.PushBack("wash", "dry", "fold")
	}
	if err != nil {
		log.Fatal(err)
	}
	return db, l
}

// show prints a list.
func show(l *copal.ListOf[string]) {
	for job := range l.All() {
		fmt.Print(job, " ")
	}
	fmt.Println(l.Len())
}

func ExampleOpenList() {
	db := openExample()
	defer db.Close()
	jobs, err := copal.OpenList[string](db, "jobs")
	if err != nil {
		log.Fatal(err)
	}
	if err := jobs.PushBack("wash", "dry"); err != nil {
		log.Fatal(err)
	}
	job, ok, err := jobs.PopFront()
	fmt.Println(job, ok, err, jobs.Len())
	// Output:
	// wash true <nil> 1
}

func ExampleListOf_PopFront() {
	db, l := jobs()
	defer db.Close()
	fmt.Println(l.PopFront())
	fmt.Println(l.PopBack())
	fmt.Println(l.PushFront("soak"))
	fmt.Println(l.Push(false, "iron")) // at the end, and returns the new length
	// Output:
	// wash true <nil>
	// fold true <nil>
	// <nil>
	// 3 <nil>
}

func ExampleListOf_Insert() {
	db, l := jobs()
	defer db.Close()
	fmt.Println(l.Insert(1, "rinse", "spin")) // or -2
	show(l)
	fmt.Println(l.Insert(9, "iron"))
	// Output:
	// <nil>
	// wash rinse spin dry fold 5
	// copal: element 9 of list "jobs" is not found
}

// points is a sorted set of players.
func points() (*copal.DB, *copal.SortedSetOf[string]) {
	db := openExample()
	s, err := copal.OpenSortedSet[string](db, "points")
	if err == nil {
		err = s.SetAll(map[string]float64{"Ada": 12.5, "Alan": 7, "Grace": 20})
	}
	if err != nil {
		log.Fatal(err)
	}
	return db, s
}

func ExampleOpenSortedSet() {
	db := openExample()
	defer db.Close()
	points, err := copal.OpenSortedSet[string](db, "points")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(points.Set("Ada", 12.5))
	fmt.Println(points.Get("Ada"))
	// Output:
	// <nil>
	// 12.5 true
}

func ExampleSortedSetOf_Between() {
	db, s := points()
	defer db.Close()
	for name, n := range s.Between(7, 15) { // without 15
		fmt.Println(name, n)
	}
	for name := range s.MembersFrom("B") { // by name, whatever the score
		fmt.Println(name)
	}
	// Output:
	// Alan 7
	// Ada 12.5
	// Grace
}

func ExampleSortedSetOf_Ranked() {
	db, s := points()
	defer db.Close()
	fmt.Println(s.Rank("Ada"))
	for name, n := range s.Ranked(1, 3) {
		fmt.Println(name, n)
	}
	// Output:
	// 1 true
	// Ada 12.5
	// Grace 20
}

func ExampleHashOf_In() {
	db, stock := stock()
	defer db.Close()
	sold, err := copal.OpenList[string](db, "sold")
	if err != nil {
		log.Fatal(err)
	}
	err = db.Update(func(tx *copal.Tx) error { // both, or none
		_, _, err := stock.In(tx).Update("apples", func(u *copal.Entry[int]) error { u.Value--; return nil })
		if err != nil {
			return err
		}
		return sold.In(tx).PushBack("an apple")
	})
	fmt.Println(err, sold.Len())
	fmt.Println(stock.Get("apples"))
	// Output:
	// <nil> 1
	// 2 true
}

// stock is a hash of the goods in a shop.
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
	_, err = db.Raw().Load([]byte("shop:1:stock")) // a hash has no value of its own
	fmt.Println(errors.Is(err, copal.ErrType))
	// Output:
	// 3 true
	// true
}

func ExampleHashOf_Update() {
	db, h := stock()
	defer db.Close()
	left, _, err := h.Update("apples", func(u *copal.Entry[int]) error { u.Value--; return nil }) // counts every update
	fmt.Println(left, err)
	// Output:
	// 2 <nil>
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
	fmt.Println(h.Persist())
	ttl, err := h.TTL()
	fmt.Println(ttl, err)
	// Output:
	// <nil>
	// <nil>
	// 0s <nil>
}

func ExampleCollectionError() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	stock, _ := copal.OpenHash[string, int](db, "stock")
	stock.Set("apples", 3)
	_, err := db.Raw().Load([]byte("stock"))
	var c *copal.CollectionError
	fmt.Println(errors.As(err, &c) && c.Type == "hash")
	// Output: true
}

// A queue by priority: the lowest score is the next.
func ExampleSortedSetOf_PopMin() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	jobs, _ := copal.OpenSortedSet[string](db, "jobs")
	jobs.Set("write", 2)
	jobs.Set("mend", 1)
	for {
		job, priority, ok, err := jobs.PopMin()
		if !ok || err != nil {
			break
		}
		fmt.Println(job, priority)
	}
	_, _, ok, err := jobs.PopMax() // the set is empty
	fmt.Println(ok, err)
	// Output:
	// mend 1
	// write 2
	// false <nil>
}

func ExampleSortedSetOf() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	points, _ := copal.OpenSortedSet[string](db, "points")
	points.SetFSync("Ada", 12.5)
	points.Set("Alan", 7)
	points.Set("Grace", 20)
	for name, n := range points.From(10) {
		fmt.Println(name, n)
	}
	for name, n := range points.Until(10) {
		fmt.Println(name, "has only", n)
	}
	fmt.Println(points.DeleteFSync("Alan"))
	_, err := points.Load("Alan")
	fmt.Println(points.Has("Alan"), err)
	// Output:
	// Ada 12.5
	// Grace 20
	// Alan has only 7
	// 1 <nil>
	// false copal: member "Alan" of sorted set "points" is not found
}

func ExampleRaw_List() {
	db, _ := jobs()
	defer db.Close()
	raw := db.Raw().List([]byte("jobs")) // the same list, in bytes
	job, ok, err := raw.PopFront()
	fmt.Println(string(job), ok, err)
	// Output:
	// "wash" true <nil>
}
