package repair

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/tail"
	"github.com/copaldb/copal/internal/vfs"
)

// The survey of a damaged store: the segments that its log had, and the files that may be the rest
// of each. The manifest, the first line of a file and its name all say so, and each of them may be
// lost or wrong.

// logFile is a file with the name of a segment.
type logFile struct {
	name   string
	file   vfs.File
	size   int64
	head   int64 // 0 when its first line is damaged
	header record.SegmentHeader
	reason error // of that
	taken  bool
}

// survey finds the segments of the log.
func (r *repair) survey() error {
	names, err := r.fsys.List(r.dir)
	if err != nil {
		return fmt.Errorf("copal: %w", err)
	}
	// A damaged note does not name the work. Repair would make a partial store of an unfinished
	// restore.
	if err := seglog.NoUnfinished(r.fsys, r.dir, names); err != nil {
		return err
	}
	if !seglog.IsStore(names) && !slices.Contains(names, seglog.ManifestName) {
		return seglog.NoStore(r.dir)
	}
	if err := r.readManifest(); err != nil {
		return err
	}
	if err := r.openFiles(names); err != nil {
		return err
	}
	r.identify()
	if r.mark, err = seglog.ReadMark(r.fsys, r.dir, r.store); err != nil {
		r.mark = nil
	}
	if err := r.openRing(); err != nil {
		return err
	}
	if r.manifest != nil {
		r.surveyNamed()
	} else {
		return r.surveyUnnamed()
	}
	return nil
}

func (r *repair) readManifest() error {
	path := filepath.Join(r.dir, seglog.ManifestName)
	m, err := seglog.ReadManifest(patientFS{r.fsys}, r.dir)
	var corrupt *seglog.CorruptError
	switch {
	case errors.As(err, &corrupt):
		r.lose(Loss{File: path, Reason: corrupt.Reason})
	case errors.Is(err, seglog.ErrVersion):
		return err
	case err != nil:
		r.lose(Loss{File: path, Reason: err.Error()})
	case m == nil:
		r.lose(Loss{File: path, Reason: "it is missing"})
	}
	if m != nil && m.Copied() {
		r.lose(Loss{File: path, Reason: "the store is a copy of one that was not closed: the last writes that were acknowledged there may be missing"})
	}
	if r.manifest = m; m != nil {
		r.store, r.created = m.Store, m.Created
	}
	return nil
}

// patientFS opens files that are read as patient does.
type patientFS struct{ vfs.FS }

func (p patientFS) Open(name string, mode vfs.Mode) (vfs.File, error) {
	f, err := p.FS.Open(name, mode)
	if err != nil {
		return nil, err
	}
	return patientFile{f}, nil
}

type patientFile struct{ vfs.File }

func (p patientFile) ReadAt(b []byte, off int64) (int, error) { return patient{p.File}.ReadAt(b, off) }

func (r *repair) openFiles(names []string) error {
	pool := files.NewPool(patientFS{r.fsys})
	for _, name := range names {
		if _, ok := record.ParseFileName(name); !ok {
			continue
		}
		path := filepath.Join(r.dir, name)
		file, err := pool.Open(path, vfs.ReadOnly)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			r.lose(Loss{File: path, Reason: err.Error()})
			continue
		}
		f := &logFile{name: name, file: file}
		r.files = append(r.files, f)
		if f.size, err = file.Size(); err != nil {
			return fmt.Errorf("copal: %w", err)
		}
		r.total += f.size
		b := make([]byte, record.MaxHeaderBytes)
		n, err := file.ReadAt(b, 0)
		if err != nil && err != io.EOF {
			return fmt.Errorf("copal: %w", err)
		}
		var head int
		f.header, head, f.reason = record.ParseSegmentHeader(b[:n])
		if errors.Is(f.reason, record.ErrVersion) {
			return seglog.FormatError(path, 0, f.reason)
		}
		f.head = int64(head)
	}
	return nil
}

// identify finds out which store it is, if the manifest does not say: the one that most files belong to.
func (r *repair) identify() {
	if r.manifest != nil {
		return
	}
	count := map[uint64]int{}
	for _, f := range r.files {
		if f.reason == nil {
			count[f.header.Store]++
			if n := count[f.header.Store]; n > count[r.store] || r.store == 0 {
				r.store = f.header.Store
			}
			if r.created == 0 || f.header.Start < r.created {
				r.created = f.header.Start
			}
		}
	}
}

// openRing copies the ring, whatever its first line says. Without it the extent of the loss is
// unknown.
func (r *repair) openRing() error {
	path := filepath.Join(r.dir, seglog.RingName)
	m := r.manifest
	counts := m == nil || m.Writing != nil && m.Writing.Ring != 0
	lost := func(reason string) {
		if counts {
			r.lose(Loss{File: path, Reason: reason + "; the newest records may have stood here alone"})
		}
	}
	f, err := patientFS{r.fsys}.Open(path, vfs.ReadOnly)
	if errors.Is(err, fs.ErrNotExist) {
		if m != nil {
			lost("the manifest names it, and it is missing")
		}
		return nil
	}
	if err != nil {
		r.lose(Loss{File: path, Reason: err.Error()})
		return nil
	}
	defer f.Close()
	length, err := f.Size()
	if err != nil {
		return fmt.Errorf("copal: %w", err)
	}
	text := make([]byte, min(length, seglog.MaxSegmentBytes))
	if n, err := f.ReadAt(text, 0); err != nil && err != io.EOF {
		return fmt.Errorf("copal: %w", err)
	} else {
		text = text[:n]
	}
	h, err := seglog.Rings.Parse(text[:min(len(text), tail.RingLine)])
	store, size := h.Log, h.Sizes[0]
	switch {
	case errors.Is(err, record.ErrVersion):
		return seglog.FormatError(path, 0, err)
	case err == nil && r.store != 0 && store != r.store:
		lost(fmt.Sprintf("it belongs to store %016x", store))
		return nil
	case err != nil:
		lost("its first line: " + err.Error())
		size = (length - seglog.RingHead) / tail.PartUnit * tail.PartUnit
	case length < seglog.RingHead+size:
		lost(tail.ErrRingSize.Error())
	}
	if size <= 0 {
		return nil
	}
	if missing := seglog.RingHead + size - int64(len(text)); missing > 0 {
		text = append(text, make([]byte, missing)...)
	}
	r.ring = &seglog.RingReader{Data: bytes.NewReader(text), Path: path, Size: size}
	return nil
}

// surveyNamed makes a wreck of each segment that the manifest names, and of those that were made later.
func (r *repair) surveyNamed() {
	newest := record.SegmentID(0)
	for i := range r.manifest.Segments {
		e := &r.manifest.Segments[i]
		newest = max(newest, e.ID)
		w := &wreck{id: e.ID, salt: e.Salt, path: filepath.Join(r.dir, e.ID.FileName()), named: e}
		for _, f := range r.files {
			if f.reason == nil && f.header.ID == e.ID && f.header.Salt == e.Salt && f.header.Store == r.store {
				r.attach(w, f)
			}
		}
		r.wrecks = append(r.wrecks, w)
	}
	for _, f := range r.files {
		if f.reason != nil && !f.taken {
			r.adopt(f)
		}
	}
	for _, f := range r.files {
		if !f.taken && f.reason == nil && f.header.Store == r.store && f.header.ID > newest && f.size > f.head {
			r.attachUnnamed(f) // the manifest is an older one
		}
	}
	r.reportStrays()
	r.arrange()
}

// surveyUnnamed takes every segment; of those that compaction has rewritten the newest. One without
// a record replaces nothing: compaction makes a file for a record, so a file without one was not
// finished.
func (r *repair) surveyUnnamed() error {
	for _, f := range r.files {
		if f.reason == nil && f.header.Store == r.store {
			r.attachUnnamed(f)
		}
	}
	for _, f := range r.files {
		if f.reason != nil {
			r.adopt(f)
		}
	}
	var all []*wreck
	for _, w := range r.wrecks {
		seq, _, err := w.first()
		if err != nil {
			return err
		}
		if seq > 0 {
			all = append(all, w)
		}
	}
	var kept []*wreck
	for _, w := range r.wrecks {
		over := slices.DeleteFunc(slices.Clone(all), func(o *wreck) bool { return !o.standsFor(w) })
		if len(over) == 0 {
			kept = append(kept, w)
		} else if err := r.passOver(w, over); err != nil {
			return err
		}
	}
	r.wrecks = kept
	r.reportStrays()
	r.arrange()
	return nil
}

// passOver leaves out a segment that others replace, and reports its records beyond the last of
// theirs.
func (r *repair) passOver(w *wreck, over []*wreck) error {
	reach := uint64(0)
	for _, o := range over {
		if err := o.read(func() {}); err != nil {
			return err
		}
		reach = max(reach, r.lastOf(o))
		o.fragments, o.failures = nil, nil
	}
	if err := w.read(func() {}); err != nil {
		return err
	}
	r.report.Intact += int64(len(w.fragments))
	for _, f := range w.fragments {
		if e, _, err := w.load(f, nil); err == nil && e.Seq > reach {
			r.report.Passed = append(r.report.Passed, Loss{File: w.path, Offset: f.at, Bytes: w.lastEnd() - f.at,
				Reason: fmt.Sprintf("segment %s stands for it, and ends with sequence number %d: what follows was compacted away, or not copied before a crash", over[0].id, reach)})
			break
		}
	}
	w.fragments, w.failures = nil, nil
	return nil
}

// inRing is how many of the last segments the ring is asked for, beside those that are open.
const inRing = 4

// arrange puts the segments into the order of the log, and lets the last ones have the ring.
func (r *repair) arrange() {
	slices.SortFunc(r.wrecks, func(a, b *wreck) int { return cmp.Compare(a.id, b.id) })
	longest := int64(0)
	for _, w := range r.wrecks {
		longest = max(longest, w.extent())
	}
	for i, w := range r.wrecks {
		if r.ring == nil || i < len(r.wrecks)-inRing && (w.named == nil || w.named.Sealed) {
			continue
		}
		end := 2*longest + 2*r.ring.Size
		if w.named != nil && w.named.Sealed {
			end = w.named.Bytes
		}
		if m := r.mark; m != nil && m.Segment == w.id {
			end = max(end, m.Offset+2*r.ring.Size)
		}
		w.sources = append(w.sources, source{r.ring, 1, end, true})
	}
}

// extent is how far the segment is known to reach.
func (w *wreck) extent() int64 {
	end := int64(0)
	if w.named != nil {
		end = w.named.Bytes
	}
	for _, s := range w.sources {
		end = max(end, s.end)
	}
	return end
}

// attach makes a file a source of a segment.
func (r *repair) attach(w *wreck, f *logFile) {
	f.taken = true
	src := source{f.file, max(f.head, 1), f.size, false}
	if w.named != nil && w.named.Sealed {
		src.end = min(src.end, w.named.Bytes) // later bytes do not count
	}
	w.sources = append(w.sources, src)
	path := filepath.Join(r.dir, f.name)
	if f.reason == nil {
		w.start = f.header.Start
	} else {
		r.lose(Loss{File: path, Bytes: r.firstLine(f), Reason: "its first line: " + f.reason.Error()})
	}
	if f.name != w.id.FileName() {
		r.lose(Loss{File: path, Reason: fmt.Sprintf("it is segment %s", w.id)})
	}
}

// firstLine is the length of a first line that is damaged, up to the first record or possible
// record.
func (r *repair) firstLine(f *logFile) int64 {
	s := &seglog.Scanner{File: f.file, End: f.size}
	if err := s.SkipTo(0); err != nil {
		return 0
	}
	return s.Offset
}

// standsFor reports whether compaction has made o of w.
func (o *wreck) standsFor(w *wreck) bool {
	order := w.id.Order()
	return o.id.Generation() > w.id.Generation() && o.id.Order() <= order && order <= max(o.through, o.id.Order())
}

// attachUnnamed makes a segment of a file that says which one it is.
func (r *repair) attachUnnamed(f *logFile) {
	for _, w := range r.wrecks {
		if w.id == f.header.ID && w.salt == f.header.Salt {
			r.attach(w, f)
			return
		}
	}
	w := &wreck{id: f.header.ID, salt: f.header.Salt, through: f.header.Through, path: filepath.Join(r.dir, f.name)}
	r.wrecks = append(r.wrecks, w)
	r.attach(w, f)
}

// adopt finds the segment of a file whose first line is damaged: the one of its name, or any other
// whose salt makes records of its bytes, or at last the one that its records give themselves.
func (r *repair) adopt(f *logFile) {
	id, _ := record.ParseFileName(f.name)
	list := slices.Clone(r.wrecks)
	slices.SortStableFunc(list, func(a, b *wreck) int { // the segment of its name first
		return cmp.Compare(btoi(a.id != id), btoi(b.id != id))
	})
	for _, w := range list {
		probe := &wreck{salt: w.salt, sources: []source{{f.file, 1, f.size, false}}}
		if seq, _, err := probe.first(); err == nil && seq > 0 {
			r.attach(w, f)
			return
		}
	}
	if salt, ok := r.derive(f); ok {
		w := &wreck{id: id, salt: salt, path: filepath.Join(r.dir, f.name)}
		r.wrecks = append(r.wrecks, w)
		r.attach(w, f)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// derive finds a salt that makes records of the bytes of a file. One record would agree with some
// salt in any case; it takes two.
func (r *repair) derive(f *logFile) (record.Salt, bool) {
	s := &seglog.Scanner{File: f.file, End: f.size}
	tried := map[record.Salt]bool{}
	for from := int64(0); ; from = s.Offset + 1 {
		if err := s.SkipTo(from); err != nil || s.Offset >= s.End {
			return 0, false
		}
		b, err := s.Window(record.MaxHeadBytes)
		if err != nil {
			return 0, false
		}
		h, head, err := record.Parse(b)
		total := h.Length(head)
		if err != nil || s.Offset+int64(total) > s.End {
			continue
		}
		if b, err = s.Window(total); err != nil || len(b) < total {
			continue
		}
		salt, ok := record.SaltOf(b[:total], s.Offset)
		if !ok {
			continue
		}
		if tried[salt] {
			return salt, true
		}
		tried[salt] = true
	}
}

// reportStrays reports the files that were not used, if they hold more than a first line.
func (r *repair) reportStrays() {
	for _, f := range r.files {
		path := filepath.Join(r.dir, f.name)
		switch {
		case f.taken || f.size <= f.head:
		case f.reason == nil && f.header.Store != r.store:
			r.lose(Loss{File: path, Bytes: f.size, Reason: fmt.Sprintf("it belongs to store %016x", f.header.Store)})
		case f.reason != nil && f.size > seglog.MaxTornHeader:
			r.lose(Loss{File: path, Bytes: f.size, Reason: "there is no record in it"})
		}
	}
}
