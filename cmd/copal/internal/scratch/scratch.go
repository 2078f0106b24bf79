package scratch

import (
	"context"
	"errors"
	"fmt"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/copying"
)

// Scratch is a store in memory that has some entries of a server, or some for it. They have the
// form of a directory: lists have positions, sorted sets their order, and elements are counted. So
// code that reads and writes entries of directories works for servers, too.
type Scratch struct {
	DB    *copal.DB
	Bytes int      // that were put since it was opened
	taken [][]byte // the keys that take has put last
}

// mostScratch is the number of bytes to put before overwritten ones are given back.
const mostScratch = 16 << 20

// Open returns the store, which may have entries of before. No snapshot of it is open.
func (s *Scratch) Open() (*copal.DB, error) {
	if s.DB != nil && s.Bytes < mostScratch {
		return s.DB, nil
	}
	err := s.Close()
	if err == nil {
		s.DB, err = copal.OpenMemory()
	}
	return s.DB, err
}

// Close closes the store, if one is open.
func (s *Scratch) Close() error {
	db := s.DB
	s.DB, s.Bytes, s.taken = nil, 0, nil
	if db == nil {
		return nil
	}
	return db.Close()
}

// Take puts entries of a view into the store, in the place of those that it has put before, and
// takes a snapshot, which the caller closes: a walk through it yields these entries alone. A
// Deleted entry is one that the view does not have. With typed false it keeps of a collection the
// parts that a Redis has.
func (s *Scratch) Take(ctx context.Context, from *copying.View, typed bool, list ...*admin.Entry) (*copal.Snapshot, error) {
	db, err := s.Open()
	if err != nil {
		return nil, err
	}
	for _, key := range s.taken {
		if _, err := db.Raw().Delete(key); err != nil {
			return nil, err
		}
	}
	s.taken = s.taken[:0]
	var values []*admin.Entry
	for _, e := range list {
		s.taken = append(s.taken, e.Key)
		s.Bytes += 2*len(e.Key) + len(e.Value)
		switch {
		case e.Large > 0: // the view has left the value out
			return nil, fmt.Errorf("%w: a value of %d bytes", copal.ErrTooLarge, e.Large)
		case e.Collection == "":
			values = append(values, e)
			continue
		}
		if err := copying.Into(db).PutCollection(ctx, e, s.elements(from, typed, e)); err != nil {
			return nil, err
		}
	}
	if err := copying.Into(db).Put(ctx, values); err != nil {
		return nil, err
	}
	return db.Snapshot()
}

// elements yields the elements of a collection in a view.
func (s *Scratch) elements(from *copying.View, typed bool, e *admin.Entry) func(func(admin.Element, error) bool) {
	return func(yield func(admin.Element, error) bool) {
		for element, err := range from.Elements(e, typed) {
			s.Bytes += len(element.Name) + len(element.Value)
			if !yield(element, err) {
				return
			}
		}
	}
}

// Lend calls f with a snapshot as take makes it.
func (s *Scratch) Lend(ctx context.Context, from *copying.View, typed bool, list []*admin.Entry, f func(*copal.Snapshot) error) error {
	now, err := s.Take(ctx, from, typed, list...)
	if err != nil {
		return err
	}
	return errors.Join(f(now), now.Close())
}
