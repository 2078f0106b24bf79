package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"sort"
	"syscall"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

func init() {
	phases["keys/fill"] = fillKeys
	phases["keys/open"] = openKeys
	phases["keys/read"] = readKeys
	phases["keys/die"] = dieWriting
}

func runKeys(ctx context.Context, s *settings) error {
	s.Keys, s.ValueBytes, s.Reads = orElse(s.Keys, 10_000_000), orElse(s.ValueBytes, 100), orElse(s.Reads, 1_000_000)
	fmt.Printf("%d keys with values of %d bytes under MaxMemory(%s)\n", s.Keys, s.ValueBytes, size(s.MaxMemory))
	steps := []struct {
		title, phase string
		kill         time.Duration
		before       func() error
	}{
		{"fill, one goroutine, Set", "keys/fill", 0, nil},
		{"reopen after Close", "keys/open", 0, nil},
		{"random reads", "keys/read", 0, nil},
		{"overwrite, killed", "keys/die", 2 * time.Second, nil},
		{"reopen after kill -9", "keys/open", 0, nil},
		{"reopen without the index snapshot, from the log", "keys/open", 0, s.removing("*.index")},
	}
	for _, st := range steps {
		if st.before != nil {
			if err := st.before(); err != nil {
				return err
			}
		}
		if err := runPhase(ctx, s, st.title, st.phase, st.kill, nil); err != nil {
			return err
		}
	}
	return nil
}

func (s *settings) removing(pattern string) func() error {
	return func() error {
		names, err := filepath.Glob(filepath.Join(s.Dir, pattern))
		if err != nil {
			return err
		}
		for _, n := range names {
			if err := os.Remove(n); err != nil {
				return err
			}
		}
		return nil
	}
}

// store is the store of a scenario: a map of many entries, and one of five.
type store struct {
	db   *copal.DB
	many *copal.Map[string, []byte]
	few  *copal.Map[int, string]
}

func (s *settings) open() (*store, error) {
	db, err := copal.Open(s.Dir, copal.WithMaxMemory(s.MaxMemory))
	if err != nil {
		return nil, err
	}
	many, err := copal.OpenMap[string, []byte](db, "many", copal.WithCodec(codec.Bytes))
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	few, err := copal.OpenMap[int, string](db, "few")
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &store{db, many, few}, nil
}

func keyOf(i int) string { return fmt.Sprintf("user-%08d", i) }

// fillValue writes the value of key i in its given edition, which is in its first bytes.
func fillValue(v []byte, i int, edition uint32) {
	rng := rand.NewPCG(uint64(i), uint64(edition))
	binary.LittleEndian.PutUint64(v, uint64(i))
	binary.LittleEndian.PutUint32(v[8:], edition)
	for at := 12; at < len(v); at += 8 {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], rng.Uint64())
		copy(v[at:], word[:])
	}
}

// checkValue makes sure that v is a value that key i once had, whole.
func checkValue(v []byte, i, want int, scratch []byte) error {
	if len(v) != want {
		return fmt.Errorf("key %d has a value of %d bytes, not %d", i, len(v), want)
	}
	fillValue(scratch, i, binary.LittleEndian.Uint32(v[8:]))
	if string(scratch) != string(v) {
		return fmt.Errorf("key %d has a wrong value", i)
	}
	return nil
}

func fillKeys(s *settings, r *figures, _ func()) (err error) {
	st, err := s.open()
	if err != nil {
		return err
	}
	for i := range 5 {
		if err := st.few.Set(i, "one of five"); err != nil {
			return err
		}
	}
	before := settled()
	v := make([]byte, s.ValueBytes)
	start := time.Now()
	payload := int64(0)
	for i := range s.Keys {
		fillValue(v, i, 0)
		key := keyOf(i)
		if err := st.many.Set(key, v); err != nil {
			return err
		}
		payload += int64(len(key) + len(v))
	}
	took := time.Since(start)
	r.add("rate", "%s (values made included)", rate(s.Keys, took))
	if err := r.time("Sync", st.db.Sync); err != nil {
		return err
	}
	r.add("anonymous memory at the end", "%s", size(settled()))
	r.add("of it for the store, per key", "%.1f B", float64(settled()-before)/float64(s.Keys))
	r.add("garbage collection", "%v", collection())
	if err := r.time("Close", st.db.Close); err != nil {
		return err
	}
	disk, err := onDisk(s.Dir)
	r.add("on disk", "%s; keys and values are %s: %.2fx", size(disk), size(payload), float64(disk)/float64(payload))
	return err
}

func openKeys(s *settings, r *figures, _ func()) (err error) {
	var st *store
	if err := r.time("Open and two OpenMaps", func() (err error) { st, err = s.open(); return err }); err != nil {
		return err
	}
	v := make([]byte, s.ValueBytes)
	err = r.time("first Get", func() error {
		i := rand.IntN(s.Keys)
		got, err := st.many.Load(keyOf(i))
		return errors.Join(err, checkValue(got, i, s.ValueBytes, v))
	})
	if err != nil {
		return err
	}
	if n := st.many.Len(); n != s.Keys {
		return fmt.Errorf("%d keys, not %d", n, s.Keys)
	}
	err = r.time("Len and All of the map of 5", func() error {
		n := 0
		for range st.few.All() {
			n++
		}
		if n != 5 || st.few.Len() != 5 {
			return fmt.Errorf("the map of 5 has %d entries, and counts %d", n, st.few.Len())
		}
		return nil
	})
	return errors.Join(err, r.time("Close", st.db.Close))
}

func readKeys(s *settings, r *figures, _ func()) (err error) {
	st, err := s.open()
	if err != nil {
		return err
	}
	scratch := make([]byte, s.ValueBytes)
	for round := range 2 {
		times := make([]time.Duration, 0, s.Reads)
		start := time.Now()
		for range s.Reads {
			i := rand.IntN(s.Keys)
			before := time.Now()
			got, err := st.many.Load(keyOf(i))
			times = append(times, time.Since(before))
			if err == nil {
				err = checkValue(got, i, s.ValueBytes, scratch)
			}
			if err != nil {
				return err
			}
		}
		took := time.Since(start)
		sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
		r.add(fmt.Sprintf("random Get, round %d", round+1), "%s; median %v, p99.9 %v", rate(s.Reads, took), times[len(times)/2], times[len(times)*999/1000])
	}
	r.add("anonymous memory", "%s", size(settled()))
	r.add("garbage collection", "%v", collection())
	return st.db.Close()
}

// dieWriting overwrites random keys until it is killed.
func dieWriting(s *settings, _ *figures, ready func()) error {
	st, err := s.open()
	if err != nil {
		return err
	}
	v := make([]byte, s.ValueBytes)
	signal.Ignore(syscall.SIGPIPE)
	for n := 0; ; n++ {
		i := rand.IntN(s.Keys)
		fillValue(v, i, uint32(n+1))
		if err := st.many.Set(keyOf(i), v); err != nil {
			return err
		}
		if n == s.Keys/10 {
			ready()
		}
	}
}

func orElse(n, standard int) int {
	if n == 0 {
		return standard
	}
	return n
}
