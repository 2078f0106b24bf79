package copal_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

// The examples are the manual. Most keep their store in memory, to leave nothing on
// your disk; all would read the same with copal.Open("app.db").

// User is what the examples keep.
type User struct {
	Name string
	Age  int
}

// tempDir returns the path of a directory that does not exist yet.
func tempDir() string {
	parent, err := os.MkdirTemp("", "copal-example-")
	if err != nil {
		log.Fatal(err)
	}
	return filepath.Join(parent, "app.db")
}

func Example() {
	dir := tempDir() // you would write "app.db"
	defer os.RemoveAll(filepath.Dir(dir))

	db, err := copal.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	users, err := copal.OpenMap[string, User](db, "users")
	if err != nil {
		log.Fatal(err)
	}
	if err := users.Set("alice", User{Name: "Alice", Age: 28}); err != nil {
		log.Fatal(err)
	}
	if err := db.Close(); err != nil {
		log.Fatal(err)
	}

	// Tomorrow:
	db, err = copal.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	users, err = copal.OpenMap[string, User](db, "users")
	if err != nil {
		log.Fatal(err)
	}
	alice, ok := users.Get("alice")
	fmt.Println(alice.Name, alice.Age, ok)
	// Output: Alice 28 true
}

func ExampleOpen() {
	dir := tempDir()
	defer os.RemoveAll(filepath.Dir(dir))

	db, err := copal.Open(dir) // made when it is missing
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	// One process at a time may write. The text of the error names the holder.
	_, err = copal.Open(dir)
	fmt.Println(errors.Is(err, copal.ErrLocked))
	// Output: true
}

func ExampleOpenMemory() {
	db, err := copal.OpenMemory() // as Open, and gone after Close
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	hits, err := copal.OpenMap[string, int](db, "hits")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(hits.Set("/", 1), hits.Len())
	// Output: <nil> 1
}

func ExampleOpenMap() {
	db, _ := copal.OpenMemory()
	defer db.Close()

	// Any number of maps, each with types of its own.
	users, err := copal.OpenMap[string, User](db, "users")
	if err != nil {
		log.Fatal(err)
	}
	logins, err := copal.OpenMap[time.Time, string](db, "logins")
	if err != nil {
		log.Fatal(err)
	}
	users.Set("alice", User{"Alice", 28})
	logins.Set(time.Date(2024, 2, 29, 12, 30, 0, 0, time.UTC), "alice")

	// What cannot be kept is refused when the map is opened, not when it is read.
	_, err = copal.OpenMap[string, chan int](db, "channels")
	fmt.Println(users.Len(), logins.Len(), errors.Is(err, copal.ErrType))
	// Output: 1 1 true
}

func ExampleOpenSingleMap() {
	dir := tempDir()
	defer os.RemoveAll(filepath.Dir(dir))

	users, err := copal.OpenSingleMap[string, User](dir)
	if err != nil {
		log.Fatal(err)
	}
	defer users.Close() // closes the store as well

	err = users.Set("alice", User{"Alice", 28})
	fmt.Println(users.Len(), err)
	// Output: 1 <nil>
}

func ExampleMap_Get() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	users, _ := copal.OpenMap[string, User](db, "users")
	users.Set("alice", User{"Alice", 28})

	alice, ok := users.Get("alice")
	fmt.Println(alice, ok)
	nobody, ok := users.Get("nobody")
	fmt.Println(nobody, ok)
	// Output:
	// {Alice 28} true
	// { 0} false
}

func ExampleMap_Load() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	users, _ := copal.OpenMap[string, User](db, "users")

	// Load says why there is no value; Get takes every reason for absence.
	switch u, err := users.Load("alice"); {
	case errors.Is(err, copal.ErrNotFound):
		fmt.Println("no such user")
	case err != nil:
		log.Fatal(err) // damaged, or of another type, or closed
	default:
		fmt.Println(u.Name)
	}
	// Output: no such user
}

func ExampleMap_Set() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	users, _ := copal.OpenMap[string, User](db, "users")

	// When Set returns nil, the entry survives the death of the process.
	if err := users.Set("alice", User{"Alice", 28}); err != nil {
		log.Fatal(err)
	}
	if err := users.Set("alice", User{"Alice", 29}); err != nil { // replaces
		log.Fatal(err)
	}
	alice, _ := users.Get("alice")
	fmt.Println(alice.Age, users.Len())
	// Output: 29 1
}

func ExampleMap_SetFSync() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	orders, _ := copal.OpenMap[int, string](db, "orders")

	// When SetFSync returns nil, the entry survives a power cut.
	if err := orders.SetFSync(4711, "paid"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(orders.Get(4711))
	// Output: paid true
}

func ExampleMap_SetAsync() {
	db, _ := copal.OpenMemory()
	defer db.Close() // writes what is still waiting
	hits, _ := copal.OpenMap[string, int](db, "hits")

	for i := range 1000 {
		hits.SetAsync("/index.html", i+1) // the log gets the last value of each sync interval
	}
	fmt.Println(hits.Get("/index.html"))
	fmt.Println(hits.Sync()) // now it is on the disk
	// Output:
	// 1000 true
	// <nil>
}

func ExampleMap_SetInMemory() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	pages, _ := copal.OpenMap[string, Page](db, "pages")
	pages.Set("home", Page{Text: "Hello"})

	// Fields that are not stored, and can be made again, need no log.
	pages.SetInMemory("home", Page{Text: "Hello", rendered: "<p>Hello</p>"})
	page, _ := pages.Get("home")
	fmt.Println(page.rendered)

	pages.Set("home", Page{Text: "Goodbye"}) // takes the place of both
	page, _ = pages.Get("home")
	fmt.Printf("%+v\n", page)
	// Output:
	// <p>Hello</p>
	// {Text:Goodbye rendered:}
}

type Page struct {
	Text     string
	rendered string
}

func ExampleMap_Delete() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	users, _ := copal.OpenMap[string, User](db, "users")
	users.Set("alice", User{"Alice", 28})

	fmt.Println(users.Delete("alice"))
	fmt.Println(users.Delete("alice")) // nothing is there, and nothing is written
	// Output:
	// true <nil>
	// false <nil>
}

func ExampleMap_DeleteFSync() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	tokens, _ := copal.OpenMap[string, string](db, "tokens")
	tokens.Set("secret", "alice")

	existed, err := tokens.DeleteFSync("secret") // not even a power cut brings it back
	fmt.Println(existed, err)
	// Output: true <nil>
}

func ExampleMap_DeleteAsync() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	sessions, _ := copal.OpenMap[string, User](db, "sessions")
	sessions.Set("s1", User{"Alice", 28})

	fmt.Println(sessions.DeleteAsync("s1")) // the log learns of it within the sync interval
	fmt.Println(sessions.Get("s1"))
	// Output:
	// true <nil>
	// { 0} false
}

func ExampleMap_Update() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	users, _ := copal.OpenMap[string, User](db, "users")
	users.Set("alice", User{"Alice", 28})

	birthday := func(u *copal.Entry[User]) error {
		if !u.Exists {
			u.Cancel() // else the update would make one
			return nil
		}
		u.Value.Age++ // no other write comes between reading and storing

		return nil
	}
	fmt.Println(users.Update("alice", birthday))
	fmt.Println(users.Update("nobody", birthday))
	// Output:
	// {Alice 29} true <nil>
	// { 0} false <nil>
}

func ExampleMap_UpdateFSync() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	invoices, _ := copal.OpenMap[string, int](db, "numbers")

	// No number is given twice, not even after a power cut.
	number, _, err := invoices.UpdateFSync("invoice", func(u *copal.Entry[int]) error { u.Value++; return nil })
	fmt.Println(number, err)
	// Output: 1 <nil>
}

func ExampleMap_UpdateAsync() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	hits, _ := copal.OpenMap[string, int](db, "hits")

	for range 1000 { // counted in memory, written once in each sync interval
		hits.UpdateAsync("/index.html", func(u *copal.Entry[int]) error { u.Value++; return nil })
	}
	fmt.Println(hits.Get("/index.html"))
	// Output: 1000 true
}

func ExampleMap_UpdateInMemory() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	pages, _ := copal.OpenMap[string, Page](db, "pages")
	pages.Set("home", Page{Text: "Hello"})

	page, _, err := pages.UpdateInMemory("home", func(u *copal.Entry[Page]) error {
		u.Value.rendered = "<p>" + u.Value.Text + "</p>"

		return nil
	})
	fmt.Println(page.rendered, err)
	// Output: <p>Hello</p> <nil>
}

func ExampleEntry_Set() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	ages, _ := copal.OpenMap[string, int](db, "ages")

	fmt.Println(ages.Update("alice", func(u *copal.Entry[int]) error { u.Set(28); return nil })) // as u.Value = 28
	// Output: 28 true <nil>
}

func ExampleEntry_Delete() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	stock, _ := copal.OpenMap[string, int](db, "stock")
	stock.Set("amber", 1)

	take := func(u *copal.Entry[int]) error {
		if u.Value--; u.Value <= 0 {
			u.Delete()
		}

		return nil
	}
	fmt.Println(stock.Update("amber", take))
	fmt.Println(stock.Len())
	// Output:
	// 0 false <nil>
	// 0
}

func ExampleEntry_Cancel() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	owners, _ := copal.OpenMap[string, string](db, "owners")
	owners.Set("cabin", "alice")

	// Take it if nobody has it.
	owner, _, err := owners.Update("cabin", func(u *copal.Entry[string]) error {
		if u.Exists {
			u.Cancel() // it stays as it is, and nothing is written
			return nil
		}
		u.Value = "bob"

		return nil
	})
	fmt.Println(owner, err)
	// Output: alice <nil>
}

func ExampleMap_All() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	ages, _ := copal.OpenMap[string, int](db, "ages")
	ages.Set("alice", 28)
	ages.Set("bob", 17)
	ages.Set("carol", 16)

	for name, age := range ages.All() { // in no order
		if age < 18 {
			ages.Delete(name) // the store may be changed in the loop
		}
	}
	fmt.Println(maps.Collect(ages.All()))
	// Output: map[alice:28]
}

func ExampleMap_Keys() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	ages, _ := copal.OpenMap[string, int](db, "ages")
	ages.Set("bob", 31)
	ages.Set("alice", 28)

	fmt.Println(slices.Sorted(ages.Keys()))
	// Output: [alice bob]
}

func ExampleMap_Values() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	ages, _ := copal.OpenMap[string, int](db, "ages")
	ages.Set("bob", 31)
	ages.Set("alice", 28)

	sum := 0
	for age := range ages.Values() {
		sum += age
	}
	fmt.Println(sum)
	// Output: 59
}

func ExampleMap_Range() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	ages, _ := copal.OpenMap[string, int](db, "ages")
	ages.Set("alice", 28)

	err := ages.Range(func(name string, age int) error {
		fmt.Println(name, age)
		return nil // an error ends it
	})
	fmt.Println(err)
	// Output:
	// alice 28
	// <nil>
}

func ExampleMap_Len() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	ages, _ := copal.OpenMap[string, int](db, "ages")
	ages.Set("alice", 28)
	ages.Set("bob", 31)

	fmt.Println(ages.Len())
	// Output: 2
}

func ExampleMap_Sync() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	readings, _ := copal.OpenMap[int, float64](db, "readings")

	for i := range 1000 {
		if err := readings.Set(i, float64(i)/10); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(readings.Sync()) // one sync for all of them
	// Output: <nil>
}

func ExampleMap_Close() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	users, _ := copal.OpenMap[string, User](db, "users")
	users.Set("alice", User{"Alice", 28})
	users.Close()

	// Once closed, a map may be opened with other types. Fields are found by their names.
	type Person struct {
		Name  string
		Email string
	}
	people, err := copal.OpenMap[string, Person](db, "users")
	if err != nil {
		log.Fatal(err)
	}
	alice, err := people.Load("alice")
	fmt.Printf("%+v %v\n", alice, err)
	// Output: {Name:Alice Email:} <nil>
}

func ExampleMap_DB() {
	dir := tempDir()
	defer os.RemoveAll(filepath.Dir(dir))
	users, _ := copal.OpenSingleMap[string, User](dir)
	defer users.Close()
	users.Set("alice", User{"Alice", 28})

	fmt.Println(users.Name(), users.DB().Stats().Keys)
	// Output: map 1
}

func ExampleMap_Name() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	users, _ := copal.OpenMap[string, User](db, "users")

	fmt.Println(users.Name())
	// Output: users
}

func ExampleSet() {
	db, _ := copal.OpenMemory()
	defer db.Close()

	type Config struct {
		Debug bool
		Theme string
	}
	if err := copal.Set(db, "config", Config{Debug: true, Theme: "amber"}); err != nil {
		log.Fatal(err)
	}
	config, err := copal.Load[Config](db, "config")
	fmt.Println(config, err)
	// Output: {true amber} <nil>
}

func ExampleLoad() {
	db, _ := copal.OpenMemory()
	defer db.Close()

	_, err := copal.Load[int](db, "counter")
	fmt.Println(errors.Is(err, copal.ErrNotFound))
	copal.Set(db, "counter", 41)
	fmt.Println(copal.Load[int](db, "counter"))
	_, err = copal.Load[[]string](db, "counter")
	fmt.Println(errors.Is(err, copal.ErrType))
	// Output:
	// true
	// 41 <nil>
	// true
}

func ExampleDelete() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	copal.Set(db, "config", "dark")

	fmt.Println(db.Raw().Delete([]byte("config")))
	fmt.Println(db.Raw().Delete([]byte("config")))
	// Output:
	// true <nil>
	// false <nil>
}

func ExampleRaw_Set() {
	db, _ := copal.OpenMemory()
	defer db.Close()

	// A map called users and the raw keys that begin with "users:" are the same entries.
	if err := db.Raw().Set([]byte("users:alice"), []byte(`{"Name":"Alice","Age":28}`)); err != nil {
		log.Fatal(err)
	}
	users, _ := copal.OpenMap[string, User](db, "users")
	fmt.Println(users.Get("alice"))
	// Output: {Alice 28} true
}

func ExampleRaw_Load() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	users, _ := copal.OpenMap[string, User](db, "users")
	users.Set("alice", User{"Alice", 28})

	value, err := db.Raw().Load([]byte("users:alice"))
	fmt.Printf("%s %v\n", value, err)
	// Output: {"Name":"Alice","Age":28} <nil>
}

func ExampleRaw_Has() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	db.Raw().Set([]byte("seen"), nil) // an empty value is a value

	fmt.Println(db.Raw().Has([]byte("seen")))
	fmt.Println(db.Raw().Has([]byte("unseen")))
	// Output:
	// true
	// false
}

func ExampleRaw_Delete() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	db.Raw().Set([]byte("key"), []byte("value"))

	fmt.Println(db.Raw().Delete([]byte("key")))
	// Output: true <nil>
}

func ExampleRaw_Prefix() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	cities, _ := copal.OpenMap[string, string](db, "cities")
	cities.Set("lyon", "France")
	cities.Set("bonn", "Germany")
	db.Raw().Set([]byte("other"), []byte("entry"))

	for key, value := range db.Raw().Prefix([]byte("cities:")) { // in the order of the keys
		fmt.Printf("%s = %s\n", key, value)
	}
	// Output:
	// cities:bonn = "Germany"
	// cities:lyon = "France"
}

func ExampleRaw_KeysBetween_prefix() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	for _, key := range []string{"b:1", "a:2", "a:1"} {
		db.Raw().Set([]byte(key), nil)
	}
	for key := range db.Raw().KeysBetween([]byte("a:"), nil) { // no value is read
		if !bytes.HasPrefix(key, []byte("a:")) {
			break
		}
		fmt.Printf("%s\n", key)
	}
	// Output:
	// a:1
	// a:2
}

func ExampleDB_Sync() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	users, _ := copal.OpenMap[string, User](db, "users")
	users.Set("alice", User{"Alice", 28})
	copal.Set(db, "version", 7)

	fmt.Println(db.Sync()) // nil: all of it survives a power cut
	// Output: <nil>
}

func ExampleDB_Stats() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	for i := range 8 {
		db.Raw().Set([]byte("counter"), fmt.Append(nil, i))
	}
	stats := db.Stats()
	fmt.Printf("%d key, %d records, %.0f for each key\n", stats.Keys, stats.Records, stats.Ratio())
	// Output: 1 key, 8 records, 8 for each key
}

func ExampleDB_Maps() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	users, _ := copal.OpenMap[string, User](db, "users")
	users.Set("alice", User{Name: "Alice", Age: 28})
	copal.OpenMap[int, string](db, "a: b")
	db.Raw().Set([]byte("raw"), nil) // belongs to no map

	for name, keys := range db.Maps() {
		fmt.Printf("%q has %d\n", name, keys)
	}
	// Output:
	// "a: b" has 0
	// "users" has 1
}

func ExampleStats_Ratio() {
	fmt.Println(copal.Stats{Records: 180, Keys: 100}.Ratio())
	// Output: 1.8
}

func ExampleDB_Close() {
	db, _ := copal.OpenMemory()
	users, _ := copal.OpenMap[string, User](db, "users")

	// The error of Close is worth a look: it says that something may not be on the disk.
	if err := db.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(errors.Is(users.Set("alice", User{}), copal.ErrClosed), db.Close())
	// Output: true <nil>
}

func ExampleWithMaxMemory() {
	db, err := copal.OpenMemory(copal.WithMaxMemory(16 << 20)) // of the index and of decoded values
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	fmt.Println(copal.Set(db, "greeting", "hello"))
	// Output: <nil>
}

func ExampleWithSyncInterval() {
	db, err := copal.OpenMemory(copal.WithSyncInterval(100 * time.Millisecond)) // lose less in a power cut
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	fmt.Println(db.Stats().SyncInterval)
	// Output: 100ms
}

func ExampleReadOnly() {
	dir := tempDir()
	defer os.RemoveAll(filepath.Dir(dir))
	_, err := copal.Open(dir, copal.ReadOnly()) // makes nothing
	fmt.Println(errors.Is(err, fs.ErrNotExist))

	writer, _ := copal.Open(dir)
	defer writer.Close()
	copal.Set(writer, "motd", "hello")

	reader, err := copal.Open(dir, copal.ReadOnly()) // beside the writer
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Close()
	fmt.Println(copal.Load[string](reader, "motd"))
	fmt.Println(errors.Is(copal.Set(reader, "motd", "bye"), copal.ErrReadOnly))
	// Output:
	// true
	// hello <nil>
	// true
}

func ExampleAcceptCopy() {
	dir := tempDir()
	defer os.RemoveAll(filepath.Dir(dir))
	db, _ := copal.Open(dir)
	defer db.Close()
	copal.Set(db, "motd", "hello")

	copied := filepath.Join(filepath.Dir(dir), "copied")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil { // beside the program that writes: a backup is the right way
		log.Fatal(err)
	}
	_, err := copal.Open(copied)
	fmt.Println(errors.Is(err, copal.ErrCopied))

	c, err := copal.Open(copied, copal.AcceptCopy()) // the last writes may be missing
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(copal.Set(c, "motd", "good evening"), c.Close())
	// Output:
	// true
	// <nil> <nil>
}

func ExampleWithErrorHandler() {
	db, _ := copal.OpenMemory(copal.WithErrorHandler(func(err error) {
		fmt.Println("copal:", errors.Is(err, copal.ErrType))
	}))
	defer db.Close()
	users, _ := copal.OpenMap[string, User](db, "users")
	db.Raw().Set([]byte("users:eve"), []byte("no JSON at all"))

	_, ok := users.Get("eve") // has no error to return
	fmt.Println(ok)
	// Output:
	// copal: true
	// false
}

func ExampleWithProgress() {
	dir := tempDir()
	defer os.RemoveAll(filepath.Dir(dir))
	db, err := copal.Open(dir, copal.WithProgress(func(done, total int64) {
		fmt.Printf("%d of %d bytes read\n", done, total) // not in a new store
	}))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(db.Close())
	// Output: <nil>
}

func ExampleWithCodec() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	pages, err := copal.OpenMap[string, []byte](db, "pages", copal.WithCodec(codec.Bytes))
	if err != nil {
		log.Fatal(err)
	}
	pages.Set("/", []byte("<h1>Hello</h1>")) // as it is, where JSON would write base64

	raw, _ := db.Raw().Load([]byte("pages:/"))
	fmt.Printf("%s\n", raw)
	// Output: <h1>Hello</h1>
}

func ExampleCorruptError() {
	dir := tempDir()
	defer os.RemoveAll(filepath.Dir(dir))
	db, _ := copal.Open(dir)
	copal.Set(db, "greeting", "hello")
	db.Close()
	log := filepath.Join(dir, "00000001.log")
	text, _ := os.ReadFile(log)
	text[len(text)-3] ^= 1
	os.WriteFile(log, text, 0o666)

	_, err := copal.Open(dir)
	var damage *copal.CorruptError
	if errors.As(err, &damage) {
		fmt.Println(filepath.Base(damage.File), damage.Reason != "")
	}
	// Output: 00000001.log true
}
