package copal_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

func TestZZRatio(t *testing.T) {
	if os.Getenv("ZZ") == "" {
		t.Skip()
	}
	n := 100_000
	names := slices.Clone(benchNames)
	db, _ := copal.Open(t.TempDir(), copal.WithCodec(codec.Binary))
	defer db.Close()
	m := mapOf[string, player](t, db, "m")
	dbu, _ := copal.Open(t.TempDir(), copal.WithCodec(codec.Binary), copal.MaxMemory(1))
	defer dbu.Close()
	mu := mapOf[string, player](t, dbu, "m")
	var sm sync.Map
	for i, k := range names {
		m.Set(k, player{k, i, 0.5})
		mu.Set(k, player{k, i, 0.5})
		sm.Store(k, player{k, i, 0.5})
	}
	res := map[string][]float64{}
	var order []string
	run := func(name string, f func()) {
		t0 := time.Now()
		f()
		if _, ok := res[name]; !ok {
			order = append(order, name)
		}
		res[name] = append(res[name], float64(time.Since(t0).Nanoseconds())/float64(n))
	}
	for r := 0; r < 15; r++ {
		rand.Shuffle(n, func(i, j int) { names[i], names[j] = names[j], names[i] })
		run("Load", func() {
			for i, k := range names {
				v, _ := sm.Load(k)
				if v.(player).Name != k {
					t.Fatal(i)
				}
			}
		})
		run("Get", func() {
			for i, k := range names {
				v, _ := m.Get(k)
				if v.Name != k {
					t.Fatal(i)
				}
			}
		})
		run("GetUncached", func() {
			for i, k := range names {
				v, _ := mu.Get(k)
				if v.Name != k {
					t.Fatal(i)
				}
			}
		})
		run("Store", func() {
			for i, k := range names {
				sm.Store(k, player{k, i, 1.5})
			}
		})
		run("Set", func() {
			for i, k := range names {
				m.Set(k, player{k, i, 1.5})
			}
		})
		run("SetAsync", func() {
			for i, k := range names {
				m.SetAsync(k, player{k, i, 1.5})
			}
		})
		db.FSyncAll()
	}
	med := func(n string) float64 { v := slices.Clone(res[n]); slices.Sort(v); return v[len(v)/2] }
	for _, n := range order {
		base := "Store"
		if n == "Load" || n == "Get" || n == "GetUncached" {
			base = "Load"
		}
		fmt.Printf("%-12s %7.0f ns  %5.2f\n", n, med(n), med(n)/med(base))
	}
}
