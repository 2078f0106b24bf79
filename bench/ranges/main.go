// Command ranges measures walks over keys in order: copal with OrderedKeys, and without, against
// bbolt, pebble, badger and buntdb, all of them filled with the same keys in the same random order,
// without a sync.
//
//	go run ./ranges                     # 1 M keys, values of 100 B
//	go run ./ranges -keys 100000        # the keys of a prefix scan in a store of that size
//	go run ./ranges -keys 10000000 -alone   # copal alone: memory, time to open, rates
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/copaldb/copal"
	"github.com/dgraph-io/badger/v4"
	"github.com/tidwall/buntdb"
	bolt "go.etcd.io/bbolt"
)

var (
	keys   = flag.Int("keys", 1_000_000, "number of keys")
	size   = flag.Int("bytes", 100, "length of a value")
	rounds = flag.Int("rounds", 5, "rounds, of which the medians are shown")
	alone  = flag.Bool("alone", false, "copal alone")
	dir    = flag.String("dir", "", "where the files are made, and removed")
)

// side is a store for walks. Each function returns the number of keys it walked over, and a sum of
// its reads.
type side struct {
	name  string
	put   func(key, value []byte)
	flush func()
	walk  func(from []byte, most int, values bool) (n, sum int)
	close func()
}

func key(i int) []byte { return fmt.Appendf(nil, "user:%012d", i*7) }

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func copalSide(dir, name string, opts ...copal.Option) side {
	db, err := copal.Open(dir, opts...)
	must(err)
	return side{
		name:  name,
		put:   func(k, v []byte) { must(db.Raw().Set(k, v)) },
		flush: func() { must(db.Compact(context.Background(), nil)) },
		walk: func(from []byte, most int, values bool) (n, sum int) {
			if !values {
				for k := range db.Raw().KeysBetween(from, nil) {
					sum += len(k)
					if n++; n == most {
						break
					}
				}
				return n, sum
			}
			for k, v := range db.Raw().Between(from, nil) {
				sum += len(k) + int(v[0])
				if n++; n == most {
					break
				}
			}
			return n, sum
		},
		close: func() { must(db.Close()) },
	}
}

func boltSide(dir string) side {
	db, err := bolt.Open(filepath.Join(dir, "bolt.db"), 0o600, &bolt.Options{NoSync: true, NoGrowSync: true, NoFreelistSync: true, FreelistType: bolt.FreelistMapType})
	must(err)
	name := []byte("b")
	var tx *bolt.Tx
	in := 0
	commit := func() {
		if tx != nil {
			must(tx.Commit())
			tx = nil
		}
	}
	return side{
		name: "bbolt",
		put: func(k, v []byte) {
			if tx == nil {
				tx, err = db.Begin(true)
				must(err)
				_, err = tx.CreateBucketIfNotExists(name)
				must(err)
			}
			must(tx.Bucket(name).Put(k, v))
			if in++; in%10000 == 0 {
				commit()
			}
		},
		flush: commit,
		walk: func(from []byte, most int, values bool) (n, sum int) {
			must(db.View(func(tx *bolt.Tx) error {
				c := tx.Bucket(name).Cursor()
				for k, v := c.Seek(from); k != nil; k, v = c.Next() {
					// The caller owns keys from copal, so it owns these, too.
					k = bytes.Clone(k)
					sum += len(k)
					if values {
						sum += int(bytes.Clone(v)[0])
					}
					if n++; n == most {
						break
					}
				}
				return nil
			}))
			return n, sum
		},
		close: func() { must(db.Close()) },
	}
}

type quiet struct{}

func (quiet) Infof(string, ...any)              {}
func (quiet) Errorf(format string, args ...any) { log.Printf(format, args...) }
func (quiet) Fatalf(format string, args ...any) { log.Fatalf(format, args...) }

func pebbleSide(dir string) side {
	cache := pebble.NewCache(256 << 20)
	db, err := pebble.Open(dir, &pebble.Options{Cache: cache, MemTableSize: 64 << 20, Logger: quiet{}})
	must(err)
	return side{
		name:  "pebble",
		put:   func(k, v []byte) { must(db.Set(k, v, pebble.NoSync)) },
		flush: func() { must(db.Compact(context.Background(), []byte{0}, []byte{0xff}, true)) },
		walk: func(from []byte, most int, values bool) (n, sum int) {
			it, err := db.NewIter(nil)
			must(err)
			for ok := it.SeekGE(from); ok; ok = it.Next() {
				sum += len(bytes.Clone(it.Key()))
				if values {
					v, err := it.ValueAndErr()
					must(err)
					sum += int(bytes.Clone(v)[0])
				}
				if n++; n == most {
					break
				}
			}
			must(it.Close())
			return n, sum
		},
		close: func() { must(db.Close()); cache.Unref() },
	}
}

func badgerSide(dir string) side {
	db, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil).WithDetectConflicts(false))
	must(err)
	batch := db.NewWriteBatch()
	return side{
		name:  "badger",
		put:   func(k, v []byte) { must(batch.Set(k, v)) },
		flush: func() { must(batch.Flush()); must(db.Flatten(2)) },
		walk: func(from []byte, most int, values bool) (n, sum int) {
			must(db.View(func(tx *badger.Txn) error {
				opts := badger.DefaultIteratorOptions
				opts.PrefetchValues = values
				it := tx.NewIterator(opts)
				defer it.Close()
				for it.Seek(from); it.Valid(); it.Next() {
					sum += len(it.Item().KeyCopy(nil))
					if values {
						v, err := it.Item().ValueCopy(nil)
						must(err)
						sum += int(v[0])
					}
					if n++; n == most {
						break
					}
				}
				return nil
			}))
			return n, sum
		},
		close: func() { must(db.Close()) },
	}
}

func buntSide(dir string) side {
	db, err := buntdb.Open(filepath.Join(dir, "bunt.db"))
	must(err)
	var c buntdb.Config
	must(db.ReadConfig(&c))
	c.SyncPolicy = buntdb.Never
	must(db.SetConfig(c))
	return side{
		name: "buntdb",
		put: func(k, v []byte) {
			must(db.Update(func(tx *buntdb.Tx) error {
				_, _, err := tx.Set(string(k), string(v), nil)
				return err
			}))
		},
		flush: func() {},
		walk: func(from []byte, most int, values bool) (n, sum int) {
			must(db.View(func(tx *buntdb.Tx) error {
				return tx.AscendGreaterOrEqual("", string(from), func(k, v string) bool {
					sum += len(k)
					if values {
						sum += int(v[0])
					}
					n++
					return n < most
				})
			}))
			return n, sum
		},
		close: func() { must(db.Close()) },
	}
}

func main() {
	flag.Parse()
	root, err := os.MkdirTemp(*dir, "ranges")
	must(err)
	defer os.RemoveAll(root)
	if *alone {
		measureAlone(filepath.Join(root, "copal"))
		return
	}
	sub := func(name string) string {
		d := filepath.Join(root, name)
		must(os.MkdirAll(d, 0o755))
		return d
	}
	sides := []side{copalSide(sub("ordered"), "copal", copal.OrderedKeys()), copalSide(sub("plain"), "copal, passing"), boltSide(sub("bolt")), pebbleSide(sub("pebble")), badgerSide(sub("badger")), buntSide(sub("bunt"))}
	value := bytes.Repeat([]byte("v"), *size)
	for _, s := range sides {
		runtime.GC()
		began := time.Now()
		for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(*keys) {
			s.put(key(i), value)
		}
		fmt.Printf("%-14s filled in %.1f s", s.name, time.Since(began).Seconds())
		began = time.Now()
		s.flush()
		fmt.Printf(", put in order in %.1f s\n", time.Since(began).Seconds())
	}
	works := []struct {
		name   string
		most   int // keys of a walk
		values bool
	}{{"100, keys", 100, false}, {"100, values", 100, true}, {"1000, keys", 1000, false}, {"1000, values", 1000, true}, {"all, keys", *keys, false}, {"all, values", *keys, true}}
	began := time.Now()
	sides[1].walk(key(*keys/2), 1000, true)
	fmt.Printf("the first walk over 1000 keys that are not kept in order: %.1f ms\n", ms(began))
	for _, w := range works {
		times := make([][]float64, len(sides))
		for range *rounds {
			for i, s := range sides {
				runtime.GC()
				rng := rand.New(rand.NewPCG(3, 4))
				walks, from := 1, func() []byte { return key(0) }
				if w.most < *keys {
					walks, from = 2000, func() []byte { return key(rng.IntN(*keys - w.most)) }
				}
				began, n := time.Now(), 0
				for range walks {
					more, _ := s.walk(from(), w.most, w.values)
					n += more
				}
				if n != walks*min(w.most, *keys) {
					log.Fatalf("%s came by %d keys", s.name, n)
				}
				times[i] = append(times[i], float64(time.Since(began).Nanoseconds())/float64(n))
			}
		}
		fmt.Printf("%-12s ns a key:", w.name)
		for i, s := range sides {
			if len(times[i]) > 0 {
				slices.Sort(times[i])
				fmt.Printf("  %s %.0f", s.name, times[i][len(times[i])/2])
			}
		}
		fmt.Println()
	}
	for _, s := range sides {
		s.close()
	}
}

// measureAlone shows the cost of an order of many keys.
func measureAlone(path string) {
	value := bytes.Repeat([]byte("v"), *size)
	fill := func(path string, opts ...copal.Option) *copal.DB {
		db, err := copal.Open(path, opts...)
		must(err)
		began := time.Now()
		for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(*keys) {
			must(db.Raw().Set(key(i), value))
		}
		fmt.Printf("filled in %.1f s\n", time.Since(began).Seconds())
		return db
	}
	fmt.Print("without an order: ")
	db := fill(path + ".plain")
	plain := db.Stats().IndexBytes
	report("without an order", db)
	must(db.Close())
	must(os.RemoveAll(path + ".plain"))
	fmt.Print("with an order: ")
	db = fill(path, copal.OrderedKeys())
	report("with an order", db)
	fmt.Printf("the order takes %.2f bytes of memory a key\n", float64(db.Stats().IndexBytes-plain)/float64(*keys))
	began := time.Now()
	must(db.Close())
	fmt.Printf("closed in %.0f ms; runs of %.2f bytes a key\n", ms(began), float64(runBytes(path))/float64(*keys))
	began = time.Now()
	db, err := copal.Open(path, copal.OrderedKeys())
	must(err)
	fmt.Printf("opened in %.2f ms\n", ms(began))
	began = time.Now()
	for range db.Raw().Keys() {
		break
	}
	fmt.Printf("the first key after %.2f ms\n", ms(began))
	report("opened", db)
	for _, values := range []bool{false, true} {
		began, n := time.Now(), 0
		if values {
			for range db.Raw().Prefix(nil) {
				if n++; n == 2_000_000 {
					break
				}
			}
		} else {
			for range db.Raw().Keys() {
				n++
			}
		}
		fmt.Printf("values %v: %d keys, %.0f ns a key\n", values, n, float64(time.Since(began).Nanoseconds())/float64(n))
	}
	report("gone through", db)
	must(db.Close())
}

func ms(began time.Time) float64 { return float64(time.Since(began).Microseconds()) / 1000 }

func report(what string, db *copal.DB) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	anonymous := "?"
	if b, err := os.ReadFile("/proc/self/status"); err == nil {
		for line := range strings.SplitSeq(string(b), "\n") {
			if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
				anonymous = strings.TrimSpace(rest)
			}
		}
	}
	fmt.Printf("%s: index %.1f MB, Go heap %.1f MB, anonymous %s\n", what, float64(db.Stats().IndexBytes)/1e6, float64(m.HeapAlloc)/1e6, anonymous)
}

func runBytes(dir string) (n int64) {
	names, _ := filepath.Glob(filepath.Join(dir, "*.order"))
	for _, name := range names {
		if info, err := os.Stat(name); err == nil {
			n += info.Size()
		}
	}
	return n
}
