package copal_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/copaldb/copal"
)

func ExampleMapPrefix() {
	fmt.Printf("%s\n", copal.MapPrefix("users"))
	fmt.Printf("%s\n", copal.MapPrefix("a:b"))
	// Output:
	// users:
	// a%3ab:
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

func ExampleDurability() {
	for _, d := range []copal.Durability{copal.Async, copal.Write, copal.FSync} {
		fmt.Println(d)
	}
	// Output:
	// async
	// write
	// fsync
}

func ExampleDurability_String() {
	fmt.Println(copal.FSync.String())
	// Output: fsync
}

func ExampleMap_Until() {
	db, fruits := fruits()
	defer db.Close()
	for name := range fruits.Until("banana") {
		fmt.Println(name)
	}
	// Output:
	// apple
	// apricot
}

// A value is given up when the context of the handle is done.
func ExampleRaw_WithContext() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	ctx, cancel := context.WithCancel(context.Background())
	w, _ := db.Raw().WithContext(ctx).Create([]byte("film"))
	defer w.Close()
	cancel()
	fmt.Println(w.Commit())
	// Output: context canceled
}

// What Peek returns is shared: to read it is fast, to change it is a mistake.
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
	// Output:
	// mend 1
	// write 2
}

func ExampleSortedSetOf_PopMax() {
	db, points := points()
	defer db.Close()
	name, score, ok, err := points.PopMax()
	fmt.Println(name, score, ok, err)
	// Output: Grace 20 true <nil>
}

func ExampleValueWriter() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	w, err := db.Raw().Create([]byte("film"))
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()
	io.Copy(w, strings.NewReader("a long story"))
	fmt.Println(w.Size(), w.Commit())
	// Output: 12 <nil>
}

func ExampleValueReader() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	db.Raw().Set([]byte("film"), []byte("a long story"))
	r, err := db.Raw().Open([]byte("film"))
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	part := make([]byte, 4)
	r.ReadAt(part, 2)
	fmt.Printf("%s, %d bytes\n", part, r.Size())
	// Output: long, 12 bytes
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

func ExampleSetOf_Until() {
	db, s := tags()
	defer db.Close()
	fmt.Println(slices.Collect(s.Until("go")))
	// Output: [amber]
}

func ExampleWithLogger() {
	plain := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		if err, is := a.Value.Any().(error); is {
			return slog.Bool("of a type", errors.Is(err, copal.ErrType))
		}
		return a
	}})
	db, err := copal.OpenMemory(copal.WithLogger(slog.New(plain)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	counts, err := copal.OpenMap[string, int](db, "counts")
	if err != nil {
		fmt.Println(err)
		return
	}
	db.Raw().Set([]byte("counts:a"), []byte("no number"))
	fmt.Println(counts.Get("a")) // Load would return the error
	// Output:
	// level=ERROR msg=copal "of a type"=true
	// 0 false
}

// The same verbs on bytes.
func ExampleRaw_verbs() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	raw := db.Raw()
	key, more := []byte("seats"), func(e *copal.Entry[[]byte]) error {
		e.Value = append(e.Value, '*')
		return nil
	}
	now, found, err := raw.GetOrSet(key, []byte("*"))
	fmt.Printf("%s %v %v\n", now, found, err)
	now, exists, err := raw.Update(key, more)
	fmt.Printf("%s %v %v\n", now, exists, err)
	now, exists, err = raw.UpdateFSync(key, more) // this one survives the loss of power
	fmt.Printf("%s %v %v\n", now, exists, err)
	now, exists, err = raw.GetAndDelete(key)
	fmt.Printf("%s %v %v\n", now, exists, err)
	// Output:
	// * false <nil>
	// ** true <nil>
	// *** true <nil>
	// *** true <nil>
}

// Handles of bytes read and write a transaction, and a snapshot.
func ExampleRaw_handles() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	raw := db.Raw()
	raw.With(copal.FSync).Set([]byte("a"), []byte("1"))
	then, err := db.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer then.Close()
	err = db.Update(func(tx *copal.Tx) error { return raw.In(tx).Set([]byte("b"), []byte("2")) })
	for key, value := range raw.All() {
		fmt.Printf("%s %s\n", key, value)
	}
	for key := range raw.At(then).Keys() {
		fmt.Printf("%s was there\n", key)
	}
	for key := range raw.Until([]byte("b")) { // but not b
		fmt.Printf("%s\n", key)
	}
	fmt.Println(err)
	// Output:
	// a 1
	// b 2
	// a was there
	// a
	// <nil>
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

func ExampleCollection_ExpireAt() {
	db, tags := tags()
	defer db.Close()
	err := tags.ExpireAt(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC))
	at, _ := tags.Deadline()
	fmt.Println(at, err)
	// Output: 2100-01-01 00:00:00 +0000 UTC <nil>
}

func ExampleCollection_Deadline() {
	db, tags := tags()
	defer db.Close()
	at, err := tags.Deadline()
	fmt.Println(at.IsZero(), err) // it stays
	// Output: true <nil>
}

func ExampleListOf_Get() {
	db, list := jobs()
	defer db.Close()
	first, ok := list.Get(0)
	last, _ := list.Get(-1)
	fmt.Println(first, last, ok)
	// Output: wash fold true
}

func ExampleSetOf_Between() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	primes, _ := copal.OpenSet[int](db, "primes")
	primes.Add(11, 2, 7, 3, 5)
	for n := range primes.Between(3, 11) { // 11 is not among them
		fmt.Println(n)
	}
	// Output:
	// 3
	// 5
	// 7
}

func ExampleSetOf_DeleteFSync() {
	db, tags := tags()
	defer db.Close()
	fmt.Println(tags.DeleteFSync("maps", "rust"))
	// Output: 1 <nil>
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

// A change may be of a whole range; Covers tells for a key.
func ExampleMapChange_Covers() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	users, _ := copal.OpenMap[string, int](db, "users")
	users.Set("alice", 1)
	users.DeletePrefix("a")
	for c, err := range users.Watch(context.Background(), copal.WithAfter(0)) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(c.Deleted, c.Covers("alice"), c.Covers("bob"))
		if c.Range {
			break
		}
	}
	// Output:
	// false true false
	// true true false
}
