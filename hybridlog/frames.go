package hybridlog

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/copaldb/copal/internal/vfs"
)

// numbered is a frame with its place.
type numbered struct {
	frame
	slot  int64
	begin int64 // its beginning, the end of the previous one
}

// frameReader reads frames of a segment, some at a time.
type frameReader struct {
	s     *segment
	file  vfs.File
	patch *patch // of the segment, when its file was opened
	slots int64  // of the segment when the reader was made
	buf   []byte
	from  int64 // number of the first frame in buf
}

const framesAtOnce = 1024

func (s *segment) readFrames() (*frameReader, error) {
	slots, patch := s.slots(), s.patch.Load()
	f, err := s.fsys.Open(s.sumsPath(), vfs.ReadOnly)
	if err != nil {
		return nil, missing(s.sumsPath(), err)
	}
	r := &frameReader{s: s, file: f, patch: patch, slots: slots}
	if _, _, err := s.readHeader(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

// readHeader verifies the first line of a file of frames, and returns the beginning of the segment, if it has begun.
func (s *segment) readHeader(f vfs.File) (start Address, begun bool, err error) {
	var b [headerBytes]byte
	n, err := f.ReadAt(b[:], 0)
	if err != nil && err != io.EOF {
		return 0, false, wrap(err)
	}
	if n < lineBytes {
		return 0, false, corrupt(s.sumsPath(), int64(n), "the file ends in its first line")
	}
	h, err := parseSumsHeader(b[:lineBytes])
	if err != nil {
		return 0, false, bad(s.sumsPath(), 0, err)
	}
	if h.id != s.id || h.salt != s.salt {
		return 0, false, corrupt(s.sumsPath(), 0, fmt.Sprintf("it is of segment %s, salt %016x, of log %016x, and MANIFEST names another", h.id, h.salt, h.log))
	}
	start, begun = parseBeginning(b[lineBytes:n], s.salt)
	return start, begun, nil
}

func (r *frameReader) close() { r.file.Close() }

// fill brings frames into the buffer, from this one on, n at most.
func (r *frameReader) fill(slot int64, n int64) error {
	n = min(r.slots-slot, n)
	r.from, r.buf = slot, append(r.buf[:0], make([]byte, n*frameBytes)...)
	return r.loadFrames(r.buf, slot*frameBytes)
}

// loadFrames reads frames from the file, and from the ring those which the file does not have yet.
func (r *frameReader) loadFrames(p []byte, off int64) error {
	s := r.s
	inFile, err := s.sums.LoadNewest(p, off)
	if err != nil {
		return fmt.Errorf("hybridlog: %w", err)
	}
	n, err := r.file.ReadAt(p[:inFile], headerBytes+off)
	if n < inFile && (err != io.EOF || r.patch == nil) {
		if err == io.EOF {
			return corrupt(s.sumsPath(), headerBytes+off+int64(n), "the file ends here")
		}
		return fmt.Errorf("hybridlog: %w", err)
	}
	if r.patch != nil {
		r.patch.frames.Patch(p, off)
	}
	return nil
}

// at reads the n-th frame, which begins at the offset given; any < 0 when that is not known, and not to be verified.
func (r *frameReader) at(slot, begin int64) (numbered, error) {
	if slot < r.from || slot >= r.from+int64(len(r.buf)/frameBytes) {
		n := int64(framesAtOnce)
		if begin < 0 {
			n = 1
		}
		if err := r.fill(slot, n); err != nil {
			return numbered{}, err
		}
	}
	b := r.buf[(slot-r.from)*frameBytes:][:frameBytes]
	known := begin >= 0
	if !known {
		begin = max(endIn(b)-1, 0)
	}
	f, err := r.s.seal.parseFrame(b, slot, begin)
	if err != nil {
		return numbered{}, corrupt(r.s.sumsPath(), headerBytes+slot*frameBytes, err.Error())
	}
	return numbered{f, slot, begin}, nil
}

// find returns the first frame that ends after the offset.
func (r *frameReader) find(offset int64) (numbered, error) {
	t := &r.s.trimmed
	lo, hi := t.frames, r.slots
	for lo < hi {
		mid := lo + (hi-lo)/2
		f, err := r.at(mid, -1)
		if err != nil {
			return numbered{}, err
		}
		if f.end > offset {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	begin := t.end
	if lo > t.frames {
		f, err := r.at(lo-1, -1)
		if err != nil {
			return numbered{}, err
		}
		begin = f.end
	}
	if lo == r.slots {
		return numbered{slot: lo, begin: begin}, nil
	}
	return r.at(lo, begin)
}

// frames yields the frames from the first that ends after the offset.
func (s *segment) frames(offset int64) iter.Seq2[numbered, error] {
	return s.framesFrom(func(r *frameReader) (numbered, error) { return r.find(offset) })
}

// framesBehind yields the frames after a place, and reads no others.
func (s *segment) framesBehind(p place) iter.Seq2[numbered, error] {
	return s.framesFrom(func(r *frameReader) (numbered, error) {
		if p.frames == r.slots {
			return numbered{slot: p.frames, begin: p.end}, nil
		}
		return r.at(p.frames, p.end)
	})
}

func (s *segment) framesFrom(first func(r *frameReader) (numbered, error)) iter.Seq2[numbered, error] {
	return func(yield func(numbered, error) bool) {
		if s.slots() == 0 {
			return
		}
		r, err := s.readFrames()
		if err != nil {
			yield(numbered{}, err)
			return
		}
		defer r.close()
		f, err := first(r)
		for ; err == nil && f.slot < r.slots; f, err = r.at(f.slot+1, f.end) {
			if !yield(f, nil) || f.slot+1 == r.slots {
				return
			}
		}
		if err != nil {
			yield(numbered{}, err)
		}
	}
}
