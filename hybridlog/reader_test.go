package hybridlog

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/pagetest"
	"github.com/copaldb/copal/internal/vfs"
)

// docs/hybridlog-format.md is tested by a reader that was written from it alone, in another
// language (testdata/reader): of random logs, closed, killed, cut and damaged, it must give the
// same answers as the package. COPAL_LONG=1 takes 200 of them, each hurt in five ways.
func TestReader(t *testing.T) {
	r := pagetest.Start(t)
	logs := 8
	if pagetest.Long() {
		logs = 200
	}
	verdicts := map[string]int{}
	for seed := range uint64(logs) {
		rng := rand.New(rand.NewPCG(seed, 16))
		home := t.TempDir()
		what := readerLog(t, rng, home)
		for n := range 5 {
			dir := filepath.Join(home, fmt.Sprint(n))
			if err := os.CopyFS(dir, os.DirFS(filepath.Join(home, "log"))); err != nil {
				t.Fatal(err)
			}
			hurt := pagetest.Hurt(t, rng, dir, filepath.Join(home, "earlier"), 1)
			want, got := told(t, dir), r.Ask("hybridlog", dir, time.Time{})
			if want.Verdict == got.Verdict {
				got.Why = want.Why
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d, %s, %s, in %s:\nreader    %.500v\nhybridlog %.500v", seed, what, hurt, dir, got, want)
			}
			verdicts[got.Verdict]++
		}
	}
	t.Logf("%d logs: %v", logs, verdicts)
}

// readerLog writes a log into home/log, and an earlier moment of it into home/earlier.
func readerLog(t *testing.T, rng *rand.Rand, home string) string {
	mem := vfs.NewMem()
	change := func(o *options) {
		o.random, o.policy = rng.Uint64, SyncPolicy(rng.IntN(3))
		o.segmentBytes = 1000 + rng.Int64N(20_000)
		if rng.IntN(4) == 0 {
			o.dataRing = 0
		}
	}
	runs := 1 + rng.IntN(3)
	for run := range runs {
		l := mustOpen(t, mem, change)
		for range rng.IntN(60) {
			actOn(t, rng, l)
		}
		if run == 0 {
			writeOut(t, mem, filepath.Join(home, "earlier"))
		}
		if run == runs-1 && rng.IntN(2) == 0 {
			writeOut(t, mem, filepath.Join(home, "log"))
			mustClose(t, l)
			return "killed"
		}
		mustClose(t, l)
	}
	writeOut(t, mem, filepath.Join(home, "log"))
	return "closed"
}

func actOn(t *testing.T, rng *rand.Rand, l *Log) {
	err := error(nil)
	switch rng.IntN(12) {
	case 0:
		err = l.Sync()
	case 1:
		err = l.Trim(Address(rng.Int64N(l.Size() + 1)))
	case 2:
		err = l.Compact()
	case 3:
		_, err = l.Append(text(rng.IntN(99), rng.IntN(12_000)))
	default:
		_, err = l.Append(text(rng.IntN(99), rng.IntN(500)))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// writeOut writes the files of a log in memory to a directory.
func writeOut(t *testing.T, mem *vfs.Mem, dir string) {
	t.Helper()
	names, err := mem.List("log")
	if err == nil {
		err = os.MkdirAll(dir, 0o777)
	}
	for _, name := range names {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), contentOf(t, mem, filepath.Join("log", name)), 0o666)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// contentOf returns the content of a file in memory.
func contentOf(t *testing.T, mem *vfs.Mem, name string) []byte {
	t.Helper()
	f, err := mem.Open(name, vfs.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	b := make([]byte, size)
	if err == nil && size > 0 {
		_, err = f.ReadAt(b, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// told returns the answers of the package about a log, in the words of the reader.
func told(t *testing.T, dir string) (a pagetest.Answer) {
	t.Helper()
	a, err := readAll(dir)
	switch {
	case err == nil:
		return a
	case errors.Is(err, ErrCorrupt):
		return pagetest.Answer{Verdict: "damaged", Why: err.Error()}
	case errors.Is(err, ErrVersion):
		return pagetest.Answer{Verdict: "newer", Why: err.Error()}
	case errors.Is(err, fs.ErrNotExist):
		return pagetest.Answer{Verdict: "no store", Why: err.Error()}
	}
	t.Fatal(err)
	return a
}

func readAll(dir string) (a pagetest.Answer, err error) {
	l, err := Open(dir, ReadOnly(), AcceptCopy(), OnError(func(error) {}))
	if err != nil {
		return a, err
	}
	a = pagetest.Answer{Verdict: "sound", First: int64(l.First()), End: l.Size(), Entries: [][2]int64{}}
	sum := sha256.New()
	for e, err := range l.Entries(0) {
		if err != nil {
			return a, errors.Join(err, l.Close())
		}
		a.Entries = append(a.Entries, [2]int64{int64(e.Address), int64(len(e.Data))})
		sum.Write(e.Data)
	}
	a.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return a, l.Close()
}
