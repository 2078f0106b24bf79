package copying

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/opened"
)

// Copy is a copy under way. It is for one goroutine.
type Copy struct {
	Name    string                  // of the source: a copy goes on only with the same
	Replace bool                    // other entries of the destination are deleted; without it the destination must be empty
	Delete  bool                    // entries of the destination are deleted even if the source may have lost its own: see OtherError
	Show    func(done, total int64) // called with the progress of a walk; may be nil
	Tell    func(phase string)      // called at the beginning of each phase; may be nil
	from    store
	to      store
	typed   bool           // both keep all that copal knows of an entry
	heard   driver.Notices // of a source without moments; nil if it reports no changes
	whole   bool           // a walk has gone through all of it since that
	at      position
	other   string          // why the source may have lost entries since an earlier copy, "" if it has not
	forms   map[string]form // by the names of maps, of those that a Redis does not distinguish
	batch   []*admin.Entry
	bytes   int
	deletes bool   // the batch deletes entries
	present string // the identity of the source in this round
	report  Report
}

// Report is the result of a copy.
type Report struct {
	Resumed bool   // it has continued an earlier one
	Seq     uint64 // the sequence number of the source that the destination has; 0 where the source has none
	Entries int64  // entries of the source then, if Compared
	Written int64  // entries that were set
	Deleted int64  // entries that were deleted
	Walks   int64  // through the source: more than one if the feed lacked changes
	Rounds  int64  // of the changes meanwhile
	Sum     Sum    // of all entries, when they were compared last; zero before

	Compared bool // all entries were compared

	// Contents is the number of entries with a content type then, which was not copied because the
	// destination keeps none.
	Contents int64
}

// New is a copy between two stores that are open, the destination for writing.
func New(from, to *copal.DB) *Copy {
	return newCopy(storeOf(from), storeOf(to))
}

func storeOf(db *copal.DB) store {
	if d := opened.DriverOf(db); d != nil {
		return server{d}
	}
	return directory{db}
}

func newCopy(from, to store) *Copy {
	return &Copy{from: from, to: to, typed: from.typed() && to.typed(), Show: func(int64, int64) {}, Tell: func(string) {}}
}

// Report returns the result so far.
func (c *Copy) Report() Report { return c.report }

// fewChanges is the most changed keys of a round that has caught up. It is a variable for tests.
var fewChanges = 4096

// CatchUp copies until few entries change during a round, and compares all entries then. It goes on
// with an earlier copy that has ended before its time. When it returns, the destination is the
// source as it was at Report().Seq, if Report().Compared. It is not where collections are renamed
// and deleted all the time. A source without a feed has no such moments: of that nothing is
// compared yet. It may report keys that change, though without a promise: then rounds copy these,
// until ctx is done.
func (c *Copy) CatchUp(ctx context.Context) error {
	found, err := c.find(ctx)
	if err != nil {
		return err
	}
	c.report.Resumed = found
	switch {
	case !found:
		c.at = position{From: c.Name}
		if c.at.Store, err = c.from.identity(ctx); err != nil {
			return err
		}
	case !c.from.moments(): // entries that the walk has passed may have changed, unreported
		c.restart()
	}
	if !c.from.moments() && c.heard == nil {
		if c.heard, err = c.from.listen(ctx); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	for {
		n, err := c.round(ctx, nil)
		if err != nil {
			return err
		}
		if n <= fewChanges {
			break
		}
	}
	if !c.from.moments() {
		return nil
	}
	for range mostQuiet {
		if _, err = c.round(ctx, c.compare); err != errMoved {
			return err
		}
	}
	return nil // without Compared: collections are renamed and deleted all the time
}

// Follow goes on as the source changes, until the second context is done. A source that does not
// even report changed keys is walked through again only at the end.
func (c *Copy) Follow(ctx, until context.Context) error {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(until, cancel)()
	for {
		err := c.wait(waiting)
		if errors.Is(err, errors.ErrUnsupported) {
			<-waiting.Done()
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case waiting.Err() != nil:
			return nil
		case err != nil && !isLost(err):
			return err
		}
		if _, err := c.round(ctx, nil); err != nil {
			return err
		}
	}
}

// wait returns when the source has changed.
func (c *Copy) wait(ctx context.Context) error {
	if c.heard != nil {
		return c.heard.Wait(ctx)
	}
	return c.from.wait(ctx, c.at.Seq)
}

// mostQuiet is the most rounds that find changes after the writers have stopped: expiries are
// changes, too.
const mostQuiet = 10

// ErrWritten: the source is still written to.
var ErrWritten = errors.New("the source is still written to")

// Finish is for a source without further writes. It copies the changes, compares all entries, and
// removes the position of the copy. When it returns nil, both are equal. The error is ErrWritten if
// changes go on.
func (c *Copy) Finish(ctx context.Context) error {
	for range mostQuiet {
		if _, err := c.round(ctx, c.compare); err == errMoved {
			continue
		} else if err != nil {
			return err
		}
		now, err := c.from.view(ctx)
		if err != nil {
			return err
		}
		quiet := now.seq() == c.at.Seq
		now.close()
		if quiet {
			return errors.Join(c.forget(ctx), c.to.sync(ctx))
		}
	}
	return ErrWritten
}

// round brings the destination to a view of the source, by a walk or by the feed, and returns the
// number of keys it handled. then is called with the view. A view of a store that another process
// writes to can be lost, when that compacts: then the next one goes on at the position.
func (c *Copy) round(ctx context.Context, then func(context.Context, view) error) (n int, err error) {
	for {
		n, err = c.attempt(ctx, then)
		c.drop() // of an attempt that has failed
		if !errors.Is(err, copal.ErrSnapshotLost) || ctx.Err() != nil {
			return n, err
		}
	}
}

func (c *Copy) attempt(ctx context.Context, then func(context.Context, view) error) (n int, err error) {
	if err := declareAll(ctx, c.from, c.to); err != nil {
		return 0, err
	}
	now, err := c.from.view(ctx)
	if err != nil {
		return 0, err
	}
	defer now.close()
	id, err := c.identify(ctx, now)
	if err != nil {
		return 0, err
	}
	switch {
	case !c.from.moments() && c.whole && then == nil:
		n, err = c.hear(ctx, now)
	case !c.at.Walked || !c.from.moments():
		n, err = c.walk(ctx, now)
	}
	if err == nil && now.seq() != c.at.Seq {
		n, err = c.follow(ctx, now)
	}
	if err == errUntold {
		c.restart()
		n, err = c.walk(ctx, now)
	}
	if err == nil {
		c.at.Store, c.other = id, ""
		err = c.note(ctx)
	}
	if err == nil && then != nil {
		err = then(ctx, now)
	}
	if err == nil {
		err = c.to.sync(ctx)
	}
	c.report.Seq = c.at.Seq
	return n, err
}

// walk goes through the rest of the keys. It returns how many entries differed, for a source
// without a feed.
func (c *Copy) walk(ctx context.Context, now view) (n int, err error) {
	c.Tell("copying")
	c.report.Walks++
	if c.at.Next == nil {
		c.at.Seq = now.seq()
	}
	old, err := c.to.view(ctx)
	if err != nil {
		return 0, err
	}
	defer old.close()
	if c.heard != nil {
		c.heard.Take() // the walk comes to them
	}
	before := c.report.Written + c.report.Deleted
	err = c.bring(ctx, now, old, c.at.Next, nil, func(next []byte) error {
		c.at.Next = next
		return c.flush(ctx)
	})
	if err != nil {
		return 0, err
	}
	c.at.Next, c.at.Walked, c.at.Differs, c.whole = nil, true, false, c.heard != nil
	return int(c.report.Written + c.report.Deleted - before), c.flush(ctx)
}

// hear makes the keys that were heard of, or all where some were missed.
func (c *Copy) hear(ctx context.Context, now view) (n int, err error) {
	keys, missed := c.heard.Take()
	if missed {
		c.restart()
		c.other = c.doubt()
		return c.walk(ctx, now)
	}
	c.Tell("catching up")
	c.report.Rounds++
	changed := newChanged()
	changed.keys = keys
	if err := c.make(ctx, now, changed); err != nil {
		c.whole = false // they are still to be made
		return 0, err
	}
	return len(keys), nil
}

// errUntold: the feed no longer has the changes after the position.
var errUntold = errors.New("the feed does not reach back to the position")

// follow makes the changes after the position, up to the view.
func (c *Copy) follow(ctx context.Context, now view) (n int, err error) {
	c.Tell("catching up")
	c.report.Rounds++
	changed := newChanged()
	for change, err := range c.from.changes(ctx, c.at.Seq, now.seq()) {
		if isLost(err) {
			return n, errUntold
		}
		if err != nil {
			return n, err
		}
		changed.add(&change)
		if len(changed.keys) < 1<<16 {
			continue
		}
		n += len(changed.keys)
		if err := c.make(ctx, now, changed); err != nil {
			return n, err
		}
		changed = newChanged()
	}
	n += len(changed.keys) + len(changed.ranges)
	if err := c.make(ctx, now, changed); err != nil {
		return n, err
	}
	c.at.Seq = now.seq()
	return n, nil
}

// make brings changed entries to their state in the view.
func (c *Copy) make(ctx context.Context, now view, changed *changed) error {
	old, err := c.to.view(ctx)
	if err != nil {
		return err
	}
	defer old.close()
	for _, span := range changed.spans() {
		if err := c.bring(ctx, now, old, span[0], span[1], nil); err != nil {
			return err
		}
	}
	for keys := range slices.Chunk(slices.Collect(maps.Keys(changed.keys)), sideBySide) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.bringKeys(ctx, now, old, keys); err != nil {
			return err
		}
	}
	return c.flush(ctx)
}

// sideBySide is the number of keys that are compared at once. Their values are in memory then,
// those of a server in full.
const sideBySide = 16

// bringKeys is bring for some keys, which are looked at side by side: a server takes some time to answer.
func (c *Copy) bringKeys(ctx context.Context, now, old view, keys []string) error {
	found, errs := make([]*pair, len(keys)), make([]error, len(keys))
	var wait sync.WaitGroup
	for i, key := range keys {
		wait.Go(func() {
			for p, err := range paired(now, old, []byte(key), append([]byte(key), 0)) {
				same := false
				if err == nil {
					same, _, err = alike(now, old, &p, c.typed)
				}
				if errs[i] = err; err == nil && !same {
					found[i] = &p
				}
			}
		})
	}
	wait.Wait()
	for i, key := range keys {
		err := errs[i]
		if err == nil && found[i] != nil {
			err = c.write(ctx, now, found[i])
		}
		if err != nil {
			return fmt.Errorf("key %q: %w", key, err)
		}
	}
	return nil
}

// savedEvery is the number of entries between two notes of a walk's position. It is a variable for
// tests.
var savedEvery = 4096

// bring brings the entries with keys in [from, to) to their state in the view of the source; old is
// a view of the destination. Now and then it calls save with the key before which everything is
// done or in the batch.
func (c *Copy) bring(ctx context.Context, now, old view, from, to []byte, save func(next []byte) error) error {
	n, total := int64(0), int64(0)
	if save != nil {
		total = now.total()
	}
	for p, err := range paired(now, old, from, to) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if n++; save != nil && n%int64(savedEvery) == 0 {
			c.Show(n, total)
			if err := save(keyOf(&p)); err != nil {
				return err
			}
		}
		same, _, err := alike(now, old, &p, c.typed)
		if err == nil && !same {
			err = c.write(ctx, now, &p)
		}
		if err != nil {
			return fmt.Errorf("key %q: %w", keyOf(&p), err)
		}
	}
	return nil
}

// alike reports whether both have an entry alike, and its checksum in the source.
func alike(now, old view, p *pair, typed bool) (same bool, sum Sum, err error) {
	if p.A == nil {
		return false, sum, nil
	}
	if sum, err = sumOf(now, p.A, typed); err != nil || p.B == nil || p.A.Collection != p.B.Collection {
		return false, sum, err
	}
	other, err := sumOf(old, p.B, typed)
	return sum == other, sum, err
}

// ErrOwn: the destination has an entry that no copy has written.
var ErrOwn = errors.New("only the destination has the entry, and no copy has written it")

// write has the destination take an entry as the source has it.
func (c *Copy) write(ctx context.Context, now view, p *pair) error {
	switch {
	case p.A == nil && c.at.Differs && !c.Replace:
		return ErrOwn
	case p.A == nil && c.other != "" && !c.Delete:
		return &OtherError{c.other}
	case p.A == nil:
		c.report.Deleted++
		c.deletes = true
		return c.add(ctx, &admin.Entry{Key: p.B.Key, Deleted: true})
	case p.A.Collection != "":
		c.report.Written++
		if err := c.flush(ctx); err != nil {
			return err
		}
		return c.to.putCollection(ctx, p.A, c.ofOneForm(p.A, now.elements(p.A)))
	case p.A.Large > 0:
		c.report.Written++
		if err := c.flush(ctx); err != nil {
			return err
		}
		value, err := now.open(p.A)
		if err != nil {
			return err
		}
		defer value.Close()
		return c.to.putLarge(ctx, p.A, value)
	}
	if err := c.fitsForm(p.A.Key, p.A.Codec, p.A.Schema); err != nil {
		return err
	}
	c.report.Written++
	return c.add(ctx, p.A)
}

func (c *Copy) add(ctx context.Context, e *admin.Entry) error {
	c.batch = append(c.batch, e)
	if c.bytes += len(e.Key) + len(e.Value); c.bytes < pieceBytes && len(c.batch) < pieceItems {
		return nil
	}
	return c.flush(ctx)
}

// flush writes the batch, and the position with it.
func (c *Copy) flush(ctx context.Context) (err error) {
	if c.deletes && !c.from.moments() { // the source may have become another one since the round began
		err = c.same(ctx)
	}
	if err == nil {
		err = c.note(ctx, c.batch...)
	}
	c.drop()
	return err
}

func (c *Copy) drop() {
	clear(c.batch)
	c.batch, c.bytes, c.deletes = c.batch[:0], 0, false
}

// compare compares all entries of a view of the source with those of the destination, by their checksums. An entry
// whose deadline has passed meanwhile may be gone from one of them.
func (c *Copy) compare(ctx context.Context, now view) error {
	c.Tell("comparing")
	old, err := c.to.view(ctx)
	if err != nil {
		return err
	}
	defer old.close()
	var differ [][]byte
	var all Sum
	n, contents, total := int64(0), int64(0), now.total()
	for p, err := range paired(now, old, nil, nil) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if p.A != nil {
			n++
			if err := c.fitsForm(p.A.Key, p.A.Codec, p.A.Schema); err != nil {
				return fmt.Errorf("key %q: %w", p.A.Key, err)
			}
			if p.A.Content != "" && !c.typed {
				contents++
			}
		}
		if n%1024 == 0 {
			c.Show(n, total)
		}
		same, sum, err := alike(now, old, &p, c.typed)
		if err != nil {
			return fmt.Errorf("key %q: %w", keyOf(&p), err)
		}
		all.add(sum)
		if same || expired(&p) || len(differ) >= mostKept {
			continue
		}
		if same, err = c.alikeAgain(ctx, now, keyOf(&p)); err != nil {
			return fmt.Errorf("key %q: %w", keyOf(&p), err)
		}
		if !same {
			differ = append(differ, bytes.Clone(keyOf(&p)))
		}
	}
	found := len(differ)
	if differ, err = c.untouched(ctx, now.seq(), differ); err != nil {
		return err
	}
	c.report.Entries, c.report.Sum, c.report.Contents, c.report.Compared = n, all, contents, len(differ) == found
	if len(differ) == 0 && found > 0 {
		return errMoved
	}
	if len(differ) == 0 {
		return nil
	}
	c.at = position{From: c.Name, Store: c.at.Store, Differs: true} // the next run walks through all again, and mends it
	errs := []error{c.note(ctx)}
	for _, key := range differ[:min(len(differ), mostTold)] {
		errs = append(errs, &DifferentError{Key: key})
	}
	return errors.Join(errs...)
}

// errMoved: all differences are of keys that were changed after the view; the next round copies
// them, and compares again.
var errMoved = errors.New("what was compared has changed since")

// Of the keys that differ, mostKept are compared again, and mostTold are reported.
const (
	mostKept = 1000
	mostTold = 10
)

// untouched returns those of the keys without a change in the feed after a sequence number. The
// feed has no elements of a collection that was renamed or deleted before it came to them, so a key
// may differ that the next round copies.
func (c *Copy) untouched(ctx context.Context, seq uint64, keys [][]byte) ([][]byte, error) {
	if len(keys) == 0 || !c.from.moments() {
		return keys, nil
	}
	later, err := c.from.view(ctx)
	if err != nil {
		return nil, err
	}
	defer later.close()
	for change, err := range c.from.changes(ctx, seq, later.seq()) {
		if isLost(err) {
			return nil, nil // the next round walks through all
		}
		if err != nil {
			return nil, err
		}
		keys = slices.DeleteFunc(keys, func(key []byte) bool { return change.isOf(key) })
	}
	return keys, nil
}

// isOf reports whether a change may be one of the key.
func (c *change) isOf(key []byte) bool {
	if !c.isRange {
		return bytes.Equal(key, c.key) || c.from != nil && bytes.Equal(key, c.from)
	}
	span := spanOf(c.key, c.to)
	return string(key) >= span[0] && (span[1] == "" || string(key) < span[1])
}

// alikeAgain looks a key up again: a deadline may have come between the looks at an entry, and at its elements.
func (c *Copy) alikeAgain(ctx context.Context, now view, key []byte) (bool, error) {
	old, err := c.to.view(ctx)
	if err != nil {
		return false, err
	}
	defer old.close()
	for p, err := range paired(now, old, key, append(bytes.Clone(key), 0)) {
		if err != nil {
			return false, err
		}
		same, _, err := alike(now, old, &p, c.typed)
		return same || expired(&p), err
	}
	return true, nil // neither has it any more
}

// skew is the greatest difference of two clocks, so that a server has entries go before their
// deadlines here.
const skew = time.Second

// expired reports whether the deadline of an entry has come, so that it may have gone from either side. Where the
// source has it for longer, the destination has lost it.
func expired(p *pair) bool {
	e := p.A
	if e == nil {
		e = p.B
	}
	return !e.Expires.IsZero() && time.Until(e.Expires) < skew
}

// DifferentError: an entry of the destination differs from the copied one, because another program
// writes there, or a disk is damaged. A copy that begins again mends it.
type DifferentError struct{ Key []byte }

func (e *DifferentError) Error() string {
	return fmt.Sprintf("the destination has another entry under key %q than the source", e.Key)
}

// changed are keys and ranges that have changed.
type changed struct {
	keys   map[string]struct{}
	ranges map[[2]string]struct{} // an empty end is none
}

func newChanged() *changed {
	return &changed{map[string]struct{}{}, map[[2]string]struct{}{}}
}

// add adds the keys of a change.
func (s *changed) add(c *change) {
	if c.isRange {
		s.ranges[spanOf(c.key, c.to)] = struct{}{}
		return
	}
	s.keys[string(c.key)] = struct{}{}
	if c.from != nil {
		s.keys[string(c.from)] = struct{}{}
	}
}

// spanOf is a range of keys, in the order of their bytes, that has all of a range that was deleted. Keys of a map may
// have an order of their own: then it is the whole map. Ranges that go beyond a map are of bytes.
func spanOf(from, to []byte) [2]string {
	i := bytes.IndexByte(from, ':')
	if i < 0 {
		return [2]string{string(from), string(to)}
	}
	prefix := from[:i+1]
	end := after(prefix)
	switch {
	case to == nil:
		return [2]string{string(prefix), ""}
	case bytes.HasPrefix(to, prefix) || bytes.Equal(to, end):
		return [2]string{string(prefix), string(end)}
	}
	return [2]string{string(from), string(to)}
}

// after returns the first key after all that begin with a prefix, nil if there is none.
func after(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			return append(bytes.Clone(prefix[:i]), prefix[i]+1)
		}
	}
	return nil
}

// spans are the ranges to look at.
func (s *changed) spans() (list [][2][]byte) {
	for r := range s.ranges {
		span := [2][]byte{[]byte(r[0]), []byte(r[1])}
		if r[1] == "" {
			span[1] = nil
		}
		list = append(list, span)
	}
	return list
}
