// Command recipes measures the advice of docs/guide.md: keys of time series, counters, and the
// memory of a process beside WithMaxMemory.
//
//	go run ./recipes                 # all of it, a minute or two
//	go run ./recipes -run counters   # one of series, counters, memory
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

var (
	run    = flag.String("run", "", "the only part to run: series, counters or memory")
	points = flag.Int("points", 1_000_000, "readings of a time series")
	rounds = flag.Int("rounds", 9, "rounds of the counters, in turns")
	dir    = flag.String("dir", "", "where the files are made, and removed")
)

func main() {
	flag.Parse()
	for _, part := range []struct {
		name string
		run  func()
	}{{"series", series}, {"counters", counters}, {"memory", memory}} {
		if *run == "" || *run == part.name {
			part.run()
		}
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// open makes a store in a new directory. The function that it returns closes and removes it.
func open(opts ...copal.Option) (db *copal.DB, done func()) {
	d, err := os.MkdirTemp(*dir, "recipes-")
	must(err)
	db, err = copal.Open(filepath.Join(d, "app.db"), opts...)
	must(err)
	return db, func() { must(db.Close()); must(os.RemoveAll(d)) }
}

type (
	byText struct { // sensor and time as people read them
		Sensor string
		At     time.Time
	}
	byNumber struct { // number of the sensor, and Unix seconds
		Sensor int
		At     int64
	}
)

// sensors share the readings, one a second each.
const sensors = 100

func series() {
	start := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	name := func(s int) string { return fmt.Sprintf("sensor-%03d", s) }
	each := *points / sensors
	fmt.Printf("\n%d readings of %d sensors, one a second each, a float64 with two decimals\n", *points, sensors)
	fmt.Printf("%-44s %9s %9s %9s %9s %9s\n", "key and value", "B log", "B index", "B order", "ns Set", "ns walk")
	value := func(s, i int) float64 { return float64(s*1000+i%1000) / 100 }

	text := func(opts ...copal.MapOption) func(*copal.DB) (func(s, i int), func() int) {
		return func(db *copal.DB) (func(s, i int), func() int) {
			m, err := copal.OpenMap[byText, float64](db, "r", append(opts, copal.Ordered())...)
			must(err)
			return func(s, i int) { must(m.Set(byText{name(s), start.Add(time.Duration(i) * time.Second)}, value(s, i))) },
				func() (n int) {
					for s := range sensors {
						for range m.Between(byText{Sensor: name(s)}, byText{Sensor: name(s) + "\x00"}) {
							n++
						}
					}
					return n
				}
		}
	}
	measure("struct{string; time.Time}, JSON", each, text())
	measure("struct{string; time.Time}, binary", each, text(copal.WithCodec(codec.Binary)))
	measure("struct{int; int64}, binary", each, func(db *copal.DB) (func(s, i int), func() int) {
		m, err := copal.OpenMap[byNumber, float64](db, "r", copal.WithCodec(codec.Binary), copal.Ordered())
		must(err)
		return func(s, i int) { must(m.Set(byNumber{s, start.Unix() + int64(i)}, value(s, i))) }, func() (n int) {
			for s := range sensors {
				for range m.Between(byNumber{Sensor: s}, byNumber{Sensor: s + 1}) {
					n++
				}
			}
			return n
		}
	})
	measure("a minute in a value, []float64, binary", each, func(db *copal.DB) (func(s, i int), func() int) {
		m, err := copal.OpenMap[byText, []float64](db, "r", copal.WithCodec(codec.Binary), copal.Ordered())
		must(err)
		waiting := make([][]float64, sensors)
		return func(s, i int) {
				waiting[s] = append(waiting[s], value(s, i))
				if len(waiting[s]) == 60 || i == each-1 {
					must(m.Set(byText{name(s), start.Add(time.Duration(i/60*60) * time.Second)}, waiting[s]))
					waiting[s] = nil
				}
			}, func() (n int) {
				for s := range sensors {
					for _, v := range m.Between(byText{Sensor: name(s)}, byText{Sensor: name(s) + "\x00"}) {
						n += len(v)
					}
				}
				return n
			}
	})
}

// measure fills a series, opens it again, and walks through each sensor.
func measure(title string, each int, with func(*copal.DB) (set func(s, i int), walk func() int)) {
	d, err := os.MkdirTemp(*dir, "recipes-")
	must(err)
	defer os.RemoveAll(d)
	db, err := copal.Open(d)
	must(err)
	set, _ := with(db)
	begin := time.Now()
	for i := range each {
		for s := range sensors {
			set(s, i)
		}
	}
	wrote := time.Since(begin)
	logBytes := db.Stats().LogBytes
	must(db.Close())
	runs, err := filepath.Glob(filepath.Join(d, "*.order"))
	must(err)
	var order int64
	for _, r := range runs {
		info, err := os.Stat(r)
		must(err)
		order += info.Size()
	}
	db, err = copal.Open(d, copal.WithMaxMemory(64<<20)) // a store that has just started
	must(err)
	_, walk := with(db)
	n := walk() // reads the index
	begin = time.Now()
	if n != each*sensors || walk() != n {
		log.Fatalf("%d readings", n)
	}
	walked := time.Since(begin)
	per := func(x int64) float64 { return float64(x) / float64(n) }
	fmt.Printf("%-44s %9.1f %9.1f %9.1f %9.0f %9.0f\n", title, per(logBytes), per(db.Stats().IndexBytes), per(order),
		per(int64(wrote)), per(int64(walked)))
	must(db.Close())
}

// counters compares 1,000 counters of a map and of a hash.
func counters() {
	db, done := open()
	defer done()
	m, err := copal.OpenMap[string, int64](db, "hits")
	must(err)
	h, err := copal.OpenHash[string, int64](db, "a hash")
	must(err)
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprintf("/page/%03d", i)
	}
	add := func(e *copal.Entry[int64]) error { e.Value++; return nil }
	sides := []struct {
		name string
		add  func(name string)
		took []time.Duration
	}{
		{name: "map, UpdateAsync", add: func(n string) { _, _, err := m.UpdateAsync(n, add); must(err) }},
		{name: "map, Update", add: func(n string) { _, _, err := m.Update(n, add); must(err) }},
		{name: "map in db.Update", add: func(n string) {
			must(db.Update(func(tx *copal.Tx) error { _, _, err := m.In(tx).Update(n, add); return err }))
		}},
		{name: "hash, Update", add: func(n string) { _, _, err := h.Update(n, add); must(err) }},
	}
	const adds = 50_000
	for round := range *rounds {
		for i := range sides {
			s := &sides[(i+round)%len(sides)]
			runtime.GC()
			begin := time.Now()
			for i := range adds {
				s.add(names[i*7%len(names)])
			}
			s.took = append(s.took, time.Since(begin)/adds)
		}
	}
	fmt.Printf("\nadd 1 to one of 1,000 counters, %d rounds in turns, median (least–most)\n", *rounds)
	for i := range sides {
		slices.Sort(sides[i].took)
	}
	base := sides[1].took[len(sides[1].took)/2]
	for _, s := range sides {
		median := s.took[len(s.took)/2]
		fmt.Printf("%-20s %8v  %5.2fx  (%v–%v)\n", s.name, median, float64(median)/float64(base), s.took[0], s.took[len(s.took)-1])
	}
}

// memory shows the bound of WithMaxMemory beside the resident size of the process.
func memory() {
	const limit = 64 << 20
	db, done := open(copal.WithMaxMemory(limit))
	defer done()
	m, err := copal.OpenMap[string, []byte](db, "m", copal.WithCodec(codec.Bytes))
	must(err)
	fmt.Printf("\na million values of 100 bytes under WithMaxMemory(64 MiB), in MiB\n")
	fmt.Printf("%-30s %7s %7s %7s %10s %10s %10s\n", "", "index", "values", "Go heap", "RssAnon", "RssFile", "RssShmem")
	line := func(title string) {
		var heap runtime.MemStats
		runtime.ReadMemStats(&heap)
		s, mib := db.Stats(), func(x int64) string { return fmt.Sprintf("%.0f", float64(x)/(1<<20)) }
		fmt.Printf("%-30s %7s %7s %7s %10s %10s %10s\n", title, mib(s.IndexBytes), mib(s.CacheBytes), mib(int64(heap.HeapInuse)),
			status("RssAnon"), status("RssFile"), status("RssShmem"))
	}
	line("empty")
	value := make([]byte, 100)
	for i := range 1_000_000 {
		must(m.Set(fmt.Sprintf("user-%08d", i), append([]byte(nil), value...)))
	}
	line("written")
	for i := range 1_000_000 {
		if _, ok := m.Get(fmt.Sprintf("user-%08d", i*7919%1_000_000)); !ok {
			log.Fatal("a key is missing")
		}
	}
	line("read")
	runtime.GC()
	line("read, after a collection")
}

// status returns a line of /proc/self/status in MiB, or an empty text.
func status(name string) string {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			var kb int
			if _, err := fmt.Sscan(rest, &kb); err == nil {
				return fmt.Sprint(kb >> 10)
			}
		}
	}
	return ""
}
