package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/opened"
	"github.com/copaldb/copal/internal/repair"
)

// RepairReport is the result of Repair: the records that it saved, and those that it could not.
type RepairReport struct {
	Intact  int64       // intact records of the damaged store: those that Check counts, and those that only Repair finds
	Saved   int64       // intact records that count in the new store
	Lost    []Loss      // places that held a record and hold no intact one, in the order of the log
	Passed  []Loss      // intact records left out because the manifest is lost, and compaction may have dropped them
	Values  []LostValue // values over 1 MiB of which a part is lost; they are not in the new store
	Grouped int64       // intact records left out because the end or another part of their transaction is lost
	Raw     int64       // values whose schema is lost: they are raw bytes now, which a typed read takes as JSON
}

// Loss is a part of a file that was not taken over.
type Loss struct {
	File   string
	Offset int64
	Bytes  int64 // 0 when the number is not known, or when the bytes held nothing of the log
	Reason string
	Torn   bool // it may be only a rest that a crash left after the last record
}

// LostValue is an entry whose value is lost in part, and so as a whole.
type LostValue struct {
	Key    []byte
	Bytes  int64
	Reason string
}

// String sums the report up in a line.
func (r RepairReport) String() string {
	lost, torn, places := int64(0), int64(0), 0
	for _, l := range r.Lost {
		if l.Torn {
			torn += l.Bytes
			continue
		}
		lost += l.Bytes
		places++
	}
	s := fmt.Sprintf("%d of %d intact records saved, %d bytes lost in %d places", r.Saved, r.Intact, lost, places)
	if torn > 0 {
		s += fmt.Sprintf(", %d bytes that may be a torn tail", torn)
	}
	if n := len(r.Values); n > 0 {
		s += fmt.Sprintf(", %d large values lost", n)
	}
	if r.Grouped > 0 {
		s += fmt.Sprintf(", %d records left out whose transaction is not whole", r.Grouped)
	}
	if n := len(r.Passed); n > 0 {
		s += fmt.Sprintf(", %d old files left out in part", n)
	}
	if r.Raw > 0 {
		s += fmt.Sprintf(", %d values without their schema", r.Raw)
	}
	return s
}

// Repair makes a new store, in the directory into, from every intact record of the store in dir.
// That store may be damaged in any way, and is not changed. into must be empty or missing; after an
// error it is empty or missing again. No process can write to the store in dir meanwhile: if
// another process has it open for writing, the error is ErrLocked.
//
// Repair cannot know the content of a lost record. If it set a key, the new store has the value
// before it; if it deleted a key, the key is there again. The report lists the losses, file by
// file. A sound store loses nothing.
//
// progress, which may be nil, is called with the bytes read so far and the bytes of the store. When
// ctx ends, Repair returns its error. Of the options only copal.WithFileMode has an effect.
func Repair(ctx context.Context, dir, into string, progress func(done, total int64), opts ...copal.Option) (RepairReport, error) {
	return repairStore(ctx, dir, into, repair.Options{Progress: progress}, opts)
}

// RepairInPlace is Repair with the new store in the place of the damaged one. That is kept as
// dir.damaged, or dir.damaged-2 and so on if that name is taken; damaged is the name. An interrupted
// call leaves either a store whose Open returns ErrUnfinished, or the damaged one, and the next call
// completes the work. On Linux there is never a moment without a directory at dir.
func RepairInPlace(ctx context.Context, dir string, progress func(done, total int64), opts ...copal.Option) (r RepairReport, damaged string, err error) {
	disk, err := opened.Disk(opts)
	if err == nil {
		dir, err = absolute(dir)
	}
	if err != nil {
		return r, "", err
	}
	found, damaged, err := repair.InPlace(ctx, dir, repair.Options{FS: disk, Progress: progress})
	return repairReport(found), damaged, err
}

// RepairDryRun returns the report of Repair without making a store. It reads as much as Repair, and
// writes nothing.
func RepairDryRun(ctx context.Context, dir string, progress func(done, total int64)) (RepairReport, error) {
	return repairStore(ctx, dir, "", repair.Options{Progress: progress, DryRun: true}, nil)
}

func repairStore(ctx context.Context, dir, into string, how repair.Options, opts []copal.Option) (RepairReport, error) {
	disk, err := opened.Disk(opts)
	if err == nil {
		how.FS = disk
		dir, err = absolute(dir)
	}
	if err == nil && !how.DryRun {
		into, err = absolute(into)
	}
	if err != nil {
		return RepairReport{}, err
	}
	found, err := repair.Repair(ctx, dir, into, how)
	return repairReport(found), err
}

func repairReport(found repair.Report) RepairReport {
	r := RepairReport{Intact: found.Intact, Saved: found.Saved, Grouped: found.Grouped, Raw: found.Raw}
	for _, l := range found.Lost {
		r.Lost = append(r.Lost, Loss(l))
	}
	for _, l := range found.Passed {
		r.Passed = append(r.Passed, Loss(l))
	}
	for _, v := range found.Values {
		r.Values = append(r.Values, LostValue{Key: v.Key, Bytes: v.Bytes, Reason: v.Reason})
	}
	return r
}

// absolute is files.Path of a directory. An empty name, which would be the working directory, is a mistake.
func absolute(dir string) (string, error) {
	if dir == "" {
		return "", errors.New("copal: the name of a directory is empty")
	}
	dir, err := files.Path(dir)
	if err != nil {
		return "", fmt.Errorf("copal: %w", err)
	}
	return dir, nil
}
