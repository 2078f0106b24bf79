package copal_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

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
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil { // the program still writes: DB.Backup makes a better copy
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

	_, ok := users.Get("eve") // Get returns no error
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
	pages.Set("/", []byte("<h1>Hello</h1>")) // unchanged, where JSON would write base64

	raw, _ := db.Raw().Load([]byte("pages:/"))
	fmt.Printf("%s\n", raw)
	// Output: <h1>Hello</h1>
}

func ExampleWithAutoCompact() {
	// Compact every ten minutes if the log has more than two records for each entry.
	db, err := copal.OpenMemory(copal.WithAutoCompact(10*time.Minute, 2.0))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(db.Close())

	_, err = copal.OpenMemory(copal.WithAutoCompact(10*time.Minute, 0.5))
	fmt.Println(err)
	// Output:
	// <nil>
	// copal: WithAutoCompact(10m0s, 0.5); the time must be positive, and the ratio at least 1
}

func ExampleWithFileMode() {
	dir, err := os.MkdirTemp("", "copal-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	// A group of operators reads the store and makes backups.
	db, err := copal.Open(filepath.Join(dir, "app.db"), copal.WithFileMode(0o640))
	if err != nil {
		log.Fatal(err)
	}
	if err := copal.Set(db, "visits", 1); err != nil {
		log.Fatal(err)
	}
	fmt.Println(db.Close())
	// Output: <nil>
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

func ExampleOnError() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	users, _ := copal.OpenMap[string, string](db, "users")
	users.Close()

	var failed error // of the next verbs, which cannot return it
	ctx := copal.OnError(context.Background(), func(err error) { failed = err })
	fmt.Println(users.WithContext(ctx).Len(), errors.Is(failed, copal.ErrClosed))
	// Output: 0 true
}
