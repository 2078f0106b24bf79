package hybridlog

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/tail"
	"github.com/copaldb/copal/internal/vfs"
)

// Recovery finds the entries of the log:
//
//  1. Read the manifest and the mark. Without a manifest the log is new, unless a segment holds something. The
//     manifest must not be older than the mark, the newest segment, or the ring; and the ring must be the one
//     that it names.
//  2. Sealed segments must have their length, and frames of their own. They are not read. If the log was
//     closed, that is all.
//  3. Go through the frames of the open segments, from the mark on, from where an earlier process
//     closed the log, says the manifest, or from where it is trimmed. A frame counts if its check
//     is right, and the bytes up to its end have its sum: in the files, or else in the ring. Bytes
//     that are only in the ring are kept in memory until the first write puts them into the files.
//     The log ends with the last entry before the first frame that does not count.
//  4. Anything after that end is damage, and the log does not open, if the page cache has existed
//     without a break since it was written, and no sync is known to have failed. Such remains are
//     another frame in the file, the frame of a later entry in the ring, and a next segment with
//     another beginning. If the cache is a new one, they are a torn tail.
//  5. The log must reach the mark, or it is damage.
//
// It only reads. Entries that it has found may be only in the page cache: after the mark, nothing
// counts as durable before it was rewritten (redo.go).
//
// An error of a read is never taken for the end of the log: it ends the recovery.

// readTries is how often a read-only opening starts again because the writer has replaced the files
// it was reading.
const readTries = 20

func (l *Log) recover() error {
	var err error
	for range readTries {
		l.again = false
		err = l.recoverOnce()
		if !l.opts.readOnly || err == nil && !l.again || err != nil && !errors.Is(err, ErrCorrupt) {
			break
		}
	}
	return err
}

func (l *Log) recoverOnce() error {
	l.cacheID = l.opts.fsys.CacheID(l.dir)
	m, found, err := readManifest(l.opts.fsys, l.dir)
	if err != nil {
		return err
	}
	if m == nil {
		return l.recoverNew()
	}
	copied := m.running && vfs.Copied(m.file, found)
	if copied && !l.opts.acceptCopy {
		return copyError(l.dir)
	}
	l.manifest, l.logID = m, m.log
	r := &recovery{log: l, recovered: &recovered{accepted: copied && !l.opts.readOnly}}
	if r.mark, err = readMark(l.opts.fsys, l.dir, m.log); err != nil {
		return err
	}
	if m := r.mark; m != nil && m.Manifest > l.manifest.edit {
		return corrupt(filepath.Join(l.dir, manifestName), 0, fmt.Sprintf("it is older than SYNCED: its number is %x, and SYNCED knows number %x", l.manifest.edit, m.Manifest))
	}
	r.sameCache = found != "" && found == m.file && m.running && m.cache != "" && m.cache == l.cacheID && (r.mark == nil || !r.mark.Failed)
	if err := r.orphaned(m); err != nil {
		return err
	}
	if err := r.readRing(); err != nil {
		return err
	}
	if err := r.segments(m); err != nil {
		return err
	}
	if r.at < m.first {
		return corrupt(filepath.Join(l.dir, manifestName), 0, fmt.Sprintf("the log is trimmed up to %x, and ends at %x", int64(m.first), int64(r.at)))
	}
	l.set.Store(newSet(m.first, r.list))
	l.end.Store(int64(r.at))
	known := r.mark
	switch {
	case r.at == 0:
		// Nothing is noted before the first append, not even a failure: the name of SYNCED might
		// survive without the name of MANIFEST, which may not be durable yet.
		known = nil
	case known == nil: // nothing of the log is known to be durable
		known = &files.Mark{Log: m.log, Segment: m.segments[0].id}
	}
	l.tails.Found(uint64(r.durable()), known)
	l.recovered = r.recovered
	return nil
}

// recoverNew is recovery of a directory without a manifest.
func (l *Log) recoverNew() error {
	names, err := l.opts.fsys.List(l.dir)
	if err != nil {
		return wrap(err)
	}
	r := &recovered{}
	for _, name := range names {
		_, segment := parseName(name)
		if name == tail.RingTemp {
			r.orphans = append(r.orphans, name)
		}
		if !segment && name != ringName && name != markName {
			continue
		}
		if holds, err := l.holds(name); err != nil {
			return err
		} else if holds {
			return corrupt(filepath.Join(l.dir, manifestName), 0, "the file is missing, and "+name+" is that of a log")
		}
		if segment {
			r.orphans = append(r.orphans, name)
		}
	}
	l.noteHighest(names)
	l.set.Store(newSet(0, nil))
	l.recovered = r
	return nil
}

// holds reports whether a file has more than a process leaves that dies before a manifest names the
// file.
func (l *Log) holds(name string) (bool, error) {
	path := filepath.Join(l.dir, name)
	n, err := sizeOf(l.opts.fsys, path)
	if errors.Is(err, fs.ErrNotExist) { // a writer has removed it
		return false, nil
	}
	switch {
	case err != nil:
		return false, wrap(err)
	case name == ringName:
		return true, nil
	case strings.HasSuffix(name, ".sum") && n > lineBytes:
		return beginsIn(l.opts.fsys, path)
	case strings.HasSuffix(name, ".sum"):
		return false, nil
	}
	return n > 0, nil
}

// noteHighest learns from names which numbers segments have had.
func (l *Log) noteHighest(names []string) {
	for _, name := range names {
		if id, ok := parseName(name); ok {
			l.highest = max(l.highest, id.Order())
		}
	}
}

func sizeOf(fsys vfs.FS, path string) (int64, error) {
	f, err := fsys.Open(path, vfs.ReadOnly)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return f.Size()
}

// recovery is one look at a log.
type recovery struct {
	log *Log
	*recovered
	image    *ringImage // content of the ring, or nil
	list     []*segment
	unsealed *segment  // the first of the open ones: the manifest says where it begins
	before   *segment  // the one that ends there, of the open ones
	at       Address   // where the next segment begins
	torn     bool      // the log ends here, whatever the next segments hold
	skipped  trimPlace // of the segment that was scanned last: the part not read, since it is trimmed or before the mark
}

// durable returns the address up to which the found entries are known to be on the disk, in the
// files or in the ring.
func (r *recovery) durable() Address {
	if len(r.doubtful) == 0 {
		return r.at
	}
	d := r.doubtful[0]
	at := max(d.start+Address(d.known.end), r.log.manifest.first)
	for _, s := range r.doubtful {
		if r.mark != nil && r.mark.Segment == s.id {
			at = max(at, s.start+Address(r.mark.Offset))
		}
	}
	return at
}

// doubts reports whether some of a segment may be on the disk in part only. While there is a ring, the mark
// does not say that the files of its own segment are durable: that may be the ring.
func (r *recovery) doubts(s *segment) bool {
	m, end := r.mark, s.bytes.End.Load()
	switch {
	case end <= s.known.end:
		return false
	case m == nil || m.Segment < s.id || s.patch.Load() != nil:
		return true
	default:
		return m.Segment == s.id && (m.Offset < end || r.image != nil)
	}
}

// readRing reads the ring, which the manifest names, or which holds nothing that counts.
func (r *recovery) readRing() error {
	l, m := r.log, r.log.manifest
	path := filepath.Join(l.dir, ringName)
	image, err := readRing(l.opts.fsys, l.dir, m.log)
	if err != nil {
		return err
	}
	r.ring, r.image = image != nil, nil
	switch {
	case m.ring == 0 && image != nil && image.ID != m.spent && !image.blank():
		return corrupt(filepath.Join(l.dir, manifestName), 0, "it does not know the ring in RING, which holds something: it is older than that")
	case m.ring == 0:
		return nil
	case image == nil:
		return corrupt(path, 0, fmt.Sprintf("the file is missing: a process was writing to ring %016x, says MANIFEST, unless that is older than the end of it", m.ring))
	case image.ID != m.ring:
		return corrupt(path, 0, fmt.Sprintf("it is ring %016x, and MANIFEST names %016x: one of the two files is older than the other", image.ID, m.ring))
	case r.sameCache && image.Copied:
		return corrupt(path, 0, "it is a copy of the ring that was written to, and may be older")
	}
	r.image = image
	return nil
}

// segments finds the bounds of all segments.
func (r *recovery) segments(m *manifest) error {
	r.at = m.begin
	var open []*segment
	for i, line := range m.segments {
		s := r.log.segmentFor(line)
		if i == 0 {
			s.trimmed = m.trimmed
		}
		r.log.highest = max(r.log.highest, s.id.Order())
		if !line.sealed {
			open = append(open, s)
			continue
		}
		if err := s.checkFiles(); err != nil {
			return err
		}
		r.list, r.at = append(r.list, s), s.last()
	}
	if !m.running {
		r.tail = r.list[len(r.list)-1]
		r.tail.synced.Store(false) // it goes on
		return r.tail.checkClosed()
	}
	r.unsealed = open[0]
	return r.openSegments(open)
}

// checkFiles finds out whether the files of a segment with known bounds are its own, and as long as they must be.
func (s *segment) checkFiles() error {
	n, err := sizeOf(s.fsys, s.path())
	if err != nil {
		return missing(s.path(), err)
	}
	if n < s.bytes.End.Load() {
		return corrupt(s.path(), n, fmt.Sprintf("the file ends here, its length was %x", s.bytes.End.Load()))
	}
	f, err := s.fsys.Open(s.sumsPath(), vfs.ReadOnly)
	if err != nil {
		return missing(s.sumsPath(), err)
	}
	return errors.Join(s.checkSums(f), wrap(f.Close()))
}

func (s *segment) checkSums(f vfs.File) error {
	start, begun, err := s.readHeader(f)
	if err != nil {
		return err
	}
	if !begun || start != s.start {
		return corrupt(s.sumsPath(), lineBytes, fmt.Sprintf("it does not say that the segment begins at %x", int64(s.start)))
	}
	n, err := f.Size()
	if err != nil {
		return wrap(err)
	}
	if want := headerBytes + s.slots()*frameBytes; n < want {
		return corrupt(s.sumsPath(), n, fmt.Sprintf("the file ends here, its length was %x", want))
	}
	return nil
}

func (r *recovery) openSegments(open []*segment) error {
	for _, s := range open {
		if err := r.scan(s); err != nil {
			return err
		}
		s.ended.Store(true)
		r.list = append(r.list, s)
		if r.doubts(s) {
			r.doubtful = append(r.doubtful, doubt{s, r.skipped})
		}
	}
	r.open = open
	return r.reached()
}

// checkClosed finds out whether the segment with which a closed log ends is no longer than it was then.
func (s *segment) checkClosed() error {
	for path, want := range map[string]int64{s.path(): s.bytes.End.Load(), s.sumsPath(): headerBytes + s.slots()*frameBytes} {
		n, err := sizeOf(s.fsys, path)
		if err != nil {
			return missing(path, err)
		}
		if n > want {
			return corrupt(path, want, "the log was closed here, says MANIFEST, and the file goes on: MANIFEST is older")
		}
	}
	return nil
}

// begin gives a segment its place in the log.
func (s *segment) begin(start Address) { s.start, s.seal = start, newSeal(s.salt, start) }

// reached checks that the log reaches the mark and, if the page cache has survived, the last
// acknowledged write.
func (r *recovery) reached() error {
	for _, s := range r.list {
		if r.mark != nil && s.id == r.mark.Segment && s.bytes.End.Load() < r.mark.Offset {
			return s.corrupt(s.bytes.End.Load(), fmt.Sprintf("the log ends here, and was synced up to %x", r.mark.Offset))
		}
	}
	if r.image != nil && r.sameCache && r.image.Acked > uint64(r.at) {
		return corrupt(filepath.Join(r.log.dir, ringName), tail.RingLine, fmt.Sprintf("the log ends at %x, and all was acknowledged up to %x", int64(r.at), r.image.Acked))
	}
	return nil
}

// orphaned finds the files that no manifest names. A crash leaves empty files of a segment that was
// about to be added, and files of segments that compaction has replaced or was making, or that were
// trimmed. A file that is newer than the newest in the manifest, and not empty, shows that a newer
// manifest is missing.
func (r *recovery) orphaned(m *manifest) error {
	names, err := r.log.opts.fsys.List(r.log.dir)
	if err != nil {
		return wrap(err)
	}
	r.log.noteHighest(names)
	live := map[string]bool{}
	newest := uint32(0)
	for _, line := range m.segments {
		newest = max(newest, line.id.Order())
		live[line.id.FileName()], live[sumsName(line.id)] = true, true
	}
	for _, name := range names {
		if name == tail.RingTemp {
			r.orphans = append(r.orphans, name)
		}
		stem, copied := strings.CutSuffix(name, files.TempSuffix)
		id, ok := parseName(stem)
		if !ok || live[name] {
			continue
		}
		if id.Order() > newest && !copied {
			if holds, err := r.log.holds(name); err != nil {
				return err
			} else if holds {
				return corrupt(filepath.Join(r.log.dir, manifestName), 0, "it does not name "+name+", which holds something: it is older than that")
			}
		}
		r.orphans = append(r.orphans, name)
	}
	return nil
}
