package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/copaldb/copal"
)

func init() {
	phases["values/put"] = putValues
	phases["values/read"] = readValues
	phases["values/iterate"] = iterateValues
	phases["values/overwrite"] = overwriteValues
	phases["values/shrink"] = shrinkValues
	phases["values/backup"] = backupValues
	phases["values/open"] = openKeys
}

func runValues(ctx context.Context, s *settings) error {
	s.ValueBytes, s.Reads = orElse(s.ValueBytes, 64<<10), orElse(s.Reads, 20_000)
	s.Keys = int(s.Total / int64(s.ValueBytes))
	fmt.Printf("%d values of %d bytes, %s, in a control group of %s, MaxMemory(%s)\n", s.Keys, s.ValueBytes, size(s.Total), size(s.Group), size(s.MaxMemory))
	group, leave, err := makeGroup(s.Group)
	if err != nil {
		return fmt.Errorf("a control group needs root and Linux: %w", err)
	}
	defer leave()
	for _, name := range []string{"put", "open", "read", "iterate", "overwrite", "shrink", "backup", "open"} {
		setup := func(c *exec.Cmd) { c.Env = append(c.Env, groupVariable+"="+group) }
		if err := runPhase(ctx, s, name, "values/"+name, 0, setup); err != nil {
			return err
		}
	}
	return nil
}

func putValues(s *settings, r *figures, _ func()) error {
	st, err := s.open()
	if err != nil {
		return err
	}
	for i := range 5 {
		if err := st.few.Set(i, "one of five"); err != nil {
			return err
		}
	}
	v := make([]byte, s.ValueBytes)
	start := time.Now()
	for i := range s.Keys {
		fillValue(v, i, 0)
		if err := st.many.Set(keyOf(i), v); err != nil {
			return err
		}
	}
	if err := st.db.Sync(); err != nil {
		return err
	}
	took := time.Since(start)
	r.add("put, with Sync", "%v, %.0f MiB/s", took.Round(time.Millisecond), float64(s.Total)/(1<<20)/took.Seconds())
	r.add("anonymous memory at the end", "%s", size(settled()))
	return r.time("Close", st.db.Close)
}

func readValues(s *settings, r *figures, _ func()) error {
	st, err := s.open()
	if err != nil {
		return err
	}
	scratch := make([]byte, s.ValueBytes)
	start := time.Now()
	for range s.Reads {
		i := rand.IntN(s.Keys)
		got, err := st.many.Load(keyOf(i))
		if err == nil {
			err = checkValue(got, i, s.ValueBytes, scratch)
		}
		if err != nil {
			return err
		}
	}
	took := time.Since(start)
	r.add("random Get", "%s, %.0f MiB/s", rate(s.Reads, took), float64(s.Reads)*float64(s.ValueBytes)/(1<<20)/took.Seconds())
	return st.db.Close()
}

func iterateValues(s *settings, r *figures, _ func()) error {
	st, err := s.open()
	if err != nil {
		return err
	}
	scratch := make([]byte, s.ValueBytes)
	n, start := 0, time.Now()
	for key, v := range st.many.All() {
		var i int
		if _, err := fmt.Sscanf(key, "user-%d", &i); err != nil {
			return err
		}
		if err := checkValue(v, i, s.ValueBytes, scratch); err != nil {
			return err
		}
		n++
	}
	if n != s.Keys {
		return fmt.Errorf("%d entries, not %d", n, s.Keys)
	}
	took := time.Since(start)
	r.add("All", "%v, %.0f MiB/s", took.Round(time.Millisecond), float64(s.Total)/(1<<20)/took.Seconds())
	return st.db.Close()
}

// overwriteValues writes a third of the values again, at random.
func overwriteValues(s *settings, r *figures, _ func()) error {
	st, err := s.open()
	if err != nil {
		return err
	}
	v := make([]byte, s.ValueBytes)
	n, start := s.Keys/3, time.Now()
	for round := range n {
		i := rand.IntN(s.Keys)
		fillValue(v, i, uint32(round+1))
		if err := st.many.Set(keyOf(i), v); err != nil {
			return err
		}
	}
	if err := st.db.Sync(); err != nil {
		return err
	}
	took := time.Since(start)
	r.add("a third written again", "%v, %.0f MiB/s", took.Round(time.Millisecond), float64(n)*float64(s.ValueBytes)/(1<<20)/took.Seconds())
	if err := addDisk(s, r); err != nil {
		return err
	}
	return r.time("Close", st.db.Close)
}

func addDisk(s *settings, r *figures) error {
	disk, err := onDisk(s.Dir)
	r.add("on disk", "%s, %.2fx the values", size(disk), float64(disk)/float64(s.Total))
	return err
}

func shrinkValues(s *settings, r *figures, _ func()) error {
	st, err := s.open()
	if err != nil {
		return err
	}
	if err := r.time("Compact", func() error { return st.db.Compact(context.Background(), nil) }); err != nil {
		return err
	}
	if err := addDisk(s, r); err != nil {
		return err
	}
	return r.time("Close", st.db.Close)
}

func backupValues(s *settings, r *figures, _ func()) error {
	st, err := s.open()
	if err != nil {
		return err
	}
	to := filepath.Join(s.Dir, "backup")
	for _, name := range []string{"Backup, the first", "Backup, again"} {
		if err := r.time(name, func() error { _, err := st.db.Backup(context.Background(), to, nil); return err }); err != nil {
			return err
		}
	}
	db, err := copal.Open(to, copal.ReadOnly())
	if err != nil {
		return err
	}
	if n, want := db.Stats().Keys, st.db.Stats().Keys; n != want {
		err = fmt.Errorf("the backup has %d keys, the store %d", n, want)
	}
	return errors.Join(err, db.Close(), st.db.Close())
}
