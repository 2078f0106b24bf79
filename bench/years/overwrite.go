package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

func init() {
	phases["overwrite/run"] = overwriteKeys
	phases["overwrite/check"] = checkEditions
}

func runOverwrite(ctx context.Context, s *settings) error {
	s.Keys, s.ValueBytes = orElse(s.Keys, 1_000_000), orElse(s.ValueBytes, 100)
	fmt.Printf("%d keys with values of %d bytes, each overwritten %d times, in random order\n", s.Keys, s.ValueBytes, s.Times)
	if err := runPhase(ctx, s, "overwrite, with a reader beside", "overwrite/run", 0, nil); err != nil {
		return err
	}
	return runPhase(ctx, s, "reopen and read all", "overwrite/check", 0, nil)
}

// overwriteKeys overwrites every key in each round once, in an order of its own for each round,
// while one goroutine reads and another looks how much space the files take.
func overwriteKeys(s *settings, r *figures, _ func()) error {
	st, err := s.open()
	if err != nil {
		return err
	}
	v := make([]byte, s.ValueBytes)
	set := func(i int, edition uint32) error {
		fillValue(v, i, edition)
		return st.many.Set(keyOf(i), v)
	}
	start := time.Now()
	for i := range s.Keys {
		if err := set(i, 0); err != nil {
			return err
		}
	}
	r.add("fill", "%s", rate(s.Keys, time.Since(start)))
	live := st.db.Stats().LiveBytes
	least := make([]atomic.Uint32, s.Keys) // the edition that a reader must find at least

	var most atomic.Int64
	var reads, writes latencies
	stop := make(chan struct{})
	failed := make(chan error, 2)
	go func() { failed <- watchDisk(s.Dir, &most, stop) }()
	go func() { failed <- readMeanwhile(s, st, least, &reads, stop) }()
	start = time.Now()
	for round := range s.Times {
		order := rand.Perm(s.Keys)
		for _, i := range order {
			before := time.Now()
			err := set(i, uint32(round+1))
			writes.add(time.Since(before))
			if err != nil {
				return err
			}
			least[i].Store(uint32(round + 1))
		}
	}
	took := time.Since(start)
	close(stop)
	if err := errors.Join(<-failed, <-failed); err != nil {
		return err
	}
	r.add("overwrite", "%s", rate(s.Keys*s.Times, took))
	r.add("Set", "%s", writes.String())
	r.add("Get, one goroutine beside", "%s", reads.String())
	r.add("on disk, most", "%s; the live records are %s: %.2fx", size(most.Load()), size(live), float64(most.Load())/float64(live))
	err = r.time("Close", st.db.Close)
	disk, diskErr := onDisk(s.Dir)
	r.add("on disk in the end", "%s: %.2fx", size(disk), float64(disk)/float64(live))
	return errors.Join(err, diskErr)
}

func watchDisk(dir string, most *atomic.Int64, stop chan struct{}) error {
	for {
		n, err := onDisk(dir)
		if err != nil {
			return err
		}
		if n > most.Load() {
			most.Store(n)
		}
		select {
		case <-stop:
			return nil
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func readMeanwhile(s *settings, st *store, least []atomic.Uint32, l *latencies, stop chan struct{}) error {
	scratch := make([]byte, s.ValueBytes)
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		i := rand.IntN(s.Keys)
		want := least[i].Load()
		before := time.Now()
		got, err := st.many.Load(keyOf(i))
		l.add(time.Since(before))
		if err == nil {
			err = checkValue(got, i, s.ValueBytes, scratch)
		}
		if err == nil && binary.LittleEndian.Uint32(got[8:]) < want {
			err = fmt.Errorf("key %d has edition %d, after %d was written", i, binary.LittleEndian.Uint32(got[8:]), want)
		}
		if err != nil {
			return err
		}
	}
}

func checkEditions(s *settings, r *figures, _ func()) error {
	st, err := s.open()
	if err != nil {
		return err
	}
	scratch := make([]byte, s.ValueBytes)
	n := 0
	err = r.time("All, each value the newest", func() error {
		for key, v := range st.many.All() {
			var i int
			if _, err := fmt.Sscanf(key, "user-%d", &i); err != nil {
				return err
			}
			if err := checkValue(v, i, s.ValueBytes, scratch); err != nil {
				return err
			}
			if e := binary.LittleEndian.Uint32(v[8:]); e != uint32(s.Times) {
				return fmt.Errorf("key %d has edition %d, not %d", i, e, s.Times)
			}
			n++
		}
		return nil
	})
	if err == nil && n != s.Keys {
		err = fmt.Errorf("%d entries, not %d", n, s.Keys)
	}
	return errors.Join(err, st.db.Close())
}

// latencies counts durations in buckets an eighth wide. One goroutine adds.
type latencies struct {
	buckets [64 * 8]int64
	n       int64
	most    time.Duration
}

func (l *latencies) add(d time.Duration) {
	l.n++
	l.most = max(l.most, d)
	l.buckets[bucketOf(uint64(max(d, 1)))]++
}

// bucketOf is eight for each power of two.
func bucketOf(n uint64) int {
	e := bits.Len64(n) - 1
	if e < 3 {
		return int(n)
	}
	return e*8 + int(n>>(e-3)&7)
}

func (l *latencies) at(share float64) time.Duration {
	left := int64(float64(l.n) * share)
	for b, n := range l.buckets {
		if left -= n; left < 0 {
			if b < 8*3 {
				return time.Duration(b)
			}
			return time.Duration(uint64(8+b%8+1) << (b/8 - 3)) // its upper end
		}
	}
	return l.most
}

func (l *latencies) String() string {
	return fmt.Sprintf("median %v, p99 %v, p99.9 %v, longest %v", l.at(0.5), l.at(0.99), l.at(0.999), l.most.Round(time.Microsecond))
}
