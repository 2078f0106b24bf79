package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/copaldb/copal"
)

// change updates some files and deletes others, in the store and in files alike.
func (t *tour) change(ctx context.Context, files sources) error {
	t.title("3  Updates and deletes")
	lib, err := openLibrary(t.dir)
	if err != nil {
		return err
	}
	defer lib.db.Close()
	start, updated, deleted := time.Now(), 0, 0
	for i, name := range files.paths() {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case strings.HasSuffix(name, "_test.go") && i%2 == 0:
			existed, err := lib.files.Delete(name)
			if err != nil || !existed {
				return fmt.Errorf("delete %s: there %t, %w", name, existed, err)
			}
			delete(files, name)
			deleted++
		case i%7 == 0:
			f, err := lib.files.Load(name) // Get with an error instead of a bool
			if err != nil {
				return err
			}
			f.Text += "// read by the tour\n"
			f.Bytes, f.Lines, f.Changed = len(f.Text), f.Lines+1, time.Now().UTC()
			if err := lib.files.Set(name, f); err != nil {
				return err
			}
			files[name] = f
			updated++
		}
	}
	t.row("changed", "%s updated and %s deleted in %v", number(updated), number(deleted), since(start))
	if err := renew(lib, files); err != nil {
		return err
	}
	if err := t.expectAbsent(lib, files); err != nil {
		return err
	}
	start = time.Now()
	if err := compare(lib, files); err != nil {
		return err
	}
	t.row("read and compared", "%s; all as it should be", rate(len(files), files.bytes(), time.Since(start)))
	return nil
}

// renew brings the packages and the counters in line with the files. SetFSync returns
// when the record is on the disk: it survives a power cut from there on.
func renew(lib *library, files sources) error {
	packages, lengths := files.packages(), files.lengths()
	for name := range lib.packages.Keys() { // the map may be changed in the loop
		if _, ok := packages[name]; !ok {
			if _, err := lib.packages.Delete(name); err != nil {
				return err
			}
		}
	}
	for name, p := range packages {
		if old, ok := lib.packages.Get(name); ok && old.same(p) {
			continue
		}
		if err := lib.packages.SetFSync(name, p); err != nil {
			return err
		}
	}
	for hundreds, n := range lengths {
		if err := lib.lengths.Set(hundreds, n); err != nil {
			return err
		}
	}
	return nil
}

// expectAbsent shows a read of a missing entry.
func (t *tour) expectAbsent(lib *library, files sources) error {
	for name := range files {
		missing := path.Dir(name) + "/never.go"
		if _, ok := lib.files.Get(missing); ok {
			return fmt.Errorf("%s is there, and nobody wrote it", missing)
		}
		_, err := lib.files.Load(missing)
		if !errors.Is(err, copal.ErrNotFound) {
			return fmt.Errorf("loading an absent key: %w", err)
		}
		t.row("Load, absent", "%v", err)
		return nil
	}
	return nil
}
