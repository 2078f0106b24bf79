package copying

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/positions"
)

// store is the source or the destination of a copy.
type store interface {
	// view opens the present moment. The caller closes it.
	view(ctx context.Context) (view, error)

	// put sets entries that are no collections, and deletes those that are Deleted: the last one not before the others.
	put(ctx context.Context, list []*admin.Entry) error

	// putLarge sets an entry, whose value is read piece by piece.
	putLarge(ctx context.Context, e *admin.Entry, value io.Reader) error

	// putCollection replaces the entry of the key of e by a collection.
	putCollection(ctx context.Context, e *admin.Entry, elements iter.Seq2[admin.Element, error]) error

	// changes yields the changes after a sequence number, up to another one. The error is
	// copal.ErrHistoryLost if they are not known any more, and errors.ErrUnsupported if they never
	// are.
	changes(ctx context.Context, after, until uint64) iter.Seq2[change, error]

	// wait returns when something has changed after a sequence number, or with the error of ctx.
	wait(ctx context.Context, after uint64) error

	// listen begins to hear which keys change in a store without moments, until ctx is done. The
	// error is errors.ErrUnsupported if they are not reported.
	listen(ctx context.Context) (driver.Notices, error)

	// maps are the names of the maps that the store knows, and declare makes another one known.
	maps(ctx context.Context) ([]string, error)
	declare(ctx context.Context, name string) error

	// typed reports whether the store keeps all that copal knows of an entry, as a Redis does not: codec and schema of
	// each value, its content type, and all of a stream.
	typed() bool

	// moments reports whether a view is of one moment, with a sequence number and a feed of later
	// changes.
	moments() bool

	// identity is a text that another store does not have, and neither does this one after it has lost its entries by
	// other means than writes. It is "" where nothing of the kind is known.
	identity(ctx context.Context) (string, error)

	sync(ctx context.Context) error
}

// change is a change of an entry, or of all entries with keys from key on, before to, in the order of the map.
type change struct {
	key, from []byte // from is the key that a collection had before
	to        []byte // nil for no end
	isRange   bool
}

// view is a store at a moment, unless the store has no moments.
type view interface {
	// entries yields the entries with keys in [from, to), in bytewise order of their keys. nil is
	// no bound. A long value may be left out: then the entry has its length, and open reads it.
	entries(from, to []byte) iter.Seq2[admin.Entry, error]
	open(e *admin.Entry) (io.ReadCloser, error)

	// one is the entry under a key, which it may leave the value out of as entries does. The error is
	// copal.ErrNotFound if there is none.
	one(key []byte) (admin.Entry, error)

	// elements yields the elements of a collection. The name of one is the field of a hash, or the member of a set or
	// a sorted set, whose value then is the score as text. Elements of a list come in order, without a name. Those of a
	// stream are of internal/redisstream.
	elements(e *admin.Entry) iter.Seq2[admin.Element, error]

	seq() uint64  // 0 for no moment
	total() int64 // entries, about
	close()
}

// entriesOf yields the entries with keys in [from, to). One key is looked up: a walk would put all keys in order to
// begin there.
func entriesOf(v view, from, to []byte) iter.Seq2[admin.Entry, error] {
	if len(to) != len(from)+1 || to[len(from)] != 0 || !bytes.HasPrefix(to, from) {
		return v.entries(from, to)
	}
	return func(yield func(admin.Entry, error) bool) {
		if e, err := v.one(from); !errors.Is(err, copal.ErrNotFound) {
			yield(e, err)
		}
	}
}

// directory is a store that the engine keeps.
type directory struct{ db *copal.DB }

// view is of all that was written before, by another process, too.
func (d directory) view(context.Context) (view, error) {
	if err := d.db.Refresh(); err != nil {
		return nil, err
	}
	s, err := d.db.Snapshot()
	return moment{s, int64(d.db.Raw().Len())}, err
}

// moment is a snapshot of a directory.
type moment struct {
	s *copal.Snapshot
	n int64 // entries; to count those of the snapshot takes a walk
}

func (m moment) entries(from, to []byte) iter.Seq2[admin.Entry, error] {
	return func(yield func(admin.Entry, error) bool) {
		for e, err := range admin.Entries(m.s, from, to) {
			if errors.Is(err, copal.ErrTooLarge) {
				e, err = m.one(e.Key)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (m moment) open(e *admin.Entry) (io.ReadCloser, error) { return admin.Open(m.s, e.Key) }

func (m moment) one(key []byte) (e admin.Entry, err error) {
	err = admin.Look(m.s, key, func(found *admin.Found) error {
		e = found.Entry
		e.Value = bytes.Clone(e.Value)
		return nil
	})
	if c := (*copal.CollectionError)(nil); errors.As(err, &c) {
		e = admin.Entry{Key: key, Collection: c.Type}
		e.Expires, err = m.s.Raw().Deadline(key)
	}
	return e, err
}

func (m moment) elements(e *admin.Entry) iter.Seq2[admin.Element, error] {
	return func(yield func(admin.Element, error) bool) {
		for element, err := range admin.Elements(m.s, e.Key) {
			switch {
			case err != nil:
			case e.Collection == string(engine.ListType):
				element.Name = nil
			case e.Collection == string(engine.SortedSetType) && element.Name[0] != engine.MemberMark:
				continue // the place of a member, which follows from its score
			case e.Collection == string(engine.SortedSetType):
				var score float64
				score, err = strconv.ParseFloat(string(element.Value), 64)
				element.Name, element.Value = element.Name[1:], scoreText(score)
			}
			if !yield(element, err) {
				return
			}
		}
	}
}

func (m moment) seq() uint64  { return m.s.Seq() }
func (m moment) total() int64 { return m.n }
func (m moment) close()       { m.s.Close() }

func (d directory) put(_ context.Context, list []*admin.Entry) error { return admin.Put(d.db, list...) }

func (d directory) putLarge(ctx context.Context, e *admin.Entry, value io.Reader) error {
	if e.Codec != "" { // only raw bytes are written in pieces
		whole, err := inMemory(e, value)
		if err != nil {
			return err
		}
		return admin.Put(d.db, whole)
	}
	w, err := admin.Create(ctx, d.db, e.Key)
	if err != nil {
		return err
	}
	defer w.Close()
	if _, err := w.ReadFrom(value); err != nil {
		return err
	}
	_, err = w.Commit(copal.Write, func(*copal.Tx) (admin.Entry, error) { return *e, nil })
	return err
}

// inMemory is an entry with the value that was left out.
func inMemory(e *admin.Entry, value io.Reader) (*admin.Entry, error) {
	whole := *e
	whole.Value, whole.Large = make([]byte, e.Large), 0
	_, err := io.ReadFull(value, whole.Value)
	return &whole, err
}

func (d directory) putCollection(_ context.Context, e *admin.Entry, elements iter.Seq2[admin.Element, error]) error {
	anew, last := true, []byte(nil)
	err := inPieces(elements, func(list []admin.Element) (err error) {
		switch engine.CollectionType(e.Collection) {
		case engine.ListType:
			for i, p := range positions.Between(last, nil, len(list), 1) {
				list[i].Name, last = p, p
			}
			err = admin.PutElements(d.db, e, list, anew)
		case engine.SortedSetType:
			var members map[string]float64
			if members, err = scoresOf(e, list); err == nil {
				err = PutMembers(d.db, e, members, anew)
			}
		default:
			err = admin.PutElements(d.db, e, list, anew)
		}
		anew = false
		return err
	})
	if err == nil && anew { // there are none
		err = admin.PutElements(d.db, e, nil, true)
	}
	if errors.Is(err, copal.ErrNotFound) { // its deadline has come, or it has gone meanwhile
		return nil
	}
	return err
}

func scoresOf(e *admin.Entry, list []admin.Element) (map[string]float64, error) {
	members := make(map[string]float64, len(list))
	for _, m := range list {
		score, err := strconv.ParseFloat(string(m.Value), 64)
		if err != nil {
			return nil, fmt.Errorf("%w: the score of a member of key %q is %q", copal.ErrType, e.Key, m.Value)
		}
		members[string(m.Name)] = score
	}
	return members, nil
}

// PutMembers is admin.PutElements for members of a sorted set and their scores.
func PutMembers(db *copal.DB, e *admin.Entry, members map[string]float64, anew bool) error {
	raw := db.Raw()
	if anew {
		if _, err := raw.Delete(e.Key); err != nil {
			return err
		}
	}
	err := raw.SortedSet(e.Key).SetAll(members)
	if err != nil || !anew || e.Expires.IsZero() {
		return err
	}
	err = raw.ExpireAt(e.Key, e.Expires)
	if err != nil && !e.Expires.After(time.Now()) { // which is no deadline any more
		_, err = raw.Delete(e.Key)
	}
	return err
}

func (d directory) changes(ctx context.Context, after, until uint64) iter.Seq2[change, error] {
	return func(yield func(change, error) bool) {
		for c, err := range d.db.Watch(ctx, copal.WithAfter(after), copal.WithUntil(until)) {
			if !yield(change{c.Key, c.From, c.To, c.Range}, err) {
				return
			}
		}
	}
}

func (d directory) wait(ctx context.Context, after uint64) error {
	for _, err := range d.db.Watch(ctx, copal.WithAfter(after)) {
		return err
	}
	return nil
}

func (d directory) listen(context.Context) (driver.Notices, error) { return nil, errors.ErrUnsupported }

func (d directory) maps(context.Context) (names []string, err error) {
	for name := range d.db.Maps() {
		names = append(names, name)
	}
	return names, nil
}

func (d directory) declare(_ context.Context, name string) error { return admin.DeclareMap(d.db, name) }
func (d directory) identity(context.Context) (string, error) {
	return "store " + admin.Identity(d.db), nil
}

func (d directory) typed() bool                  { return true }
func (d directory) moments() bool                { return true }
func (d directory) sync(_ context.Context) error { return d.db.Sync() }

// Pieces that are written together.
const (
	pieceBytes = 1 << 20
	pieceItems = 4096
)

// inPieces puts elements in pieces of a bounded size. An error ends it.
func inPieces(elements iter.Seq2[admin.Element, error], put func([]admin.Element) error) error {
	var list []admin.Element
	size := 0
	for e, err := range elements {
		if err != nil {
			return err
		}
		list = append(list, e)
		if size += len(e.Name) + len(e.Value); size < pieceBytes && len(list) < pieceItems {
			continue
		}
		if err := put(list); err != nil {
			return err
		}
		list, size = list[:0], 0
	}
	if len(list) == 0 {
		return nil
	}
	return put(list)
}

// declareAll makes the maps of one store known to another.
func declareAll(ctx context.Context, from, to store) error {
	names, err := from.maps(ctx)
	if err != nil {
		return err
	}
	known, err := to.maps(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			if err := to.declare(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}
