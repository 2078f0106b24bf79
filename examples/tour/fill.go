package main

import (
	"context"
	"fmt"
	"time"

	"github.com/copaldb/copal"
)

// fill puts everything into maps, closes the store, and finds it again.
func (t *tour) fill(ctx context.Context, files sources) (err error) {
	t.title("2  Into typed maps, and back")
	lib, err := openLibrary(t.dir)
	if err != nil {
		return err
	}
	if err := t.store(ctx, lib, files); err != nil {
		lib.db.Close()
		return err
	}
	start := time.Now()
	if err := lib.db.Close(); err != nil {
		return err
	}
	t.row("Close", "%v; from here on it is on the disk", since(start))

	start = time.Now()
	if lib, err = openLibrary(t.dir); err != nil {
		return err
	}
	defer lib.db.Close()
	t.row("Open", "%v for %s entries", since(start), number(int(lib.db.Stats().Keys)))
	start = time.Now()
	if err := compare(lib, files); err != nil {
		return err
	}
	t.row("read and compared", "%s; every field of all is as it was", rate(len(files), files.bytes(), time.Since(start)))
	return nil
}

func (t *tour) store(ctx context.Context, lib *library, files sources) error {
	start := time.Now()
	bar := t.bar("Set", len(files))
	for _, name := range files.paths() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// Set returns when the record is in the log: it survives kill -9 from here on.
		if err := lib.files.Set(name, files[name]); err != nil {
			return err
		}
		bar.step()
	}
	bar.end()
	t.row("Set files", "%s", rate(len(files), files.bytes(), time.Since(start)))

	for name, p := range files.packages() {
		if err := lib.packages.Set(name, p); err != nil {
			return err
		}
	}
	for hundreds, n := range files.lengths() {
		if err := lib.lengths.Set(hundreds, n); err != nil {
			return err
		}
	}
	t.row("Set packages", "%s with slices and times, and %s counters under int keys", number(lib.packages.Len()), number(lib.lengths.Len()))
	// A single value needs no map.
	return copal.Set(lib.db, summaryName, Summary{Source: t.source, Files: len(files), Bytes: files.bytes(), FilledAt: time.Now().UTC()})
}

// compare reads everything and compares it with the sources.
func compare(lib *library, files sources) error {
	n := 0
	for name, f := range lib.files.All() {
		want, ok := files[name]
		if !ok {
			return fmt.Errorf("file %q is in the store and should not be", name)
		}
		if !f.same(want) {
			return fmt.Errorf("file %q came back with another content", name)
		}
		n++
	}
	if n != len(files) {
		return fmt.Errorf("%d files are there of %d", n, len(files))
	}
	packages := files.packages()
	for name, want := range packages {
		if p, ok := lib.packages.Get(name); !ok || !p.same(want) {
			return fmt.Errorf("package %q: there %t, came back as %+v", name, ok, p)
		}
	}
	if lib.packages.Len() != len(packages) {
		return fmt.Errorf("%d packages are there of %d", lib.packages.Len(), len(packages))
	}
	for hundreds, want := range files.lengths() {
		if n, ok := lib.lengths.Get(hundreds); !ok || n != want {
			return fmt.Errorf("the counter of %d00 lines: there %t, is %d, not %d", hundreds, ok, n, want)
		}
	}
	s, err := copal.Load[Summary](lib.db, summaryName)
	if err != nil || s.Files == 0 || s.Source == "" {
		return fmt.Errorf("the summary came back as %+v, %v", s, err)
	}
	return nil
}
