package admin

import (
	"context"
	"fmt"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/vfs"
)

// Report is the result of Check.
type Report struct {
	Segments  []SegmentReport // files of the log, oldest first
	Records   int64           // intact records; Repair may find more, to which a damaged file no longer leads
	Keys      int64           // entries; counted when there are no problems
	LogBytes  int64
	TornBytes int64                // bytes that a crash left after the last record, and that are ignored
	Problems  []copal.CorruptError // damage, in the order in which it was found
	Derived   []copal.CorruptError // damage of files that are derived from the log: no problem, as the store makes them again
	Copied    bool                 // a copy of a store that was not closed: the last writes of that may be missing
}

// SegmentReport is the result of Check for one file of the log.
type SegmentReport struct {
	File    string
	Sealed  bool // complete and immutable
	Bytes   int64
	Records int64
}

// String sums the report up in a line.
func (r Report) String() string {
	s := fmt.Sprintf("%d records in %d segments, %d keys", r.Records, len(r.Segments), r.Keys)
	if r.TornBytes > 0 {
		s += fmt.Sprintf(", %d bytes of a torn tail", r.TornBytes)
	}
	return s + fmt.Sprintf(", %d problems", len(r.Problems))
}

// Check reads every byte of the store in dir and verifies every checksum. It changes nothing, takes
// no lock and goes on after damage. It may run while a process uses the store.
//
// The error is nil when the store is sound. When it is damaged, the error is the first of the
// report's problems, a *CorruptError. ErrCopied means that the bytes are intact, and that the store
// is a copy of one that was not closed, which copal.Open refuses. ErrVersion means that a file is of
// a newer version, and any other error that something could not be read.
//
// progress, which may be nil, is called from time to time with the bytes read so far and the bytes
// of the store. When ctx ends, Check returns its error.
func Check(ctx context.Context, dir string, progress func(done, total int64)) (Report, error) {
	dir, err := absolute(dir)
	if err != nil {
		return Report{}, err
	}
	found, err := engine.Check(ctx, dir, vfs.OS(), progress)
	r := Report{Records: found.Records, Keys: found.Keys, LogBytes: found.LogBytes, TornBytes: found.TornBytes, Problems: found.Problems, Derived: found.Derived, Copied: found.Copied != nil}
	for _, s := range found.Segments {
		r.Segments = append(r.Segments, SegmentReport(s))
	}
	switch {
	case err != nil:
		return r, err
	case found.Version != nil:
		return r, found.Version
	case len(r.Problems) > 0:
		return r, &r.Problems[0]
	}
	return r, found.Copied
}
