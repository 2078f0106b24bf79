package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/copaldb/copal/internal/checkpoint"
	"github.com/copaldb/copal/internal/order"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/repair"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// Check reads every byte of the store in dir, whether or not a process uses it, and changes
// nothing: the log, the files that are made from it, and every entry. The error is one of reading;
// damage is in the report. progress, which may be nil, gets the bytes of the log read so far, and
// of all. When ctx ends, so does Check, with its error.
func Check(ctx context.Context, dir string, fsys vfs.FS, progress func(done, total int64)) (repair.CheckReport, error) {
	read := int64(0) // of all bytes of the log
	found, m, err := repair.Check(ctx, dir, fsys, func(done, total int64) {
		if read = total; progress != nil {
			progress(done, total)
		}
	})
	c := &meaning{ctx: ctx, dir: dir, fsys: fsys, report: &found}
	if err == nil && m != nil {
		err = c.snapshot(m)
	}
	if err == nil && len(found.Problems) == 0 && found.Version == nil {
		err = c.entries()
	}
	if err == nil && progress != nil {
		progress(read, read)
	}
	return found, err
}

// meaning checks the content of the records of a log, and the files that were made from them.
type meaning struct {
	ctx    context.Context
	dir    string
	fsys   vfs.FS
	report *repair.CheckReport
}

// snapshot reads the snapshots of the index, and the runs of keys that it names. Unusable ones are made anew,
// so their faults are no damage of the store.
func (c *meaning) snapshot(m *seglog.Manifest) error {
	for _, line := range m.Indexes {
		if err := c.index(m, line); err != nil {
			return err
		}
	}
	return nil
}

func (c *meaning) index(m *seglog.Manifest, line seglog.ManifestIndex) error {
	name := line.FileName()
	f, err := c.fsys.Open(filepath.Join(c.dir, name), vfs.ReadOnly)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("copal: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("copal: %w", err)
	}
	x, err := checkpoint.Read(f, size)
	if err != nil {
		return c.derived(name, 0, err)
	}
	if x.Store != m.Store || x.Sum != line.CRC {
		return c.derived(name, 0, fmt.Errorf("%w: it is not the one that the manifest names", record.ErrSyntax))
	}
	for _, t := range x.Tables {
		for i := range t.Due {
			_, err := t.Due[i].Read(f)
			if err := c.derived(name, t.Due[i].Offset, err); err != nil {
				return err
			}
		}
		for i := range t.Parts {
			_, err := t.Parts[i].Read(f)
			if err := c.derived(name, t.Parts[i].Offset, err); err != nil {
				return err
			}
		}
		if t.Order == nil {
			continue
		}
		for _, id := range t.Order.Runs {
			if err := c.derived(orderName(id), 0, c.keys(m.Store, id)); err != nil {
				return err
			}
		}
	}
	return nil
}

// keys reads a run of keys.
func (c *meaning) keys(store, id uint64) error {
	f, err := c.fsys.Open(filepath.Join(c.dir, orderName(id)), vfs.ReadOnly)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	run, err := order.Open(f, size, store, id)
	if err != nil {
		return err
	}
	keys := run.Walk(nil, false)
	for keys.Next() {
	}
	return keys.Err()
}

// derived notes damage of a derived file, and returns other errors. A missing file, or one of another version,
// is made anew silently.
func (c *meaning) derived(name string, offset int64, err error) error {
	if err == nil || errors.Is(err, record.ErrVersion) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	path := filepath.Join(c.dir, name)
	var corrupt *seglog.CorruptError
	if errors.As(checkpoint.AsDamage(path, offset, err), &corrupt) {
		c.report.Derived = append(c.report.Derived, *corrupt)
		return nil
	}
	return err
}

// entries opens the store as a reader does and reads every entry: that includes the sequence of
// segments and the parts of large values.
func (c *meaning) entries() error {
	s, err := Open(c.dir, Options{FS: c.fsys, ReadOnly: true, Passing: PassDamage, NoSnapshot: true, AcceptCopy: true}) // which reads the whole log
	if err != nil {
		return c.report.Note(err)
	}
	defer s.Close()
	for _, d := range s.damage {
		c.report.Problems = append(c.report.Problems, *d)
	}
	for _, t := range s.Tables() {
		for item := range s.Items(t) {
			if err := c.ctx.Err(); err != nil {
				return err
			}
			if IsCollection(item.Err) { // a collection, which is counted below
				c.report.Keys++
				continue
			}
			if err := c.report.Note(item.Err); err != nil {
				return err
			}
			if item.Err != nil {
				continue
			}
			c.report.Keys++
			if _, ok := s.Schema(item.Schema); item.Schema != 0 && !ok {
				c.report.Problem(c.dir, 0, fmt.Sprintf("the entry of key %q names schema %d, which is not in the log", item.Key, item.Schema))
			}
		}
	}
	c.report.TornBytes = max(c.report.TornBytes, s.torn)
	return c.collections(s)
}

// collections reads the elements of every collection. A collection without elements is damage.
func (c *meaning) collections(s *Store) error {
	for _, t := range s.Tables() {
		if !t.hasMetas() {
			continue
		}
		err := s.checkCollections(c.ctx, t, func(key []byte, of Collection) {
			c.report.Problem(c.dir, 0, fmt.Sprintf("the %s under key %q has no elements", of.Type, key))
		})
		if err := c.report.Note(err); err != nil {
			return err
		}
	}
	return nil
}
