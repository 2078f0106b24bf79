package remote

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/copaldb/copal"
)

// TestQueueAmongPrograms: the queue of docs/guide.md has workers in several programs. Each job is leased once.
func TestQueueAmongPrograms(t *testing.T) {
	address := serveCopal(t)
	const programs, jobs = 3, 30
	now, lease := time.Now(), time.Hour
	type program struct {
		db    *copal.DB
		jobs  *copal.Map[string, string]
		ready *copal.SortedSetOf[string]
	}
	open := func() (p program) {
		var err error
		if p.db, err = Open(t.Context(), "redis://"+address); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.db.Close() })
		if p.jobs, err = copal.OpenMap[string, string](p.db, "jobs"); err != nil {
			t.Fatal(err)
		}
		if p.ready, err = copal.OpenSortedSet[string](p.db, "jobs that are ready"); err != nil {
			t.Fatal(err)
		}
		return p
	}
	take := func(p program) (id string, err error) {
		err = p.db.Update(func(tx *copal.Tx) error {
			id = ""
			ready := p.ready.In(tx)
			for first, from := range ready.All() {
				if from <= float64(now.UnixMilli()) {
					id = first
				}
				break
			}
			if id == "" {
				return nil
			}
			return ready.Set(id, float64(now.Add(lease).UnixMilli()))
		})
		return id, err
	}
	first := open()
	for i := range jobs {
		id := fmt.Sprintf("%02d", i)
		if err := first.db.Update(func(tx *copal.Tx) error {
			if err := first.jobs.In(tx).Set(id, "work"); err != nil {
				return err
			}
			return first.ready.In(tx).Set(id, float64(now.UnixMilli()))
		}); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	var taken []string
	var all sync.WaitGroup
	for range programs {
		p := open()
		all.Go(func() {
			for {
				id, err := take(p)
				if err != nil {
					t.Error(err)
				}
				if err != nil || id == "" {
					return
				}
				mu.Lock()
				taken = append(taken, id)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	slices.Sort(taken)
	if len(taken) != jobs || len(slices.Compact(taken)) != jobs {
		t.Errorf("%d jobs were leased: %v", len(taken), taken)
	}
}
