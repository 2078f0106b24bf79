package hybridlog

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/vfs"
)

// loseUnsynced does to every file of segments and to the ring what a write-back does that fails: the cache shows what
// was written, calls it clean, and the disk never gets it.
func loseUnsynced(t *testing.T, mem *vfs.Mem) {
	t.Helper()
	names, err := mem.List("log")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, segment := parseName(name); !segment && name != ringName {
			continue
		}
		f, err := mem.Open("log/"+name, vfs.ReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		f.(interface{ LoseUnsynced() }).LoseUnsynced()
		f.Close()
	}
}

// What an earlier process left behind is in the page cache, and perhaps nowhere else: its sync has failed, or
// a write-back after its death, and nobody can make the kernel forget what a reader has mapped. When something is
// said to be durable afterwards, all that was found before it survives a power cut, too.
func TestWhatWasFoundIsMadeDurable(t *testing.T) { bothWays(t, whatWasFoundIsMadeDurable) }

func whatWasFoundIsMadeDurable(t *testing.T, change func(*options)) {
	asks := map[string]func(l *Log) error{
		"a sync": (*Log).Sync,
		"a write, and a sync": func(l *Log) error {
			_, err := l.Append(text(99, 40))
			return joined(err, l.Sync)
		},
		"a write, and a closing": func(l *Log) error {
			_, err := l.Append(text(99, 40))
			return joined(err, l.Close)
		},
		"a trimming":   func(l *Log) error { return l.Trim(1) },
		"a compaction": (*Log).Compact,
	}
	for name, ask := range asks {
		for _, end := range []string{"killed", "sync failed", "killed, and the write-back failed"} {
			for _, drained := range []bool{false, true} {
				what := fmt.Sprintf("%s, drained %v, then %s", end, drained, name)
				mem := vfs.NewCrashMem()
				mem.LosePagesForGood()
				armed := false
				conf := func(o *options) { change(o); o.segmentBytes = 7000 }
				l := mustOpen(t, vfs.Inject(mem, &vfs.Fault{Kinds: vfs.OpSync, N: 1, Match: func(string) bool { return armed }}), conf)
				var want [][]byte
				for i := range 40 {
					want = append(want, text(i, 1+61*i%700))
					mustAppend(t, l, want[i])
					if i == 3 {
						if err := l.Sync(); err != nil {
							t.Fatal(err)
						}
					}
				}
				if drained {
					if err := l.drain(l.tail); err != nil {
						t.Fatal(err)
					}
				}
				if end == "sync failed" {
					armed = true
					if err := l.Sync(); err == nil {
						t.Fatal("the sync has not failed")
					}
				}
				dead := mem.ProcessCrash()
				reader := mustOpen(t, dead, conf, func(o *options) { o.readOnly = true })
				if err := problem(reader, want, 0); err != nil { // it has everything mapped
					t.Fatalf("%s: a reader: %v", what, err)
				}
				if end != "killed" {
					loseUnsynced(t, dead)
				}
				next := mustOpen(t, dead, conf)
				if err := problem(next, want, 0); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if err := ask(next); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if err := problem(reader, want, 0); err != nil {
					t.Fatalf("%s: the reader: %v", what, err)
				}
				for image := range dead.PowerCuts(40, rand.New(rand.NewPCG(1, 2))) {
					cut, err := open("log", testOptions(image, conf))
					if err != nil {
						t.Fatalf("%s, then a power cut: Open: %v", what, err)
					}
					found := want
					if strings.HasPrefix(name, "a write") {
						found = append(want[:len(want):len(want)], text(99, 40))
					}
					if err := problem(cut, found, next.First()); err != nil {
						t.Fatalf("%s, then a power cut: %v", what, err)
					}
					mustClose(t, cut)
				}
			}
		}
	}
}

// joined is err, or what then returns.
func joined(err error, then func() error) error {
	if err != nil {
		return err
	}
	return then()
}
