package hybridlog_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/copaldb/copal/hybridlog"
)

// opened is a new log in a directory of its own.
func opened(opts ...hybridlog.Option) (l *hybridlog.Log, dir string, done func()) {
	parent, err := os.MkdirTemp("", "hybridlog")
	if err != nil {
		log.Fatal(err)
	}
	dir = filepath.Join(parent, "events")
	if l, err = hybridlog.Open(dir, opts...); err != nil {
		log.Fatal(err)
	}
	return l, dir, func() {
		if err := errors.Join(l.Close(), os.RemoveAll(parent)); err != nil {
			log.Fatal(err)
		}
	}
}

func Example() {
	l, dir, done := opened()
	defer done()
	first, _ := l.Append([]byte("hello\n"))
	second, _ := l.Append([]byte("world\n"))
	fmt.Println(first, second, l.Size())

	p := make([]byte, 5)
	l.ReadAt(p, int64(second))
	fmt.Printf("%s\n", p)

	for entry, err := range l.Entries(0) {
		fmt.Printf("%d: %q %v\n", entry.Address, entry.Data, err)
	}
	l.Sync()
	text, _ := os.ReadFile(filepath.Join(dir, "00000001.log"))
	fmt.Print(len(text) <= 12, "\n") // the bytes of the log are a plain file
	// Output:
	// 0 6 12
	// world
	// 0: "hello\n" <nil>
	// 6: "world\n" <nil>
	// true
}

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "hybridlog")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	l, err := hybridlog.Open(filepath.Join(dir, "events"), hybridlog.AlwaysSync, hybridlog.OpenTimeout(time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	_, err = l.Append([]byte("on the disk when this returns"))
	fmt.Println(err, l.Stats().Durable)
	// Output: <nil> 29
}

func ExampleReadOnly() {
	l, dir, done := opened()
	defer done()
	l.Append([]byte("still being written"))
	reader, err := hybridlog.Open(dir, hybridlog.ReadOnly())
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Close()
	text, err := io.ReadAll(io.NewSectionReader(reader, 0, reader.Size()))
	fmt.Printf("%s, %v\n", text, err)
	_, err = reader.Append([]byte("x"))
	fmt.Println(err)
	// Output:
	// still being written, <nil>
	// hybridlog: the log is read-only
}

func ExampleOpenTimeout() {
	_, dir, done := opened()
	defer done()
	_, err := hybridlog.Open(dir, hybridlog.OpenTimeout(20*time.Millisecond))
	fmt.Println(errors.Is(err, hybridlog.ErrLocked))
	// Output: true
}

func ExampleSegmentBytes() {
	l, _, done := opened(hybridlog.SegmentBytes(64 << 10))
	defer done()
	for range 10 {
		l.Append(make([]byte, 30_000))
	}
	fmt.Println(l.Size(), l.Stats().Segments)
	// Output: 300000 5
}

func ExampleCompactEvery() {
	l, _, done := opened(hybridlog.CompactEvery(10 * time.Minute))
	defer done()
	fmt.Println(l.Stats().Fragments)
	// Output: 0
}

func ExampleCompactFragments() {
	l, _, done := opened(hybridlog.CompactFragments(8)) // at the latest when there are eight
	defer done()
	fmt.Println(l.Stats().Fragments)
	// Output: 0
}

func ExampleOnError() {
	l, _, done := opened(hybridlog.OnError(func(err error) { log.Print("in the background: ", err) }))
	defer done()
	_, err := l.Append([]byte("x"))
	fmt.Println(err)
	// Output: <nil>
}

func ExampleAddress_String() {
	fmt.Println(hybridlog.Address(255).String())
	// Output: 255
}

func ExampleLog_Append() {
	l, _, done := opened()
	defer done()
	for _, text := range []string{"a", "bc", "def"} {
		at, err := l.Append([]byte(text))
		fmt.Println(at, err)
	}
	// Output:
	// 0 <nil>
	// 1 <nil>
	// 3 <nil>
}

func ExampleLog_Write() {
	l, _, done := opened()
	defer done()
	logger := log.New(l, "", 0)
	logger.Print("one line, one entry")
	fmt.Println(l.Size())
	// Output: 20
}

func ExampleLog_ReadAt() {
	l, _, done := opened()
	defer done()
	l.Append([]byte("across "))
	l.Append([]byte("two writes"))
	p := make([]byte, 20)
	n, err := l.ReadAt(p, 4)
	fmt.Printf("%q %v\n", p[:n], err)
	// Output: "ss two writes" EOF
}

func ExampleLog_View() {
	l, _, done := opened()
	defer done()
	at, _ := l.Append([]byte("read where it stands"))
	err := l.View(at+5, 5, func(p []byte) error {
		fmt.Printf("%s\n", p)
		return nil
	})
	fmt.Println(err)
	// Output:
	// where
	// <nil>
}

func ExampleLog_Entries() {
	l, _, done := opened()
	defer done()
	l.Append([]byte("a"))
	from, _ := l.Append([]byte("b"))
	l.Append([]byte("c"))
	for e, err := range l.Entries(from) {
		fmt.Printf("%d %s %v\n", e.Address, e.Data, err)
	}
	// Output:
	// 1 b <nil>
	// 2 c <nil>
}

func ExampleLog_Spans() {
	l, _, done := opened()
	defer done()
	l.Append([]byte("short"))
	l.Append(make([]byte, 1<<20))
	for s, err := range l.Spans(0) {
		fmt.Println(s.Address, s.Bytes, err)
	}
	// Output:
	// 0 5 <nil>
	// 5 1048576 <nil>
}

func ExampleLog_Size() {
	l, _, done := opened()
	defer done()
	l.Append([]byte("four"))
	fmt.Println(l.Size())
	// Output: 4
}

func ExampleLog_Trim() {
	l, _, done := opened()
	defer done()
	l.Append([]byte("old"))
	at, _ := l.Append([]byte("new"))
	fmt.Println(l.Trim(at), l.First())
	_, err := l.ReadAt(make([]byte, 1), 0)
	fmt.Println(errors.Is(err, hybridlog.ErrTrimmed))
	p := make([]byte, 3)
	l.ReadAt(p, int64(at)) // addresses do not change
	fmt.Printf("%s\n", p)
	// Output:
	// <nil> 3
	// true
	// new
}

func ExampleLog_First() {
	l, _, done := opened()
	defer done()
	fmt.Println(l.First())
	// Output: 0
}

func ExampleLog_Compact() {
	l, _, done := opened()
	defer done()
	l.Append([]byte("x"))
	fmt.Println(l.Compact(), l.Size())
	// Output: <nil> 1
}

func ExampleLog_Sync() {
	l, _, done := opened()
	defer done()
	l.Append([]byte("x"))
	fmt.Println(l.Sync(), l.Stats().Durable)
	// Output: <nil> 1
}

func ExampleLog_Stats() {
	l, _, done := opened()
	defer done()
	l.Append([]byte("x"))
	l.Sync()
	fmt.Printf("%+v\n", l.Stats())
	// Output: {First:0 End:1 Durable:1 Segments:1 Fragments:0}
}

func ExampleLog_Close() {
	l, _, done := opened()
	defer done()
	fmt.Println(l.Close(), l.Close())
	_, err := l.Append([]byte("x"))
	fmt.Println(err)
	// Output:
	// <nil> <nil>
	// hybridlog: the log is closed
}

func ExampleCorruptError() {
	_, dir, done := opened()
	done() // closed, and removed
	os.MkdirAll(dir, 0o777)
	defer os.RemoveAll(filepath.Dir(dir))
	os.WriteFile(filepath.Join(dir, "MANIFEST"), []byte("not what was written"), 0o666)
	_, err := hybridlog.Open(dir)
	var damage *hybridlog.CorruptError
	if errors.As(err, &damage) {
		fmt.Println(filepath.Base(damage.File), damage.Offset)
	}
	// Output: MANIFEST 0
}
