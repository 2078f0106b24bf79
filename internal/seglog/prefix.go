package seglog

import (
	"path/filepath"
	"slices"
)

// A prefix is the log up to one point, for a copy: the segments stay until release, and later
// records do not belong to it.
type Prefix struct {
	Seq      uint64       // of the last record in it; a reader may have reached segments that its manifest does not name yet
	Manifest *Manifest    // of a log with nothing else: all its segments are sealed, and none is empty
	Files    []PrefixFile // of the segments, in the same order
	pins     Pinned
}

// PrefixFile is a segment, or the beginning of one.
type PrefixFile struct {
	ManifestSegment
	Path   string
	ReadAt func(p []byte, off int64) (int, error) // nil if the file has all, and never changes
}

// Prefix returns the log up to its end at some time during the call. The caller is inside the gate. If another
// process writes, beside is true, and the file of a segment may be gone by the time it is opened.
func (l *Log) Prefix(beside bool) *Prefix {
	for {
		l.manifestMu.Lock()
		p := &Prefix{Manifest: l.Manifest.Clone(), pins: l.PinAll()}
		l.manifestMu.Unlock()
		ManifestTaken()
		if l.endPrefix(p, beside) {
			return p
		}
		p.Release() // the log went on to a segment that the manifest did not name yet
	}
}

// ManifestTaken is called when a prefix has the manifest, and not yet its end. It is a variable for tests.
var ManifestTaken = func() {}

// endPrefix makes the prefix end at the present end of the log. It reports false when its manifest does not name
// the tail.
func (l *Log) endPrefix(p *Prefix, beside bool) bool {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	named := p.Manifest.Segments
	if l.Tail != nil && !slices.ContainsFunc(named, func(e ManifestSegment) bool { return e.ID == l.Tail.ID }) {
		return false
	}
	p.Seq = p.Manifest.Floor
	p.pins = append(p.pins, l.PinAll()...) // segments in the manifest may be in the list only now
	p.Manifest.Segments, p.Manifest.Indexes, p.Manifest.Writing = nil, nil, nil
	set := l.set.Load()
	for _, e := range named {
		f := PrefixFile{e, filepath.Join(l.Dir, e.ID.FileName()), nil}
		if seg := set.byID[e.ID]; !e.Sealed && seg != nil {
			f.ManifestSegment = seg.manifestEntry(true)
			if beside || seg.State() < Durable || seg.overlay.Load() != nil || seg == l.continued {
				f.ReadAt = seg.readAt
			}
		}
		if f.Sealed && f.Records > 0 {
			p.Manifest.Segments = append(p.Manifest.Segments, f.ManifestSegment)
			p.Files = append(p.Files, f)
			p.Seq = max(p.Seq, f.Last)
		}
	}
	return true
}

// Release releases the segments.
func (p *Prefix) Release() { p.pins.Unpin() }
