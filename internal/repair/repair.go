package repair

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// Repair makes a new store of every intact record of a damaged one, which it only reads.
//
//  1. Survey: find the segments of the log, and the possible sources of each. The first line of a
//     file says which segment it is. Where that line is lost, the manifest and the file's name say
//     it, or at last the salt that makes records of the bytes. Without a manifest the log is all
//     segments; of those that compaction rewrote, the newest.
//  2. Salvage each segment, oldest first (salvage.go). Records that none of its sources has are reported.
//  3. Write the records to the new store, in their order and with their numbers (rebuild.go): the list of a
//     large value with the new places of its parts, and a commit if its members count.
//
// Not taken, and reported, are a large value that lacks a part, and the members of a group whose commit or other
// members are lost (groups.go). A value whose schema is lost is kept as raw bytes.
//
// Derived files do not count here, and the mark only for the end of the log that it knows.

// Report is the result of Repair.
type Report struct {
	Intact  int64       // the records that Check counts, and those to which damage has left nothing that leads
	Saved   int64       // of the intact ones, those that count in the new store
	Bytes   int64       // of the source that were read
	Lost    []Loss      // bytes of it that hold no intact record, in the order of the log
	Passed  []Loss      // intact records of old files that compacted segments replace and do not reach, without a manifest
	Values  []LostValue // large values that were lost with their parts
	Grouped int64       // intact records that do not count there since the commit of their group, or another member of it, is lost
	Raw     int64       // values that are raw bytes now, since their schema is lost
}

// Loss is a part of a file that holds no intact record where there was one, or should be.
type Loss struct {
	File   string
	Offset int64
	Bytes  int64 // 0 when it is not known how many
	Reason string
	Torn   bool // it may be only a rest that a crash left after the last record
}

// LostValue is a large value of which at least one part is lost.
type LostValue struct {
	Key    []byte
	Space  uint64
	Seq    uint64
	Bytes  int64  // length of the value
	Reason string // which part, and why
}

// Options are the seams and settings of Repair. The zero value of each field means its default.
type Options struct {
	FS           vfs.FS
	Random       func() uint64
	SegmentBytes int64
	Progress     func(done, total int64) // bytes of the source
	DryRun       bool                    // only report: into is not looked at
}

// Repair salvages the store in dir into a new one, in a directory that is empty or missing. On an
// error nothing is left there. No process may have the store in dir open for writing.
func Repair(ctx context.Context, dir, into string, opts Options) (Report, error) {
	return repairTo(ctx, dir, into, opts, nil)
}

// placing gives a new store that is durable, but unfinished, another place. Begun says that there is no way back.
type placing func(made *seglog.Making, release func()) (begun bool, err error)

func repairTo(ctx context.Context, dir, into string, opts Options, place placing) (Report, error) {
	if opts.FS == nil {
		opts.FS = vfs.OS()
	}
	if opts.Random == nil {
		opts.Random = rand.Uint64
	}
	if opts.SegmentBytes <= 0 {
		opts.SegmentBytes = seglog.DefaultSegmentBytes
	}
	r := &repair{ctx: ctx, dir: dir, fsys: opts.FS, progress: opts.Progress, schemas: map[string]bool{}, parts: map[string]movedPart{}, groups: map[uint64]*Report{}}
	if !opts.DryRun && seglog.Within(into, dir) {
		return r.report, seglog.Known(fs.ErrExist, "%s is or lies within the store that is to be repaired, which is not changed", into)
	}
	lock, err := lockSource(opts.FS, dir)
	if err != nil {
		return r.report, err
	}
	defer lock.Close()
	defer r.close()
	if err := r.survey(); err != nil {
		return r.report, err
	}
	if opts.DryRun {
		r.out = newDryRebuilder(opts.SegmentBytes)
	} else if r.out, err = newRebuilder(opts.FS, into, dir, opts.Random, opts.SegmentBytes); err != nil {
		return r.report, err
	}
	r.out.manifest.Created = r.created
	if err = r.salvage(); err == nil {
		err = r.out.finish()
	}
	if err == nil && place != nil {
		var begun bool
		if begun, err = place(r.out.made, func() { r.close(); lock.Close() }); begun {
			return r.report, err
		}
	} else if err == nil {
		err = r.out.end()
	}
	if err != nil {
		r.out.abandon()
	}
	return r.report, err
}

// lockSource keeps others from writing to a store that is repaired. If the directory cannot be
// written to, no lock is needed.
func lockSource(fsys vfs.FS, dir string) (io.Closer, error) {
	names, err := fsys.List(dir)
	if err != nil || !slices.Contains(names, seglog.LockName) {
		return io.NopCloser(nil), nil // an error of the directory shows later
	}
	lock, err := fsys.Lock(filepath.Join(dir, seglog.LockName))
	var held *vfs.LockedError
	switch {
	case errors.As(err, &held):
		return nil, fmt.Errorf("%w: %w", seglog.ErrLocked, held)
	case err != nil:
		return io.NopCloser(nil), nil
	}
	return lock, nil
}

type repair struct {
	ctx      context.Context
	dir      string
	fsys     vfs.FS
	progress func(done, total int64)
	total    int64
	report   Report

	manifest *seglog.Manifest // nil when it is lost
	mark     *files.Mark
	store    uint64
	created  uint64
	ring     *seglog.RingReader
	files    []*logFile
	wrecks   []*wreck

	out     *rebuilder
	last    uint64               // sequence number of the record that was written last
	reach   uint64               // up to this one the fate of all is known
	whole   uint64               // from this one on compaction has left out nothing
	before  *wreck               // the segment that was taken last
	schemas map[string]bool      // that were written
	parts   map[string]movedPart // by their old places
	groups  map[uint64]*Report   // the reports of the members of groups whose commit has not come
	buf     []byte
	steps   int
}

// place is a fragment of a wreck.
type place struct {
	*wreck
	fragment
}

// movedPart is the new place of a part of a large value.
type movedPart struct {
	place        string
	owner, index uint64
	bytes        int
	key          string
}

func (r *repair) close() {
	for _, f := range r.files {
		f.file.Close()
	}
	if r.ring != nil && r.ring.File != nil {
		r.ring.File.Close()
	}
}

func (r *repair) lose(l Loss) { r.report.Lost = append(r.report.Lost, l) }

// noLimit is more than any sequence number.
const noLimit = ^uint64(0)

// salvage takes the rest of each segment.
func (r *repair) salvage() error {
	// If a crash left a hole, the next process began a new segment after it, and gave the numbers
	// beyond the hole again. Records beyond the hole do not count, even without a manifest.
	limit := make([]uint64, len(r.wrecks))
	next, follows := noLimit, uint64(0)
	if r.mark != nil {
		follows = r.mark.Seq + 1
	}
	for i, w := range slices.Backward(r.wrecks) {
		limit[i] = next
		if w.id.Generation() == 0 && (w.named == nil || !w.named.Sealed) && (r.mark == nil || r.mark.Segment > w.id || follows != r.mark.Seq+1) {
			w.next = follows
		}
		first, intact, err := w.first()
		if err != nil {
			return err
		}
		if first > 0 {
			next = min(next, first)
			if follows = first; !intact {
				follows = 0
			}
		}
	}
	for i, w := range r.wrecks {
		if err := r.segment(w, limit[i]); err != nil {
			return err
		}
	}
	for _, g := range r.groups {
		r.report.Grouped += g.Intact
	}
	return nil
}

// tick is called for every record.
func (r *repair) tick() error {
	if r.steps++; r.steps%4096 == 0 {
		if r.progress != nil {
			r.progress(min(r.report.Bytes, r.total), r.total)
		}
		return r.ctx.Err()
	}
	return nil
}

// segment takes the records of one segment that come before the sequence number limit.
func (r *repair) segment(w *wreck, limit uint64) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if err := w.read(func() {}); err != nil {
		return err
	}
	if w.start == 0 {
		w.start = r.out.time // no record of it is older
	}
	r.report.Intact += int64(len(w.fragments))
	r.holes(w)
	r.leftOutBefore(w)
	for _, f := range w.fragments {
		if err := r.take(place{w, f}, limit); err != nil {
			return err
		}
	}
	r.leftOutAfter(w)
	for _, s := range w.sources {
		if !s.ring {
			r.report.Bytes += s.end
		}
	}
	if r.progress != nil {
		r.progress(min(r.report.Bytes, r.total), r.total)
	}
	w.fragments, w.failures = nil, nil
	return nil
}

// holes reports the missing parts of a segment.
func (r *repair) holes(w *wreck) {
	if !slices.ContainsFunc(w.sources, func(s source) bool { return !s.ring }) {
		l := Loss{File: w.path, Reason: "the manifest names it, and it is missing"}
		if w.named != nil {
			l.Bytes = w.named.Bytes
		}
		r.lose(l)
		return
	}
	from, known, end := r.bounds(w)
	last := w.lastEnd()
	for _, h := range w.holes(from, known) {
		r.lose(Loss{File: w.path, Offset: h[0], Bytes: h[1] - h[0], Reason: w.reasonAt(h[0])})
	}
	for _, h := range w.holes(max(known, from), end) {
		r.lose(Loss{File: w.path, Offset: h[0], Bytes: h[1] - h[0], Reason: w.reasonAt(h[0]), Torn: true})
	}
	if known <= last && r.lastOf(w)+1 < w.next {
		r.lose(Loss{File: w.path, Offset: max(last, from), Reason: fmt.Sprintf("what follows, up to sequence number %d, is missing", w.next-1)})
	}
}

// bounds says where the records of a segment begin, up to where they are known to have reached, and where its
// file ends.
func (r *repair) bounds(w *wreck) (from, known, end int64) {
	for _, s := range w.sources {
		if !s.ring {
			from, end = max(from, s.head), max(end, s.end)
		}
	}
	if len(w.fragments) > 0 && from == 1 { // the first line is lost, and was reported
		from = w.fragments[0].at
	}
	known = w.lastEnd()
	if r.manifest != nil && r.manifest.Writing == nil { // it was closed, so nothing after the last record is torn
		known = max(known, end)
	}
	switch m := r.mark; {
	case w.named != nil && w.named.Sealed:
		known = w.named.Bytes
	case m != nil && m.Segment == w.id:
		known = max(known, m.Offset)
	case r.lastOf(w)+1 < w.next:
		known = max(known, end)
	}
	return from, known, max(known, end)
}

// lastOf is the sequence number of the last fragment.
func (r *repair) lastOf(w *wreck) uint64 {
	if n := len(w.fragments); n > 0 {
		if e, _, err := w.load(w.fragments[n-1], nil); err == nil {
			return e.Seq
		}
	}
	return 0
}

// take writes one record to the new store.
func (r *repair) take(p place, limit uint64) error {
	if err := r.tick(); err != nil {
		return err
	}
	e, buf, err := p.load(p.fragment, r.buf)
	r.buf = buf
	if err != nil {
		return err
	}
	switch {
	case e.Seq >= limit && p.id.Generation() == 0:
		r.lose(Loss{File: p.path, Offset: p.at, Bytes: p.bytes, Reason: "the log went on elsewhere before it", Torn: true})
		return nil
	case e.Seq <= r.last:
		r.lose(Loss{File: p.path, Offset: p.at, Bytes: p.bytes, Reason: fmt.Sprintf("sequence number %d behind %d", e.Seq, r.last)})
		return nil
	}
	r.leftOut(p.wreck, &e)
	switch {
	case e.Op == record.Commit:
		return r.commit(p, e)
	case e.Group != 0:
		return r.member(p, e)
	}
	return r.write(p, e, &r.report)
}

// write writes a record, and reports the outcome.
func (r *repair) write(p place, e seglog.Record, report *Report) error {
	value := e.Value
	switch {
	case e.Kind == record.Schema && e.Op == record.Set:
		r.schemas[string(e.Key)] = true
	case e.Schema != 0 && !r.schemas[record.Hex(e.Schema)]:
		e.Schema = 0
		if e.Op == record.Set {
			report.Raw++
		}
	}
	if e.Op == record.Set && e.Large != 0 {
		list, err := r.moved(e)
		if err != nil {
			report.Values = append(report.Values, LostValue{Key: bytes.Clone(e.Key), Space: e.Space, Seq: e.Seq, Bytes: int64(e.Large), Reason: err.Error()})
			return nil
		}
		value = list
	}
	id, offset, err := r.out.put(e.Head, e.Written, e.Key, value)
	if err != nil {
		return err
	}
	if e.Op == record.Part {
		r.parts[placeText(p.id, p.at)] = movedPart{placeText(id, offset), e.Owner, e.Index, len(e.Value), string(e.Key)}
	}
	r.last = e.Seq
	report.Saved++
	return nil
}

// placeText is how the list of a large value names a part.
func placeText(id record.SegmentID, offset int64) string {
	return id.String() + "." + strconv.FormatInt(offset, 16)
}

// moved is the list of a large value with the new places of its parts.
func (r *repair) moved(e seglog.Record) ([]byte, error) {
	words := strings.Split(string(e.Value), " ")
	size, err := record.ParseHex(words[0])
	if err != nil || size == 0 || (e.Large+size-1)/size != uint64(len(words)-1) {
		return nil, fmt.Errorf("its list of parts does not add up to %d bytes", e.Large)
	}
	list := []byte(words[0])
	owner, left := uint64(0), e.Large
	for i, word := range words[1:] {
		p, ok := r.parts[word]
		if i == 0 {
			owner = p.owner
		}
		want := min(size, left)
		if !ok || p.owner != owner || p.index != uint64(i) || uint64(p.bytes) != want || p.key != string(e.Key) {
			return nil, fmt.Errorf("its part %d, at %s, is lost", i, word)
		}
		left -= want
		list = append(append(list, ' '), p.place...)
	}
	return list, nil
}
