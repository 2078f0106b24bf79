package pagetest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// Long reports whether tests may run long.
func Long() bool { return os.Getenv("COPAL_LONG") == "1" }

// Reader is the process of the reader in Python, which answers one question after the other.
type Reader struct {
	t   testing.TB
	in  io.Writer
	out *json.Decoder
}

// Answer is a reader's answer for a directory. Of a store it has counts and the export, of a log of
// bytes its entries.
type Answer struct {
	Verdict string // sound, damaged, newer or no store
	Why     string // unless it is sound

	Keys, Records, Torn int64
	Export              string

	First, End int64
	Entries    [][2]int64 // address and length of each
	SHA256     string     // of their bytes
}

// Start starts the reader, which ends with the test. Without Python the test is skipped.
func Start(t testing.TB) *Reader {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("the reader of the format pages needs python3, which is not installed here")
	}
	_, here, _, _ := runtime.Caller(0)
	script := filepath.Join(filepath.Dir(here), "..", "..", "testdata", "reader", "reader.py")
	cmd := exec.Command(python, "-B", script, "serve")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the reader: %v", err)
		}
	})
	return &Reader{t, in, json.NewDecoder(bufio.NewReader(out))}
}

// Ask returns the reader's answer for a directory with a "store" or a "hybridlog", at a time.
func (r *Reader) Ask(what, dir string, now time.Time) (a Answer) {
	r.t.Helper()
	question, err := json.Marshal(map[string]any{"what": what, "dir": dir, "now": now.UnixMilli()})
	if err == nil {
		_, err = fmt.Fprintf(r.in, "%s\n", question)
	}
	if err == nil {
		err = r.out.Decode(&a)
	}
	if err != nil {
		r.t.Fatalf("the reader: %v", err)
	}
	return a
}

// Hurt damages one of the files in a directory, or none, so many times, and describes the damage.
// Or it makes a file one of a newer version, and does nothing else: no page says which of newer and
// damaged comes first. earlier is a copy of the directory at another moment.
func Hurt(t testing.TB, rng *rand.Rand, dir, earlier string, times int) string {
	t.Helper()
	if rng.IntN(10) == 0 {
		return renewOne(t, rng, dir)
	}
	var done []string
	for range times {
		done = append(done, hurtOne(t, rng, dir, earlier))
	}
	return strings.Join(done, ", ")
}

func renewOne(t testing.TB, rng *rand.Rand, dir string) string {
	t.Helper()
	name := victim(t, rng, dir)
	path := filepath.Join(dir, name)
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, renew(name, b), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	return name + " of a newer version"
}

func hurtOne(t testing.TB, rng *rand.Rand, dir, earlier string) string {
	t.Helper()
	name := victim(t, rng, dir)
	path := filepath.Join(dir, name)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := rng.IntN(len(b) + 1)
	if rng.IntN(2) == 0 { // near the end
		at = len(b) - rng.IntN(min(len(b), 300)+1)
	}
	what := fmt.Sprintf("%s at %d of %d: ", name, at, len(b))
	switch n := min(len(b)-at, 1+rng.IntN(2000)); rng.IntN(9) {
	case 0, 1, 2:
		return "unhurt"
	case 3:
		what, b = what+"cut", b[:at]
	case 4, 5:
		if n == 0 {
			return "unhurt"
		}
		what += "a flipped bit"
		b[at] ^= 1 << rng.IntN(8)
	case 6:
		what += fmt.Sprint(n, " zeros")
		clear(b[at : at+n])
	case 7:
		what += fmt.Sprint(n, " bytes once more behind the end")
		b = append(b, b[at:at+n]...)
	case 8:
		if b, err = os.ReadFile(filepath.Join(earlier, name)); err != nil || rng.IntN(2) == 0 {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			return name + " removed"
		}
		what = name + " of earlier"
	}
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
	return what
}

var version = regexp.MustCompile(`^copal [a-z]+ 1[ \n]`)

// renew returns a file with version 2 in its first line. The checksum of that line, or of the whole
// manifest, is right.
func renew(name string, b []byte) []byte {
	end := bytes.IndexByte(b, '\n') + 1
	if name == "MANIFEST" {
		end = len(b)
	}
	text := version.Find(b[:end])
	if text == nil {
		return b
	}
	b = slices.Clone(b)
	b[len(text)-2] = '2'
	sum := crc32.Checksum(b[:end-9], crc32.MakeTable(crc32.Castagnoli))
	copy(b[end-9:], fmt.Sprintf("%08x", sum))
	return b
}

// victim chooses a file, rather one of the newest segments than another.
func victim(t testing.TB, rng *rand.Rand, dir string) string {
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names, segments []string
	for _, e := range list {
		names = append(names, e.Name())
		if strings.HasPrefix(e.Name(), "0") {
			segments = append(segments, e.Name())
		}
	}
	slices.Reverse(segments)
	if len(segments) > 0 && rng.IntN(3) > 0 {
		return segments[rng.IntN(min(len(segments), 4))]
	}
	return names[rng.IntN(len(names))]
}
