//go:build linux

package disktest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

// TestFilesCutUnderStore: another process cuts a file of a live store, or puts another in its
// place. No call returns a wrong value, or ends the process by the signal for a mapped page beyond
// the end of a file; and where acknowledged records are gone, the store reports that and takes no
// more.
func TestFilesCutUnderStore(t *testing.T) {
	tests := []struct {
		file, how string
		doubt     bool // acknowledged writes are gone, and the process can know it
	}{
		{"RING", "empty", true},
		{"RING", "half", true},
		{"RING", "replace", false},
		{"tail", "empty", true},
		{"tail", "half", true},
		{"tail", "replace", false},
		{"sealed", "empty", false},
		{"sealed", "half", false},
		{"sealed", "replace", false},
	}
	bothWays(t, func(t *testing.T) {
		for _, test := range tests {
			t.Run(test.file+" "+test.how, func(t *testing.T) {
				if test.file == "RING" && (os.Getenv("COPAL_NO_MMAP") == "1" || strconv.IntSize == 32) {
					t.Skip("there is no ring")
				}
				cutUnderStore(t, test.file, test.how, test.doubt)
			})
		}
	})
}

func cutUnderStore(t *testing.T, file, how string, doubt bool) {
	dir := filepath.Join(t.TempDir(), "db")
	b := newBook(t, dir)
	for range cutEntries / 2 {
		b.set(cutSize(b.next))
	}
	b.close()
	// A process that dies: the next begins a segment.
	c := start(t, order{Do: "die", Dir: dir})
	c.hear()
	c.cmd.Wait()
	c = start(t, order{Do: "cut", Dir: dir})
	c.hear()
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(logs) < 2 {
		t.Fatal("segments: ", logs, err)
	}
	name := map[string]string{"RING": filepath.Join(dir, "RING"), "tail": logs[len(logs)-1], "sealed": logs[0]}[file]
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	switch how {
	case "empty":
		err = os.Truncate(name, 0)
	case "half":
		err = os.Truncate(name, info.Size()/2+13)
	case "replace":
		other := filepath.Join(t.TempDir(), "other")
		take(t, other, int(info.Size()))
		err = os.Rename(other, name)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.tell("cut")
	var found cutReport
	if err := json.Unmarshal([]byte(c.hear()), &found); err != nil {
		t.Fatal(err)
	}
	c.end()
	if len(found.Wrong) > 0 {
		t.Errorf("wrong: %q", found.Wrong)
	}
	if doubt && !found.Refused {
		t.Errorf("writes go on; reads failed: %d, %q", found.Failed, found.Errors)
	}
	if !doubt && found.Refused {
		t.Errorf("writes are refused: %q", found.Errors)
	}
	if file != "RING" && how != "replace" && found.Failed == 0 {
		t.Error("all could be read: this tests nothing")
	}
	if how == "replace" && found.Failed > 0 {
		t.Errorf("%d reads failed of what the process has open: %q", found.Failed, found.Errors)
	}
}

// cutReport is a child's report of a store that was cut.
type cutReport struct {
	Failed  int      // reads that returned an error
	Refused bool     // writes, in the end, with ErrReadOnly
	Wrong   []string // the violations
	Errors  []string
}

const cutEntries = 1000

// cutSize returns a size such that the log has records of a page and of many.
func cutSize(key int) int {
	if key%100 == 99 {
		return 200 << 10
	}
	return 10 + key%5000
}

// cutTask writes the second half of the entries, lets its files be cut, and uses the store in every
// way.
func cutTask(o order) error {
	var r cutReport
	reported := func(err error) { r.Errors = append(r.Errors, err.Error()) }
	db, err := copal.Open(o.Dir, copal.WithMaxMemory(1), copal.WithErrorHandler(func(error) {}))
	if err != nil {
		return err
	}
	m, err := copal.OpenMap[int, []byte](db, "book", copal.WithCodec(codec.Bytes))
	if err != nil {
		return err
	}
	for key := cutEntries / 2; key < cutEntries; key++ {
		if err := m.Set(key, valueOf(key, cutSize(key))); err != nil {
			return err
		}
	}
	if err := db.Sync(); err != nil {
		return err
	}
	for key := cutEntries / 2; key < cutEntries; key += 10 { // some in the ring alone
		if err := m.Set(key, valueOf(key, cutSize(key))); err != nil {
			return err
		}
	}
	say("ready")
	listen()
	list := make([][]byte, cutEntries)
	for key := range list {
		list[key] = valueOf(key, cutSize(key))
	}
	judge := func(what string, key int, v []byte, err error) {
		switch {
		case err == nil && !bytes.Equal(v, valueOf(key, cutSize(key))):
			r.Wrong = append(r.Wrong, fmt.Sprintf("%s of %d: %d bytes, %.30q", what, key, len(v), v))
		case errors.Is(err, copal.ErrNotFound):
			r.Wrong = append(r.Wrong, fmt.Sprintf("%s of %d: not found", what, key))
		case err != nil:
			r.Failed++
			reported(err)
		}
	}
	read := func() {
		for key := range cutEntries {
			v, err := m.Load(key)
			judge("Load", key, v, err)
			if v, ok := m.Get(key); ok {
				judge("Get", key, v, nil)
			}
			v, err = db.Raw().Load(fmt.Append(nil, "book:", key))
			judge("raw Get", key, v, err)
			err = db.Raw().View(fmt.Append(nil, "book:", key), func(lent []byte) error {
				v = bytes.Clone(lent)
				return nil
			})
			judge("ViewValue", key, v, err)
		}
		for key, v := range m.All() {
			judge("All", key, v, nil)
		}
		for key, v := range m.From(0) {
			judge("Ascend", key, v, nil)
		}
		for _, v := range db.Raw().Prefix([]byte("book:")) {
			if i := slices.IndexFunc(list, func(known []byte) bool { return bytes.Equal(v, known) }); i < 0 {
				judge("Scan", -1, v, nil)
			}
		}
		err := db.View(func(tx *copal.Tx) error {
			for key := range cutEntries {
				v, err := m.In(tx).Load(key)
				judge("View", key, v, err)
			}
			return nil
		})
		if err != nil {
			reported(err)
		}
		snap, err := db.Snapshot()
		if err != nil {
			reported(err)
			return
		}
		defer snap.Close()
		for key, v := range m.At(snap).All() {
			judge("a snapshot", key, v, nil)
		}
	}
	read()
	if err := db.Compact(context.Background(), nil); err != nil { // which must not take unreadable entries for missing ones
		reported(err)
	}
	read()
	if err := db.Sync(); err != nil {
		reported(err)
	}
	for key := range cutEntries {
		errs := []error{m.Set(key, valueOf(key, cutSize(key)))}
		if key%50 == 0 {
			_, _, err := m.Update(key, func(u *copal.Entry[[]byte]) error { u.Value = valueOf(key, cutSize(key)); return nil })
			errs = append(errs, err, m.SetFSync(key, valueOf(key, cutSize(key))), m.SetAsync(key, valueOf(key, cutSize(key))), db.Sync())
		}
		for _, err := range errs {
			if errors.Is(err, copal.ErrNotFound) || errors.Is(err, copal.ErrNoSpace) {
				r.Wrong = append(r.Wrong, "a write: "+err.Error())
			}
		}
	}
	_, sticky := db.Sync(), m.Set(0, valueOf(0, cutSize(0)))
	if r.Refused = errors.Is(sticky, copal.ErrReadOnly); r.Refused {
		reported(sticky)
	}
	if err := db.Update(func(tx *copal.Tx) error { return m.In(tx).Set(0, valueOf(0, cutSize(0))) }); err != nil {
		reported(err)
	}
	if _, err := db.Backup(context.Background(), o.Dir+" backup", nil); err != nil {
		reported(err)
	}
	failed := r.Failed
	read()
	r.Failed = failed
	m.Set(0, valueOf(0, cutSize(0)))
	if err := db.Close(); err == nil && r.Refused {
		r.Wrong = append(r.Wrong, "Close returned nil of a store that had failed")
	}
	slices.Sort(r.Errors)
	r.Errors = slices.Compact(r.Errors)
	r.Errors = r.Errors[:min(len(r.Errors), 5)]
	r.Wrong = r.Wrong[:min(len(r.Wrong), 5)]
	say(r)
	return nil
}
