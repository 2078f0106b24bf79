package hybridlog

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/copaldb/copal/internal/vfs"
)

// Recovery finds out what the log holds:
//
//  1. Read the manifest and the mark. Without a manifest the log is new, unless a segment holds something. The manifest must not be older
//     than the mark, the newest segment, or the ring; and the ring must be the one that it names.
//  2. Sealed segments must have their length, and frames of their own. They are not read. If the log was closed, that is all.
//  3. Else note how far the cache holds the log. Then sync the ring and the open segments, drop them
//     from the cache, and read them from the device. So what is found is what is durable, also when an earlier
//     process ended with a sync that failed. (Not when the log is opened read-only.)
//  4. Go through the frames of the open segments, from the mark on, or from where the log is trimmed. A frame counts if its check is right, and the bytes up to
//     its end have its sum: in the files, or else in the ring. What is in the ring alone is kept in memory until the
//     first write puts it into the files. The log ends with the last entry before the first frame that does not count.
//  5. If anything is there that comes behind that end, it is damage, and the log does not open, when the page cache has been there without
//     a break since it was written, and held no more than the disk. What comes behind is any other frame in the file, the frame of a later entry in the
//     ring, and a next segment that says that it begins elsewhere. In another life of the cache it is a torn tail.
//  6. The log must reach the mark, or it is damage.
//
// It writes in one case: when step 3 finds that a sync had failed, or its own fails, it notes in the mark that the cache is not to be
// trusted, or the next opening, which sees the disk alone, would call the loss damage.
//
// An error of a read is never taken for the end of the log: it ends the recovery.

// readTries is how often a read-only opening begins anew because the writer has replaced what it was reading.
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
	if l.cacheID = l.opts.fsys.CacheID(l.dir); strings.ContainsAny(l.cacheID, " \n") {
		l.cacheID = "" // it is to be a word
	}
	m, original, err := readManifest(l.opts.fsys, l.dir)
	if err != nil {
		return err
	}
	if m == nil {
		return l.recoverNew()
	}
	l.manifest, l.logID = m, m.log
	l.edit.Store(m.edit)
	r := &recovery{log: l, recovered: &recovered{}}
	if r.mark, r.slot, err = marks(l.opts.fsys, l.dir, m.log); err != nil {
		return err
	}
	if m := r.mark; m != nil && m.manifest > l.manifest.edit {
		return corrupt(filepath.Join(l.dir, manifestName), 0, fmt.Sprintf("it is older than SYNCED: its number is %x, and SYNCED knows number %x", l.manifest.edit, m.manifest))
	}
	r.sameCache = original && m.running && m.cache != "" && m.cache == l.cacheID && (r.mark == nil || r.mark.cache != "")
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
	if !r.patched() {
		l.durable.Store(int64(r.at))
	}
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
		if !segment && name != ringName {
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

// holds reports whether a file is more than what a process leaves that dies before a manifest knows of it.
func (l *Log) holds(name string) (bool, error) {
	n, err := sizeOf(l.opts.fsys, filepath.Join(l.dir, name))
	if errors.Is(err, fs.ErrNotExist) { // a writer has removed it
		return false, nil
	}
	switch {
	case name == ringName:
		return true, wrap(err)
	case strings.HasSuffix(name, ".sum"):
		return n > lineBytes, wrap(err)
	}
	return n > 0, wrap(err)
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
	image    *ringImage // what is in the ring, or nil
	list     []*segment
	unsealed *segment // the first of the open ones: the manifest says where it begins
	before   *segment // the one that ends there, of the open ones
	at       Address  // where the next segment begins
	torn     bool     // the log ends here, whatever the next segments hold

	sameCache bool    // the page cache has been there without a break since the log was written, and no sync has failed
	cached    Address // up to where it had the log
}

// patched reports whether something was found in the ring alone.
func (r *recovery) patched() bool {
	return slices.ContainsFunc(r.list, func(s *segment) bool { return s.patch.Load() != nil })
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
	case m.ring == 0 && image != nil && image.id != m.spent && !image.blank():
		return corrupt(filepath.Join(l.dir, manifestName), 0, "it does not know the ring in RING, which holds something: it is older than that")
	case m.ring == 0:
		return nil
	case image == nil:
		return corrupt(path, 0, fmt.Sprintf("the file is missing: a process was writing to ring %016x, says MANIFEST, unless that is older than the end of it", m.ring))
	case image.id != m.ring:
		return corrupt(path, 0, fmt.Sprintf("it is ring %016x, and MANIFEST names %016x: one of the two files is older than the other", image.id, m.ring))
	case r.sameCache && !image.original:
		return corrupt(path, 0, "it is a copy of the ring that was written to, and may be older")
	}
	r.image = image
	return nil
}

// refresh drops from the cache what the disk does not have. A sync that fails is told once: the next opening must know of it.
func (r *recovery) refresh(path string) error {
	f, err := r.log.opts.fsys.Open(path, vfs.ReadWrite)
	if err != nil {
		return missing(path, err)
	}
	if err = f.Sync(); err != nil {
		err = errors.Join(err, r.distrustCache())
	} else {
		err = f.Evict()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("hybridlog: syncing what an earlier process left behind: %w", err)
	}
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
	if n < s.end.Load() {
		return corrupt(s.path(), n, fmt.Sprintf("the file ends here, its length was %x", s.end.Load()))
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
	if want := headerBytes + s.slots.Load()*frameBytes; n < want {
		return corrupt(s.sumsPath(), n, fmt.Sprintf("the file ends here, its length was %x", want))
	}
	return nil
}

func (r *recovery) openSegments(open []*segment) error {
	if !r.log.opts.readOnly {
		if err := r.settle(open); err != nil {
			return err
		}
	}
	for _, s := range open {
		if err := r.scan(s); err != nil {
			return err
		}
		s.ended.Store(true)
		r.list = append(r.list, s)
	}
	r.open = open
	if r.at < r.cached {
		if err := r.distrustCache(); err != nil {
			return err
		}
	}
	return r.reached()
}

// settle notes how far the cache holds the log, and then makes the disk and the cache say the same.
func (r *recovery) settle(open []*segment) error {
	start := r.at
	for _, s := range open {
		if err := r.scan(s); err != nil {
			if !errors.Is(err, ErrCorrupt) {
				return err
			}
			r.at = start // the cache says nothing
			break
		}
	}
	r.cached, r.at, r.torn = r.at, start, false
	var paths []string
	for _, s := range open {
		paths = append(paths, s.path(), s.sumsPath())
	}
	if r.image != nil {
		paths = append(paths, r.image.path)
	}
	for _, path := range paths {
		if err := r.refresh(path); err != nil {
			return err
		}
	}
	if r.image == nil {
		return nil
	}
	return r.readRing()
}

// distrustCache notes in the mark that a sync had failed: what the cache will have from now on proves nothing about the disk of then.
func (r *recovery) distrustCache() error {
	if r.mark == nil {
		return nil
	}
	w, err := openMarker(r.log.opts.fsys, r.log.dir, r.mark, r.slot)
	if err != nil {
		return wrap(err)
	}
	m := *r.mark
	m.cache = ""
	err = errors.Join(w.write(&m), w.file.Close())
	r.mark, r.slot = &m, w.slot
	return wrap(err)
}

// checkClosed finds out whether the segment with which a closed log ends is no longer than it was then.
func (s *segment) checkClosed() error {
	for path, want := range map[string]int64{s.path(): s.end.Load(), s.sumsPath(): headerBytes + s.slots.Load()*frameBytes} {
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

// reached finds out whether the log reaches the mark.
func (r *recovery) reached() error {
	for _, s := range r.list {
		if r.mark != nil && s.id == r.mark.id && s.end.Load() < r.mark.end {
			return s.corrupt(s.end.Load(), fmt.Sprintf("the log ends here, and was synced up to %x", r.mark.end))
		}
	}
	return nil
}

// orphaned finds the files that no manifest names. A crash leaves those of a segment that was to be added, which hold nothing,
// and of segments that compaction has replaced or was making, or that were trimmed. What is newer than the newest that the manifest
// names, and holds something, tells that another manifest was there.
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
		id, ok := parseName(name)
		if !ok || live[name] {
			continue
		}
		if id.Order() > newest {
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
