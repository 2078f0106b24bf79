package copal_test

import (
	"context"
	"errors"
	"fmt"
	"log"

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

func ExampleSetOf_With() {
	db, s := tags()
	defer db.Close()
	fmt.Println(s.With(copal.FSync).WithContext(context.Background()).Add("log"))
	// Output:
	// 1 <nil>
}

func ExampleSetOf_Delete() {
	db, s := tags()
	defer db.Close()
	fmt.Println(s.Delete("go", "log"))
	// Output:
	// 1 <nil>
}

func ExampleSetOf_Has() {
	db, s := tags()
	defer db.Close()
	fmt.Println(s.Has("maps"))
	// Output:
	// true
}

func ExampleSetOf_All() {
	db, s := tags()
	defer db.Close()
	for tag := range s.All() {
		fmt.Println(tag)
	}
	// Output:
	// amber
	// go
	// maps
}

func ExampleSetOf_From() {
	db, s := tags()
	defer db.Close()
	for tag := range s.From("b") {
		fmt.Println(tag)
	}
	// Output:
	// go
	// maps
}

func ExampleSetOf_Backward() {
	db, s := tags()
	defer db.Close()
	for tag := range s.Backward().Until("maps") {
		fmt.Println(tag)
	}
	// Output:
	// go
	// amber
}

func ExampleSetOf_At() {
	db, s := tags()
	defer db.Close()
	then, err := db.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer then.Close()
	if _, err := s.Clear(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Len(), s.At(then).Len())
	// Output:
	// 0 3
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

func ExampleListOf_PushBack() {
	db, l := jobs()
	defer db.Close()
	fmt.Println(l.PushBack("iron"))
	show(l)
	// Output:
	// <nil>
	// wash dry fold iron 4
}

func ExampleListOf_With() {
	db, l := jobs()
	defer db.Close()
	fmt.Println(l.With(copal.FSync).WithContext(context.Background()).PushBack("iron"))
	// Output:
	// <nil>
}

// Push is for those who want to know how long the list has become.
func ExampleListOf_Push() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	jobs, _ := copal.OpenList[string](db, "jobs")
	fmt.Println(jobs.Push(false, "fetch", "sort"))
	fmt.Println(jobs.Push(true, "first"))
	// Output:
	// 2 <nil>
	// 3 <nil>
}

func ExampleListOf_PushFront() {
	db, l := jobs()
	defer db.Close()
	fmt.Println(l.PushFront("sort", "fetch"))
	show(l)
	// Output:
	// <nil>
	// fetch sort wash dry fold 5
}

func ExampleListOf_PopFront() {
	db, l := jobs()
	defer db.Close()
	fmt.Println(l.PopFront())
	// Output:
	// wash true <nil>
}

func ExampleListOf_PopBack() {
	db, l := jobs()
	defer db.Close()
	fmt.Println(l.PopBack())
	// Output:
	// fold true <nil>
}

func ExampleListOf_Load() {
	db, l := jobs()
	defer db.Close()
	fmt.Println(l.Load(1))
	fmt.Println(l.Load(-1))
	_, err := l.Load(3)
	fmt.Println(err)
	// Output:
	// dry <nil>
	// fold <nil>
	// copal: element 3 of list "jobs" is not found
}

func ExampleListOf_Set() {
	db, l := jobs()
	defer db.Close()
	fmt.Println(l.Set(0, "soak"))
	show(l)
	// Output:
	// <nil>
	// soak dry fold 3
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

func ExampleListOf_DeleteRange() {
	db, l := jobs()
	defer db.Close()
	fmt.Println(l.DeleteRange(1, 3)) // or (-2, 3), (1, 1000)
	show(l)
	// Output:
	// <nil>
	// wash 1
}

func ExampleListOf_All() {
	db, l := jobs()
	defer db.Close()
	for job := range l.All() {
		fmt.Println(job)
	}
	// Output:
	// wash
	// dry
	// fold
}

func ExampleListOf_Backward() {
	db, l := jobs()
	defer db.Close()
	for job := range l.Backward().All() {
		fmt.Println(job)
	}
	// Output:
	// fold
	// dry
	// wash
}

func ExampleListOf_Between() {
	db, l := jobs()
	defer db.Close()
	for job := range l.Between(-2, 100) {
		fmt.Println(job)
	}
	// Output:
	// dry
	// fold
}

func ExampleListOf_At() {
	db, l := jobs()
	defer db.Close()
	then, err := db.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer then.Close()
	if _, _, err := l.PopFront(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(l.At(then).Load(0))
	// Output:
	// wash <nil>
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

func ExampleSortedSetOf_Set() {
	db, s := points()
	defer db.Close()
	fmt.Println(s.Set("Alan", 30))
	fmt.Println(s.Rank("Alan"))
	// Output:
	// <nil>
	// 2 true
}

func ExampleSortedSetOf_With() {
	db, s := points()
	defer db.Close()
	fmt.Println(s.With(copal.FSync).WithContext(context.Background()).SetAll(map[string]float64{"Tim": 1, "Kay": 2}))
	// Output:
	// <nil>
}

func ExampleSortedSetOf_SetAll() {
	db, s := points()
	defer db.Close()
	fmt.Println(s.SetAll(map[string]float64{"Tim": 1, "Ada": 2}))
	fmt.Println(s.Get("Ada"))
	// Output:
	// <nil>
	// 2 true
}

func ExampleSortedSetOf_Update() {
	db, s := points()
	defer db.Close()
	fmt.Println(s.Update("Alan", func(e *copal.Entry[float64]) error { e.Value += 0.5; return nil }))
	// Output:
	// 7.5 true <nil>
}

func ExampleSortedSetOf_UpdateFSync() {
	db, s := points()
	defer db.Close()
	double := func(e *copal.Entry[float64]) error {
		if !e.Exists {
			return errors.New("no such player")
		}
		e.Value *= 2
		return nil
	}
	fmt.Println(s.UpdateFSync("Alan", double))
	fmt.Println(s.UpdateFSync("Tim", double))
	// Output:
	// 14 true <nil>
	// 0 false no such player
}

func ExampleSortedSetOf_Delete() {
	db, s := points()
	defer db.Close()
	fmt.Println(s.Delete("Alan", "Tim"))
	// Output:
	// 1 <nil>
}

func ExampleSortedSetOf_Len() {
	db, s := points()
	defer db.Close()
	fmt.Println(s.Len())
	// Output:
	// 3
}

func ExampleSortedSetOf_Get() {
	db, s := points()
	defer db.Close()
	fmt.Println(s.Get("Grace"))
	// Output:
	// 20 true
}

func ExampleSortedSetOf_Rank() {
	db, s := points()
	defer db.Close()
	fmt.Println(s.Rank("Ada"))
	// Output:
	// 1 true
}

func ExampleSortedSetOf_All() {
	db, s := points()
	defer db.Close()
	for name, n := range s.All() {
		fmt.Println(name, n)
	}
	// Output:
	// Alan 7
	// Ada 12.5
	// Grace 20
}

func ExampleSortedSetOf_Backward() {
	db, s := points()
	defer db.Close()
	for name, n := range s.Backward().All() { // the best
		fmt.Println(name, n)
		break
	}
	// Output:
	// Grace 20
}

func ExampleSortedSetOf_Between() {
	db, s := points()
	defer db.Close()
	for name, n := range s.Between(7, 15) { // 15 is not in it
		fmt.Println(name, n)
	}
	// Output:
	// Alan 7
	// Ada 12.5
}

func ExampleSortedSetOf_Ranked() {
	db, s := points()
	defer db.Close()
	for name, n := range s.Ranked(1, 3) {
		fmt.Println(name, n)
	}
	// Output:
	// Ada 12.5
	// Grace 20
}

func ExampleSortedSetOf_At() {
	db, s := points()
	defer db.Close()
	then, err := db.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer then.Close()
	if err := s.Set("Ada", 100); err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.At(then).Get("Ada"))
	// Output:
	// 12.5 true
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

func ExampleSetOf_In() {
	db, s := tags()
	defer db.Close()
	err := db.Update(func(tx *copal.Tx) error {
		_, err := s.In(tx).Add("log")
		return err
	})
	fmt.Println(err, s.Has("log"))
	// Output:
	// <nil> true
}

func ExampleListOf_In() {
	db, from := jobs()
	defer db.Close()
	to, err := copal.OpenList[string](db, "done")
	if err != nil {
		log.Fatal(err)
	}
	err = db.Update(func(tx *copal.Tx) error {
		job, ok, err := from.In(tx).PopFront()
		if err != nil || !ok {
			return err
		}
		return to.In(tx).PushBack(job)
	})
	fmt.Println(err, from.Len(), to.Len())
	// Output:
	// <nil> 2 1
}

func ExampleSortedSetOf_In() {
	db, s := points()
	defer db.Close()
	err := db.Update(func(tx *copal.Tx) error { // a point from one to the other
		points := s.In(tx)
		_, _, err := points.Update("Ada", func(e *copal.Entry[float64]) error { e.Value++; return nil })
		if err == nil {
			_, _, err = points.Update("Alan", func(e *copal.Entry[float64]) error { e.Value--; return nil })
		}
		return err
	})
	fmt.Println(err)
	fmt.Println(s.Get("Ada"))
	// Output:
	// <nil>
	// 13.5 true
}

// Fields by their places in the order of names. What stands before them is not read.
func ExampleHashOf_Ranked() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	prices, err := copal.OpenHash[string, int](db, "prices")
	if err != nil {
		log.Fatal(err)
	}
	if err := prices.SetAll(map[string]int{"apple": 3, "banana": 1, "cherry": 7}); err != nil {
		log.Fatal(err)
	}
	for name, price := range prices.Ranked(1, 3) {
		fmt.Println(name, price)
	}
	// Output:
	// banana 1
	// cherry 7
}

func ExampleSetOf_Ranked() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	names, err := copal.OpenSet[string](db, "names")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := names.Add("cid", "ann", "bob"); err != nil {
		log.Fatal(err)
	}
	for name := range names.Ranked(names.Len()-1, names.Len()) {
		fmt.Println("the last in order is", name)
	}
	// Output: the last in order is cid
}

func ExampleSortedSetOf_Count() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ages, err := copal.OpenSortedSet[string](db, "ages")
	if err != nil {
		log.Fatal(err)
	}
	if err := ages.SetAll(map[string]float64{"ann": 17, "bob": 18, "cid": 65}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("from 18 to 64:", ages.Count(18, 65))
	// Output: from 18 to 64: 1
}

// The members in the order of their names, whatever their scores are.
func ExampleSortedSetOf_MembersFrom() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	scores, err := copal.OpenSortedSet[string](db, "scores")
	if err != nil {
		log.Fatal(err)
	}
	if err := scores.SetAll(map[string]float64{"ann": 9, "bob": 1, "cid": 5}); err != nil {
		log.Fatal(err)
	}
	for name, score := range scores.MembersFrom("b") {
		fmt.Println(name, score)
	}
	// Output:
	// bob 1
	// cid 5
}
