package store

import (
	"path/filepath"
	"slices"

	"github.com/copaldb/copal/internal/seglog"
)

// A prefix is the log up to one point, as a copy of it is made: the segments stay until release, and what
// is appended meanwhile is not of it.
type prefix struct {
	seq      uint64           // of the last record
	manifest *seglog.Manifest // of a log that has nothing else: it calls all segments sealed, and none empty
	files    []prefixFile     // those of the segments, in the same order
	pins     pinned
}

// prefixFile is a segment, or the beginning of one.
type prefixFile struct {
	seglog.ManifestSegment
	path   string
	readAt func(p []byte, off int64) (int, error) // nil where the file has all, and never changes
}

// prefix is the log up to its end at some time during the call. The caller is inside the gate. Where
// another process writes, beside is true, and the file of a segment may be gone by the time it is opened.
func (l *log) prefix(beside bool) *prefix {
	for {
		l.manifestMu.Lock()
		p := &prefix{manifest: l.manifest.Clone(), pins: l.pinAll()}
		l.manifestMu.Unlock()
		manifestTaken()
		if l.endPrefix(p, beside) {
			return p
		}
		p.release() // the log went on to a segment that the manifest did not name yet
	}
}

// manifestTaken is called when a prefix has the manifest, and not yet its end. It is a variable for the sake
// of tests.
var manifestTaken = func() {}

// endPrefix makes the prefix end where the log ends now. It reports false when its manifest does not name the tail.
func (l *log) endPrefix(p *prefix, beside bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	named := p.manifest.Segments
	if l.tail != nil && !slices.ContainsFunc(named, func(e seglog.ManifestSegment) bool { return e.ID == l.tail.id }) {
		return false
	}
	p.seq = l.nextSeq - 1
	p.pins = append(p.pins, l.pinAll()...) // what the manifest named already may be in the list only now
	p.manifest.Segments, p.manifest.Writing = nil, nil
	set := l.set.Load()
	for _, e := range named {
		f := prefixFile{e, filepath.Join(l.dir, e.ID.FileName()), nil}
		if seg := set.byID[e.ID]; !e.Sealed && seg != nil {
			f.ManifestSegment = seg.manifestEntry(true)
			if beside || !seg.ended || !seg.synced.Load() || seg.overlay.Load() != nil || seg == l.continued {
				f.readAt = seg.readAt
			}
		}
		if f.Sealed && f.Records > 0 {
			p.manifest.Segments = append(p.manifest.Segments, f.ManifestSegment)
			p.files = append(p.files, f)
		}
	}
	return true
}

// release lets the segments go.
func (p *prefix) release() { p.pins.unpin() }
