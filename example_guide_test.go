package copal_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

// The recipes of docs/guide.md, which has their blocks word by word; internal/tidy compares them.

type Account struct {
	Email string
	Name  string
}

var errTaken = errors.New("the name is taken")

// register adds an account under a name that is still free.
func register(accounts *copal.Map[string, Account], name string, a Account) error {
	_, found, err := accounts.GetOrSet(name, a)
	if found {
		return errTaken
	}
	return err
}

func Example_guideUniqueKey() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	accounts, _ := copal.OpenMap[string, Account](db, "accounts")
	fmt.Println(register(accounts, "ada", Account{Name: "Ada"}))
	fmt.Println(register(accounts, "ada", Account{Name: "Another"}))
	// Output:
	// <nil>
	// the name is taken
}

// Accounts are accounts by name, and their names by e-mail address.
type Accounts struct {
	db      *copal.DB
	byName  *copal.Map[string, Account]
	byEmail *copal.Map[string, string]
}

// Put stores an account and updates the index, all or nothing.
func (s *Accounts) Put(name string, a Account) error {
	return s.db.Update(func(tx *copal.Tx) error {
		accounts, names := s.byName.In(tx), s.byEmail.In(tx)
		if old, ok := accounts.Get(name); ok && old.Email != a.Email {
			if _, err := names.Delete(old.Email); err != nil {
				return err
			}
		}
		if owner, ok := names.Get(a.Email); ok && owner != name {
			return errTaken
		}
		return errors.Join(accounts.Set(name, a), names.Set(a.Email, name))
	})
}

func Example_guideIndex() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	byName, _ := copal.OpenMap[string, Account](db, "accounts")
	byEmail, _ := copal.OpenMap[string, string](db, "accounts by email")
	s := &Accounts{db, byName, byEmail}
	fmt.Println(s.Put("ada", Account{"ada@example.org", "Ada"}))
	fmt.Println(s.Put("eve", Account{"ada@example.org", "Eve"}))
	fmt.Println(s.Put("ada", Account{"lovelace@example.org", "Ada"}))
	fmt.Println(byEmail.Get("lovelace@example.org"))
	fmt.Println(byEmail.Has("ada@example.org"))
	// Output:
	// <nil>
	// the name is taken
	// <nil>
	// ada true
	// false
}

// page returns up to size names after last, the last name of the previous page; "" is the beginning.
func page(names *copal.Map[string, Account], last string, size int) (list []string) {
	for name := range names.From(last) {
		if name == last {
			continue
		}
		if list = append(list, name); len(list) == size {
			break
		}
	}
	return list
}

func Example_guidePages() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	accounts, _ := copal.OpenMap[string, Account](db, "accounts", copal.Ordered())
	for _, name := range strings.Fields("eve dan carol bob alice") {
		accounts.Set(name, Account{Name: name})
	}
	for last := ""; ; {
		list := page(accounts, last, 2)
		if len(list) == 0 {
			break
		}
		fmt.Println(list)
		last = list[len(list)-1]
	}
	// Output:
	// [alice bob]
	// [carol dan]
	// [eve]
}

// Queue hands out jobs. One that is not done within the lease is handed out again.
type Queue struct {
	db    *copal.DB
	jobs  *copal.Map[string, string] // the work, by id
	ready *copal.SortedSetOf[string] // ids, by the earliest time of work
	lease time.Duration
}

// Add adds a job for a worker at that time or later.
func (q *Queue) Add(id, job string, from time.Time) error {
	return q.db.Update(func(tx *copal.Tx) error {
		return errors.Join(q.jobs.In(tx).Set(id, job), q.ready.In(tx).Set(id, float64(from.UnixMilli())))
	})
}

// Take returns a job that is due, and leases it to the caller.
func (q *Queue) Take(now time.Time) (id, job string, ok bool, err error) {
	err = q.db.Update(func(tx *copal.Tx) error {
		ready := q.ready.In(tx)
		ok = false
		for first, from := range ready.All() {
			if from <= float64(now.UnixMilli()) {
				id, ok = first, true
			}
			break
		}
		if !ok {
			return nil
		}
		job, _ = q.jobs.In(tx).Get(id)
		return ready.Set(id, float64(now.Add(q.lease).UnixMilli()))
	})
	return id, job, ok && err == nil, err
}

// Done removes a job.
func (q *Queue) Done(id string) error {
	return q.db.Update(func(tx *copal.Tx) error {
		_, err1 := q.jobs.In(tx).Delete(id)
		_, err2 := q.ready.In(tx).Delete(id)
		return errors.Join(err1, err2)
	})
}

// Next waits for a job, and leases it to the caller.
func (q *Queue) Next(ctx context.Context) (id, job string, err error) {
	for ctx.Err() == nil {
		until := time.Now().Add(q.lease)
		for _, from := range q.ready.All() {
			until = time.UnixMilli(int64(from)) // no present job is due earlier
			break
		}
		wait, cancel := context.WithDeadline(ctx, until)
		changes := q.jobs.Watch(wait) // from here on
		if id, job, ok, err := q.Take(time.Now()); ok || err != nil {
			cancel()
			return id, job, err
		}
		for _, err = range changes {
			break // the first change, or the deadline
		}
		if err != nil && wait.Err() == nil {
			cancel()
			return "", "", err
		}
		cancel()
	}
	return "", "", ctx.Err()
}

func Example_guideQueue() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	jobs, _ := copal.OpenMap[string, string](db, "jobs")
	ready, _ := copal.OpenSortedSet[string](db, "jobs that are ready")
	q := &Queue{db, jobs, ready, time.Minute}
	now := time.UnixMilli(1e12)
	q.Add("1", "write", now)
	fmt.Println(q.Take(now))
	fmt.Println(q.Take(now)) // it is leased
	fmt.Println(q.Take(now.Add(2 * time.Minute)))
	fmt.Println(q.Done("1"))
	fmt.Println(q.Take(now.Add(time.Hour)))
	go q.Add("2", "read", now)
	fmt.Println(q.Next(context.Background()))
	q.Add("3", "wait", time.Now().Add(50*time.Millisecond))
	fmt.Println(q.Next(context.Background())) // the minute of a lease is not waited for
	// Output:
	// 1 write true <nil>
	//   false <nil>
	// 1 write true <nil>
	// <nil>
	//   false <nil>
	// 2 read <nil>
	// 3 wait <nil>
}

// Login is one of the sessions of a user.
type Login struct{ User, Token string }

// signOut ends all sessions of a user.
func signOut(logins *copal.Map[Login, string], user string) error {
	return logins.DeleteRange(Login{User: user}, Login{User: user + "\x00"})
}

func Example_guideSessions() {
	db, _ := copal.OpenMemory()
	defer db.Close()

	sessions, err := copal.OpenMap[string, string](db, "sessions", copal.WithTTL(30*time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	err = sessions.Set("token-1", "ada")              // for half an hour
	err = sessions.Expire("token-1", 30*time.Minute)  // again, at each use
	who, ok := sessions.Get("token-1")                // not found once it has expired
	who, was, err := sessions.GetAndDelete("token-1") // signed out, once

	fmt.Println(who, ok, was, err)

	logins, _ := copal.OpenMap[Login, string](db, "logins", copal.Ordered())
	for _, l := range []Login{{"ada", "1"}, {"ada", "2"}, {"ada b", "3"}, {"ad", "4"}} {
		logins.Set(l, "from somewhere")
	}
	fmt.Println(signOut(logins, "ada"))
	for l := range logins.Keys() {
		fmt.Println(l)
	}
	// Output:
	// ada true true <nil>
	// <nil>
	// {ad 4}
	// {ada b 3}
}

// Reading identifies one reading of one sensor.
type Reading struct {
	Sensor string
	At     time.Time
}

// readingsOf yields the readings of one sensor, the oldest first.
func readingsOf(readings *copal.Map[Reading, float64], sensor string) iter.Seq2[Reading, float64] {
	return readings.Between(Reading{Sensor: sensor}, Reading{Sensor: sensor + "\x00"}) // the next possible name
}

func Example_guideComposite() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	readings, _ := copal.OpenMap[Reading, float64](db, "readings", copal.Ordered())
	hour := time.Date(2026, 11, 25, 8, 0, 0, 0, time.UTC)
	for i, sensor := range []string{"cellar", "roof", "roof 2", "roof", "attic"} {
		readings.Set(Reading{sensor, hour.Add(time.Duration(-i) * time.Minute)}, float64(i))
	}
	for r, degrees := range readingsOf(readings, "roof") {
		fmt.Println(r.Sensor, r.At.Format(time.TimeOnly), degrees)
	}
	for r, degrees := range readings.Between(Reading{"roof", hour.Add(-time.Hour)}, Reading{"roof", hour.Add(-2 * time.Minute)}) {
		fmt.Println(r.Sensor, r.At.Format(time.TimeOnly), degrees)
	}
	// Output:
	// roof 07:57:00 3
	// roof 07:59:00 1
	// roof 07:57:00 3
}

// cached returns a page from the cache, or renders it and keeps it.
func cached(pages *copal.Map[string, string], path string, render func(string) (string, error)) (string, error) {
	if page, ok := pages.Get(path); ok {
		return page, nil
	}
	page, err := render(path)
	if err != nil {
		return "", err
	}
	return page, pages.SetAsync(path, page) // in memory at once, in the log within a second
}

func Example_guideCache() {
	db, _ := copal.OpenMemory()
	defer db.Close()

	pages, err := copal.OpenMap[string, string](db, "pages", copal.WithTTL(10*time.Minute))

	render := func(path string) (string, error) {
		fmt.Println("render", path)
		return "<h1>" + path + "</h1>", err
	}
	for range 2 {
		fmt.Println(cached(pages, "/about", render))
	}
	// Output:
	// render /about
	// <h1>/about</h1> <nil>
	// <h1>/about</h1> <nil>
}

func Example_guideCounters() {
	db, _ := copal.OpenMemory()
	defer db.Close()

	hits, err := copal.OpenMap[string, int64](db, "hits")
	if err != nil {
		log.Fatal(err)
	}
	n, _, err := hits.Update("/about", func(e *copal.Entry[int64]) error {
		e.Value++ // from 0, if there is no entry yet
		return nil
	})

	fmt.Println(n, err)
	// Output: 1 <nil>
}

// prune removes the events before a moment, a thousand in a transaction, which keeps each small.
func prune(db *copal.DB, events *copal.Map[time.Time, string], before time.Time) (removed int, err error) {
	for {
		n := 0
		err := db.Update(func(tx *copal.Tx) error {
			n = 0
			in := events.In(tx)
			for at := range in.Until(before) {
				if _, err := in.Delete(at); err != nil {
					return err
				}
				if n++; n == 1000 {
					break
				}
			}
			return nil
		})
		removed += n
		if err != nil || n == 0 {
			return removed, err
		}
	}
}

func Example_guidePruning() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	events, _ := copal.OpenMap[time.Time, string](db, "events", copal.Ordered())
	start := time.Unix(1e9, 0)
	for i := range 2500 {
		events.Set(start.Add(time.Duration(i)*time.Second), "tick")
	}
	fmt.Println(prune(db, events, start.Add(2400*time.Second)))
	fmt.Println(events.Len())
	// Output:
	// 2400 <nil>
	// 100
}

func Example_guideRename() {
	db, _ := copal.OpenMemory()
	defer db.Close()

	type Before struct{ Mail string }
	people, _ := copal.OpenMap[string, Before](db, "people")
	people.Set("ada", Before{"ada@example.org"})
	people.Close()

	type After struct {
		Email string `json:"Mail"` // the stored name stays; for codec.Binary also copal:"Mail"
		Age   int    // new: zero in what was stored before
	}
	renamed, err := copal.OpenMap[string, After](db, "people")
	ada, ok := renamed.Get("ada")

	fmt.Println(ada, ok, err)
	// Output: {ada@example.org 0} true <nil>
}

func Example_guideHistory() {
	history := copal.WithHistory(7 * 24 * time.Hour) // of every version, from the first write on

	db, _ := copal.OpenMemory(history)
	defer db.Close()
	accounts, _ := copal.OpenMap[string, Account](db, "accounts")
	accounts.Set("ada", Account{Email: "ada@example.org"})
	now, _ := db.Snapshot()
	before := now.Seq()
	now.Close()
	accounts.Clear()

	was, err := db.AsOfSeq(before) // or db.AsOf(time.Now().Add(-10 * time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	defer was.Close()
	for name, account := range accounts.At(was).All() {
		if !accounts.Has(name) {
			accounts.Set(name, account) // restore a deleted account
		}
	}
	for version, err := range accounts.History("ada") { // the newest first
		fmt.Println(version.Seq > before, version.Deleted, version.Value.Email, err)
	}
	// Output:
	// true false ada@example.org <nil>
	// true true  <nil>
	// false false ada@example.org <nil>
}

func Example_guideUndo() {
	ctx := context.Background()
	db, _ := copal.OpenMemory(copal.WithHistory(24 * time.Hour))
	defer db.Close()
	accounts, _ := copal.OpenMap[string, Account](db, "accounts")
	accounts.Set("ada", Account{Email: "ada@example.org"})
	accounts.Set("bob", Account{Email: "bob@example.org"})
	s, _ := db.Snapshot()
	before := s.Seq()
	s.Close()
	for name := range accounts.Keys() {
		accounts.Set(name, Account{Email: "test@example.org"}) // in the wrong store
	}
	s, _ = db.Snapshot()
	after := s.Seq()
	s.Close()
	accounts.Set("bob", Account{Email: "bob@example.com"})

	then, err := db.AsOfSeq(before) // or db.AsOf(time.Now().Add(-10 * time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	defer then.Close()
	now, err := db.AsOfSeq(after) // right after the mistake, or db.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer now.Close()
	for d, err := range admin.Diff(now, then, nil, nil) { // the differences that Undo would write
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s\n", d.Key, d.B.Value)
	}
	report, err := admin.Undo(ctx, db, then, now, nil, nil)
	if err != nil {
		log.Fatal(err) // and nothing is undone
	}
	fmt.Printf("%d as before, left: %s\n", report.Restored, report.Changed)
	// Output:
	// accounts:ada: {"Email":"ada@example.org","Name":""}
	// accounts:bob: {"Email":"bob@example.org","Name":""}
	// 1 as before, left: [accounts:bob]
}

// countTo is code of yours that uses a store.
func countTo(db *copal.DB, n int) error {
	counters, err := copal.OpenMap[string, int](db, "counters")
	for range n {
		_, _, err2 := counters.Update("n", func(e *copal.Entry[int]) error { e.Value++; return nil })
		err = errors.Join(err, err2)
	}
	return err
}

func Example_guideTest() {
	db, err := copal.OpenMemory() // the same semantics, no files
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := countTo(db, 3); err != nil {
		log.Fatal(err)
	}
	n, _ := db.Raw().Get([]byte("counters:n"))
	fmt.Printf("%s\n", n)
	// Output: 3
}

func Example_guideFollower() {
	parent, _ := os.MkdirTemp("", "copal")
	defer os.RemoveAll(parent)
	dir := filepath.Join(parent, "app.db")
	writer, _ := copal.Open(dir)
	defer writer.Close()
	there, _ := copal.OpenMap[string, int](writer, "stock")
	there.Set("apples", 1)

	reader, err := copal.Open(dir, copal.ReadOnly()) // in another process, usually
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Close()
	stock, err := copal.OpenMap[string, int](reader, "stock")
	if err != nil {
		log.Fatal(err)
	}
	there.Set("apples", 2)
	err = reader.Refresh() // or wait for a moment: what was acknowledged shows by itself
	apples, _ := stock.Get("apples")

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for change, err := range stock.Watch(ctx, copal.WithAfter(0)) { // every change, once and in order
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(change.Key, change.Value)
		if change.Value == 2 {
			break
		}
	}
	fmt.Println(apples, err)
	// Output:
	// apples 1
	// apples 2
	// 2 <nil>
}

func Example_guideTrail() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	ctx := context.Background()

	sessions, err := copal.OpenMap[string, string](db, "sessions", copal.ExpiryEvents())
	if err != nil {
		log.Fatal(err)
	}
	sessions.Set("b3", "Bob")
	sessions.Delete("b3")
	sessions.SetTTL("a7", "Alice", time.Millisecond)

	trail := func(after uint64) (last uint64) { // prints the changes of a map after a number
		for c, err := range db.Watch(ctx, copal.WithAfter(after), copal.WithPrefix(copal.MapPrefix("sessions"))) {
			switch {
			case err != nil:
				log.Fatal(err) // ErrHistoryLost: the trail has a gap
			case c.Range:
				fmt.Printf("from %s to %s deleted\n", c.Key, c.To)
			case c.Expired:
				fmt.Printf("%s expired\n", c.Key)
			case c.Deleted:
				fmt.Printf("%s deleted\n", c.Key)
			default:
				value, _ := c.Value()
				fmt.Printf("%s is %s\n", c.Key, value)
			}
			if !c.More { // not within a transaction
				last = c.Seq // store it: the next call continues here
			}
			if c.Expired {
				break
			}
		}
		return last
	}
	trail(0)
	// Output:
	// sessions:b3 is "Bob"
	// sessions:b3 deleted
	// sessions:a7 is "Alice"
	// sessions:a7 expired
}

func Example_guideBefore() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	ctx := context.Background()
	stock, _ := copal.OpenMap[string, int](db, "stock")
	stock.Set("apples", 1)

	told := uint64(0)
	stock.Set("apples", 2)
	stock.Set("pears", 5)
	stock.Delete("pears")
	stock.Clear()
	now, err := db.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer now.Close()
	for c, err := range stock.Watch(ctx, copal.WithAfter(told), copal.WithUntil(now.Seq()), copal.OldValues()) {
		if err != nil {
			log.Fatal(err)
		}
		was, err := c.Old()
		switch {
		case err != nil && !errors.Is(err, copal.ErrNotFound):
			log.Fatal(err)
		case c.Range:
			fmt.Println("all of a range was deleted")
		case c.Deleted:
			fmt.Printf("%s: %d -> none\n", c.Key, was)
		case err != nil:
			fmt.Printf("%s: none -> %d\n", c.Key, c.Value)
		default:
			fmt.Printf("%s: %d -> %d\n", c.Key, was, c.Value)
		}
		if !c.More {
			told = c.Seq // store it: the next loop continues here
		}
	}
	// Output:
	// apples: none -> 1
	// apples: 1 -> 2
	// pears: none -> 5
	// pears: 5 -> none
	// all of a range was deleted
}

func Example_guideCopy() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	ctx := context.Background()
	db.Raw().Set([]byte("motto"), []byte("slowly"))
	cart := db.Raw().Hash([]byte("cart"))
	cart.Set("pears", []byte("2"))
	cart.Set("plums", []byte("9"))
	cart.Delete("plums")
	cart.Rename("cart of Ada")
	db.Raw().Set([]byte("end"), []byte(""))

	copied, carts := map[string]string{}, map[string]map[string]string{} // the copy: values, and hashes
	take := func(c *copal.Change) {
		key, value := string(c.Key), ""
		if v, err := c.Value(); err == nil {
			value = string(v)
		}
		switch {
		case c.Range: // a map was cleared or dropped, or keys of a range deleted
			maps.DeleteFunc(copied, func(key, _ string) bool { return c.Covers([]byte(key)) })
		case c.Element != nil && c.Deleted:
			delete(carts[key], string(c.Element))
		case c.Element != nil:
			carts[key][string(c.Element)] = value
		case c.Created:
			carts[key] = map[string]string{}
		case c.From != nil: // renamed: read it from the store
			carts[key] = map[string]string{}
			for field, value := range db.Raw().Hash(c.Key).All() {
				carts[key][field] = string(value)
			}
		case c.Deleted:
			delete(copied, key)
			delete(carts, key)
		case c.Collection == "":
			copied[key] = value
		}
	}
	after := uint64(0) // stored with the copy: the next run continues here
	for c, err := range db.Watch(ctx, copal.WithAfter(after)) {
		if err != nil {
			log.Fatal(err) // after ErrHistoryLost, copy a snapshot and begin again
		}
		take(&c)
		if !c.More {
			after = c.Seq
		}
		if string(c.Key) == "end" {
			break
		}
	}
	fmt.Println(copied["motto"], carts)
	// Output:
	// slowly map[cart of Ada:map[pears:2]]
}
