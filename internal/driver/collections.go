package driver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keycodec"
)

// Of names a collection.
type Of struct {
	Key  []byte
	Type engine.CollectionType
}

// Element is an element of a collection:
//
//	hash         Sub is the field, Value its value
//	set          Sub is the member
//	sorted set   Sub is the member, Score its score
//	list         Value is the element; it has no Sub
//	stream       Sub and Value are those of internal/redisstream
//
// The reader of an element must not change its bytes.
type Element struct {
	Sub, Value []byte
	Schema     uint64 // of Value
	Score      float64
	Delete     bool // of an edit
}

// Collections has the verbs of collections. The engine has them (package elements), and so has a driver that keeps
// many elements under one key. Every call but Type and Clear returns a *engine.CollectionError or engine.ErrType when
// the key holds something else. A collection without elements does not exist. A walk yields the error of an element
// and goes on, if the caller does and the error allows it.
//
// The functions that Update and Pop get are called without locks, and again if another write has come first.
type Collections interface {
	// Type returns the type of the key, "" for a value. The error is engine.ErrNotFound when there
	// is no entry.
	Type(ctx context.Context, key []byte) (engine.CollectionType, error)

	// Count returns the number of elements, 0 when there is no collection.
	Count(ctx context.Context, of Of) (int, error)

	// Clear deletes the collection, and reports whether there was one.
	Clear(ctx context.Context, of Of, d engine.Durability) (existed bool, err error)

	// Rename moves the collection and its deadline to another key, and replaces any entry of that
	// key. The error is engine.ErrNotFound when there is no collection.
	Rename(ctx context.Context, of Of, to []byte, d engine.Durability) error

	// SetDeadline gives the collection another deadline, 0 for none. The error is engine.ErrNotFound when there is
	// none.
	SetDeadline(ctx context.Context, of Of, deadline uint64, d engine.Durability) error

	// DeadlineOf returns the deadline of the collection, 0 for none. The error is engine.ErrNotFound when there is no
	// collection.
	DeadlineOf(ctx context.Context, of Of) (uint64, error)

	// The verbs of hashes, sets and sorted sets.

	// Element returns one element. The error is engine.ErrNotFound when there is none.
	Element(ctx context.Context, of Of, sub []byte) (Element, error)

	// Edit sets and deletes elements, all or none, and returns how many of them existed. No two edits that set have
	// the same Sub, and no Score is NaN.
	Edit(ctx context.Context, of Of, edits []Element, d engine.Durability) (existed int, err error)

	// Update changes an element atomically. Change gets the element, nil if there is none, and returns the next one,
	// which may be one to delete, or nil to leave it.
	Update(ctx context.Context, of Of, sub []byte, d engine.Durability, change func(*Element) (*Element, error)) error

	// Fields yields the elements whose sort keys are in the span, in an order of their subs, without the first skip of
	// them. Those of a sorted set are yielded in the order of their bytes.
	Fields(ctx context.Context, of Of, by keycodec.Order, span engine.Span, skip int, values bool) iter.Seq2[Element, error]

	// CountFields returns the number of elements of a hash or a set whose subs are in the span, by their bytes.
	CountFields(ctx context.Context, of Of, span engine.Span) (int, error)

	// Pop removes the first or the last element of a list or a sorted set, which take gets first, and may refuse. It
	// reports whether there was one.
	Pop(ctx context.Context, of Of, last bool, d engine.Durability, take func(*Element) error) (ok bool, err error)

	// The verbs of sorted sets.

	// Ranked yields the members with ranks in [from, to), the first rank 0, counted from the highest score if down.
	Ranked(ctx context.Context, of Of, from, to int, down bool) iter.Seq2[Element, error]

	// Scored yields the members with scores in [low, high), or [low, +Inf] if high is nil, from the
	// highest if down. Low is nil for no bound.
	Scored(ctx context.Context, of Of, low, high *float64, down bool) iter.Seq2[Element, error]

	// Rank returns the rank of a member, from 0. The error is engine.ErrNotFound when it is none.
	Rank(ctx context.Context, of Of, member []byte, down bool) (int, error)

	// CountScores returns the number of members with scores in [low, high).
	CountScores(ctx context.Context, of Of, low, high float64) (int, error)

	// The verbs of lists. An index counts from the end if it is negative. The error of an index that does not exist is
	// engine.ErrNotFound.

	// At returns the element at an index.
	At(ctx context.Context, of Of, index int) (Element, error)

	// Between yields the elements with indexes in [from, to). Bounds beyond the ends mean the ends.
	Between(ctx context.Context, of Of, from, to int, down bool) iter.Seq2[Element, error]

	// Push puts elements at an end, all or none, and returns the length of the list then if count is set. In front
	// they come one after the other, so the last of them is the first of the list.
	Push(ctx context.Context, of Of, list []Element, front, count bool, d engine.Durability) (length int, err error)

	// Insert puts elements before the element at an index, or after the last one if the index is
	// the length.
	Insert(ctx context.Context, of Of, index int, list []Element, d engine.Durability) error

	// Replace sets the element at an index.
	Replace(ctx context.Context, of Of, index int, e Element, d engine.Durability) error

	// Trim removes the elements with indexes in [from, to).
	Trim(ctx context.Context, of Of, from, to int, d engine.Durability) error
}

// Whole is a driver whose collections can be copied.
type Whole interface {
	Collections

	// Elements yields all elements: of a list first to last, of a sorted set by score and member, of others in no
	// order. It may know streams, too, where the driver has Sessions; Edit of a stream only sets then, and does not
	// count those that existed.
	Elements(ctx context.Context, of Of) iter.Seq2[Element, error]
}

// ErrNaN is the error of a score that is not a number.
var ErrNaN = errors.New("copal: NaN is no score of a sorted set")

// mostConflicts is the number of tries of an update.
const mostConflicts = 10_000

// errBusy is the error of an update that lost to another write of its key every time: one within its own function, most
// likely.
var errBusy = fmt.Errorf("%w: the update was given up after %d tries: another write of the key came first each time", engine.ErrNested, mostConflicts)

// Retry calls change, which depends on its own reads, until it returns an error other than ErrConflict, or nil. After
// 10,000 conflicts it returns errBusy.
func Retry(change func() error) error {
	for range mostConflicts {
		if err := change(); !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return errBusy
}

// InSpan yields the elements whose sort keys are in the span, in an order, without the first skip of them. If span.Down
// is set, the order is reversed. It reads all elements first: it is for drivers that know no such order. After an error
// of all it yields only that error.
func InSpan(all iter.Seq2[Element, error], by keycodec.Order, span engine.Span, skip int) iter.Seq2[Element, error] {
	type placed struct {
		Element
		at []byte
	}
	return func(yield func(Element, error) bool) {
		var list []placed
		for e, err := range all {
			if err != nil {
				yield(Element{}, err)
				return
			}
			if at := by.AppendSortKey([]byte{}, string(e.Sub)); span.Has(at) {
				list = append(list, placed{e, at})
			}
		}
		slices.SortFunc(list, func(a, b placed) int { return bytes.Compare(a.at, b.at) })
		if span.Down {
			slices.Reverse(list)
		}
		for i := skip; i < len(list); i++ {
			if !yield(list[i].Element, nil) {
				return
			}
		}
	}
}

// Refused implements Collections; every method returns Err.
type Refused struct{ Err error }

var _ Collections = Refused{}

func (r Refused) Type(context.Context, []byte) (engine.CollectionType, error)    { return "", r.Err }
func (r Refused) Count(context.Context, Of) (int, error)                         { return 0, r.Err }
func (r Refused) Clear(context.Context, Of, engine.Durability) (bool, error)     { return false, r.Err }
func (r Refused) Rename(context.Context, Of, []byte, engine.Durability) error    { return r.Err }
func (r Refused) DeadlineOf(context.Context, Of) (uint64, error)                 { return 0, r.Err }
func (r Refused) Element(context.Context, Of, []byte) (Element, error)           { return Element{}, r.Err }
func (r Refused) CountFields(context.Context, Of, engine.Span) (int, error)      { return 0, r.Err }
func (r Refused) Rank(context.Context, Of, []byte, bool) (int, error)            { return 0, r.Err }
func (r Refused) CountScores(context.Context, Of, float64, float64) (int, error) { return 0, r.Err }
func (r Refused) At(context.Context, Of, int) (Element, error)                   { return Element{}, r.Err }
func (r Refused) Trim(context.Context, Of, int, int, engine.Durability) error    { return r.Err }

func (r Refused) SetDeadline(context.Context, Of, uint64, engine.Durability) error {
	return r.Err
}

func (r Refused) Edit(context.Context, Of, []Element, engine.Durability) (int, error) {
	return 0, r.Err
}

func (r Refused) Update(context.Context, Of, []byte, engine.Durability, func(*Element) (*Element, error)) error {
	return r.Err
}

func (r Refused) Pop(context.Context, Of, bool, engine.Durability, func(*Element) error) (bool, error) {
	return false, r.Err
}

func (r Refused) Push(context.Context, Of, []Element, bool, bool, engine.Durability) (int, error) {
	return 0, r.Err
}

func (r Refused) Insert(context.Context, Of, int, []Element, engine.Durability) error { return r.Err }
func (r Refused) Replace(context.Context, Of, int, Element, engine.Durability) error  { return r.Err }

func (r Refused) Fields(context.Context, Of, keycodec.Order, engine.Span, int, bool) iter.Seq2[Element, error] {
	return r.walk
}
func (r Refused) Ranked(context.Context, Of, int, int, bool) iter.Seq2[Element, error] { return r.walk }
func (r Refused) Scored(context.Context, Of, *float64, *float64, bool) iter.Seq2[Element, error] {
	return r.walk
}
func (r Refused) Between(context.Context, Of, int, int, bool) iter.Seq2[Element, error] {
	return r.walk
}
func (r Refused) walk(yield func(Element, error) bool) { yield(Element{}, r.Err) }
