package repair

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// Salvaging reads the rest of one segment, from each of its sources: its file, under whatever name,
// copies of that, and the ring. Recovery believes the store's own files, and refuses
// contradictions. Salvaging believes only checksums: a record whose checksum over salt and offset
// is right was written there, whatever became of the bytes around it. So the order in which the
// sources are read does not matter, and a record is lost if none of them has it.
//
// The search after a damaged place for the next record ignores the length that the damaged one
// states. Values full of bytes that look like records make that slow, never wrong.
type wreck struct {
	id      record.SegmentID
	salt    record.Salt
	start   uint64 // Unix milliseconds; 0 when the header that says it is lost
	path    string // of the file that is, or would be, the segment's
	named   *seglog.ManifestSegment
	through uint32 // of a compacted one without a manifest: order of the last segment that it replaces
	next    uint64 // sequence number that must follow on the last record, 0 when that is not known

	sources   []source
	fragments []fragment
	failures  []failure
}

// source is something that may hold records of a segment at their offsets.
type source struct {
	file io.ReaderAt
	head int64 // the first record follows it
	end  int64
	ring bool
}

// fragment is a whole record.
type fragment struct {
	at     int64
	bytes  int64
	source int
}

// failure is where a source has no record, though there should be one.
type failure struct {
	at     int64
	reason error
}

// read finds the fragments, in the order of their offsets.
func (w *wreck) read(tick func()) error {
	for i := range w.sources {
		if err := w.readSource(i, tick); err != nil {
			return err
		}
	}
	slices.SortStableFunc(w.fragments, func(a, b fragment) int { return int(a.at - b.at) })
	kept := w.fragments[:0]
	end := int64(0)
	for _, f := range w.fragments {
		if f.at >= end {
			kept = append(kept, f)
			end = f.at + f.bytes
		}
	}
	w.fragments = kept
	return nil
}

// readSource adds the records of one source.
func (w *wreck) readSource(i int, tick func()) error {
	src := w.sources[i]
	s := &seglog.Scanner{File: src.file, Salt: w.salt, Offset: src.head, End: src.end}
	for lost := false; ; {
		at, e, err := s.Next()
		var d *seglog.Damage
		switch {
		case err == nil:
			w.fragments = append(w.fragments, fragment{at, int64(e.Bytes), i})
			lost = false
			tick()
			continue
		case err == io.EOF:
			return nil
		case !errors.As(err, &d):
			return err
		case errors.Is(d.Reason, record.ErrNewer):
			return seglog.FormatError(w.path, at, d.Reason)
		}
		if !lost {
			w.failures = append(w.failures, failure{at, d.Reason})
		}
		lost = true
		if err := s.SkipTo(at + 1); err != nil {
			return err
		}
	}
}

// first is the sequence number of the first record that can be found, 0 when there is none. intact says that
// nothing is lost before it.
func (w *wreck) first() (best uint64, intact bool, err error) {
	for _, src := range w.sources {
		s := &seglog.Scanner{File: src.file, Salt: w.salt, Offset: src.head, End: src.end}
		for {
			at, e, err := s.Next()
			var d *seglog.Damage
			if err == nil && (best == 0 || e.Seq < best) {
				best, intact = e.Seq, at == src.head
			}
			if err == nil || err == io.EOF || errors.As(err, &d) && errors.Is(d.Reason, record.ErrNewer) {
				break
			}
			if d == nil {
				return 0, false, err
			}
			if err := s.SkipTo(at + 1); err != nil {
				return 0, false, err
			}
		}
	}
	return best, intact, nil
}

// load reads a fragment again.
func (w *wreck) load(f fragment, buf []byte) (e seglog.Record, _ []byte, err error) {
	if int64(cap(buf)) < f.bytes {
		buf = make([]byte, f.bytes)
	}
	buf = buf[:f.bytes]
	if n, err := w.sources[f.source].file.ReadAt(buf, f.at); int64(n) < f.bytes {
		return e, buf, fmt.Errorf("copal: %s: %w", w.path, err)
	}
	head, err := e.Parse(buf)
	if err == nil {
		e.Key, e.Value, err = w.salt.Verify(buf, f.at, &e.Head, head)
	}
	if err != nil {
		return e, buf, seglog.FormatError(w.path, f.at, err)
	}
	e.Bytes, e.Written = len(buf), w.start+e.Time
	return e, buf, nil
}

// reasonAt is why there is no record at an offset.
func (w *wreck) reasonAt(at int64) string {
	for _, f := range w.failures {
		if f.at == at {
			return f.reason.Error()
		}
	}
	return "the bytes are not there"
}

// holes are the parts of [from, to) that no fragment covers.
func (w *wreck) holes(from, to int64) (list [][2]int64) {
	for _, f := range w.fragments {
		if f.at > from {
			list = append(list, [2]int64{from, min(f.at, to)})
		}
		if from = max(from, f.at+f.bytes); from >= to {
			return list
		}
	}
	if from < to {
		list = append(list, [2]int64{from, to})
	}
	return list
}

// lastEnd is the end of the last fragment.
func (w *wreck) lastEnd() int64 {
	if n := len(w.fragments); n > 0 {
		return w.fragments[n-1].at + w.fragments[n-1].bytes
	}
	return 0
}

// patient reads a file of which some blocks cannot be read: those are zeros, which are no record.
type patient struct{ file vfs.File }

const PatientBlock = 4 << 10

func (p patient) ReadAt(b []byte, off int64) (int, error) {
	n, err := p.file.ReadAt(b, off)
	if err == nil || err == io.EOF {
		return n, err
	}
	for n = 0; n < len(b); {
		part := b[n:]
		part = part[:min(len(part), int(PatientBlock-(off+int64(n))%PatientBlock))]
		got, err := p.file.ReadAt(part, off+int64(n))
		if err == io.EOF {
			return n + got, err
		}
		if err != nil {
			clear(part)
		}
		n += len(part)
	}
	return n, nil
}
