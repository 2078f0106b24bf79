// Command afterkill measures the cost of the first synced write after a kill, which copies the
// records that are not known to be on the disk: against a copy and a sync of the same files, in
// turns.
//
//	go run ./afterkill                 # 64 MiB and 1 GiB of values of 16 KiB
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/copaldb/copal"
)

var (
	rounds = flag.Int("rounds", 3, "rounds, of which the medians are shown")
	below  = flag.String("dir", "", "where the files are made, and removed")
	write  = flag.String("write", "", "write to this store, and die")
	mib    = flag.Int("mib", 0, "how much")
)

const valueBytes = 16 << 10

func main() {
	flag.Parse()
	log.SetFlags(0)
	if *write != "" {
		check(writeAndDie(*write, *mib<<20/valueBytes))
	}
	for _, n := range []int{64, 1 << 10} {
		var opens, firsts, copies []time.Duration
		for range *rounds {
			open, first, copied, err := round(n)
			check(err)
			opens, firsts, copies = append(opens, open), append(firsts, first), append(copies, copied)
		}
		first, copied := median(firsts), median(copies)
		fmt.Printf("%5d MiB: open %v, first synced write %v, copy and sync of the log %v: %.2fx time\n",
			n, median(opens).Round(time.Millisecond), first.Round(time.Millisecond), copied.Round(time.Millisecond), float64(first)/float64(copied))
	}
}

// writeAndDie syncs nothing by itself, and kills this process.
func writeAndDie(dir string, values int) error {
	db, err := copal.Open(dir, copal.WithSyncInterval(time.Hour))
	if err != nil {
		return err
	}
	value := make([]byte, valueBytes)
	for i := range values {
		if err := db.Raw().Set(fmt.Appendf(nil, "key%08d", i), value); err != nil {
			return err
		}
	}
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	return cmp.Or(err, fmt.Errorf("the process is still there"))
}

func round(n int) (open, first, copied time.Duration, err error) {
	dir, err := os.MkdirTemp(*below, "afterkill")
	if err != nil {
		return
	}
	defer os.RemoveAll(dir)
	exec.Command(os.Args[0], "-write", dir, "-mib", fmt.Sprint(n)).Run() // it dies
	begun := time.Now()
	db, err := copal.Open(dir)
	if err != nil {
		return
	}
	open = time.Since(begun)
	begun = time.Now()
	if err = db.Raw().SetFSync([]byte("new"), []byte("value")); err != nil {
		return
	}
	first = time.Since(begun)
	if have, want := db.Raw().Len(), n<<20/valueBytes+1; have != want {
		err = fmt.Errorf("%d keys, want %d", have, want)
		return
	}
	if err = db.Close(); err != nil {
		return
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	begun = time.Now()
	for _, file := range files {
		if err = copyFile(file, file+".copy"); err != nil {
			return
		}
	}
	return open, first, time.Since(begun), err
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(struct{ io.Writer }{out}, in) // not by sharing blocks
	return cmp.Or(err, out.Sync(), out.Close())
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
