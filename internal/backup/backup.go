package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/store"
	"github.com/copaldb/copal/internal/vfs"
)

// A backup is a store: the log up to one point, in a directory of its own. Sealed segments never
// change, so they are the files of the source under a second name, where the file system has that.
// The others are copied up to the point. In the manifest of the backup all of them are sealed.
//
// To bring a backup up to date, the missing part is added: new files, and bytes after those that
// its manifest counts. Then the new manifest replaces the old one, and files that it does not name
// are removed. So a crash leaves the old backup or the new one.
//
// A backup of a moment of the past ends where recovery stops that opens the moment: within a
// segment, of which the beginning is copied then, sealed or not. Its manifest is the store's,
// window of history included. So it has the moments before, too, and a later backup brings it up to
// date.
//
// The file BACKUP marks the directory as a backup, and has the identity of the store and the
// checksums of its present and its next manifest. Another manifest was written by a program that
// has used the backup as a store: its log has other records, and it is left alone.

// Report is the result of Make or Restore.
type Report struct {
	Seq    uint64 // sequence number of the last record that is in it
	Bytes  int64  // of the log
	Linked int64  // of these, in files that the backup shares with the store since now
	Copied int64  // of these, written now
}

// Options are the seams and settings of a backup. The zero value of each field means its default.
type Options struct {
	FS       vfs.FS         // of the target; the store's
	At       *seglog.Moment // of the past; nil for all that there is
	Progress func(done, total int64)
}

// Make makes in dir a backup of everything that was written before the call, or brings the backup
// in it up to date. Writes go on meanwhile. After an error dir has its earlier backup, or none.
func Make(ctx context.Context, s *engine.Store, dir string, opts Options) (Report, error) {
	if !s.ReadOnly() {
		if err := s.Sync(); err != nil {
			return Report{}, err
		}
	}
	log := s.Log()
	b := &backup{ctx: ctx, store: s, log: log, from: log.FS, fsys: cmp.Or(opts.FS, log.FS), dir: dir, at: opts.At, progress: opts.Progress}
	b.links = b.from == b.fsys
	if b.links && seglog.Within(dir, log.Dir) {
		return b.report, seglog.Known(fs.ErrExist, "%s is or lies within the store itself: a backup needs a directory of its own", dir)
	}
	if err := b.run(); err != nil {
		return b.report, s.Inside(func() error { return err }) // or that the store is closed
	}
	return b.report, nil
}

// Restore makes in the directory into, which is empty or missing, a store with the content of the
// backup in from. It reads every record and shares no file with the backup. After an error into is
// empty or missing again.
func Restore(ctx context.Context, from, into string, opts Options) (Report, error) {
	fsys := cmp.Or(opts.FS, vfs.OS())
	work := seglog.Unfinished{Work: seglog.RestoreWork, Source: from}
	if err := seglog.CheckMaking(fsys, into, work); err != nil {
		return Report{}, err
	}
	s, err := store.Open(from, engine.Options{FS: fsys, ReadOnly: true, Inline: true})
	if err != nil {
		return Report{}, err
	}
	defer s.Close()
	b := &backup{ctx: ctx, store: s, log: s.Log(), from: fsys, fsys: fsys, dir: into, at: opts.At, progress: opts.Progress, restores: true}
	made, err := seglog.Make(fsys, into, work)
	if err != nil {
		return b.report, err
	}
	if err = b.copyAll(); err == nil {
		err = made.End()
	}
	if err != nil {
		made.Abandon()
	}
	return b.report, err
}

// backup is one run.
type backup struct {
	ctx      context.Context
	store    *engine.Store
	log      *seglog.Log
	of       uint64 // the store's identity, which it may get while it is backed up for the first time
	from     vfs.FS
	fsys     vfs.FS
	dir      string
	at       *seglog.Moment // nil for all that there is
	links    bool           // files may be shared
	restores bool           // into an empty directory, with no mark of a backup, and all is verified
	progress func(done, total int64)
	done     int64
	total    int64
	report   Report

	first  bool             // the directory says that its first backup has not ended
	old    *seglog.Manifest // of the backup that is there, or nil
	oldSum string           // the checksum of its text
	source *seglog.Prefix
	past   *engine.Store    // of the moment, while source is of it
	new    *seglog.Manifest // the source's manifest, as in the backup
}

// noManifest is written in BACKUP if there is no manifest.
const noManifest = "-"

func (b *backup) run() error {
	if names, err := b.fsys.List(b.dir); err == nil && !slices.Contains(names, seglog.LockName) { // nor shall there be one then
		if err := b.takes(names); err != nil {
			return err
		}
	}
	lock, err := seglog.LockDir(b.fsys, b.dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := b.copyAll(); err != nil || !b.first {
		return err
	}
	return seglog.EndUnfinished(b.fsys, b.dir)
}

// copyAll makes the backup in a directory that is locked.
func (b *backup) copyAll() error {
	err := b.look()
	if err != nil {
		return err
	}
	for looks := (seglog.Looks{}); ; {
		if err = b.attempt(); !errors.Is(err, fs.ErrNotExist) || !looks.Again(err) {
			break
		}
		b.sweep(b.old)
	}
	if err != nil {
		b.sweep(b.old)
		if !strings.HasPrefix(err.Error(), "copal: ") || vfs.IsNoSpace(err) { // of the disk
			err = seglog.NoSpace(err)
		}
		return err
	}
	b.sweep(b.new)
	return nil
}

// attempt makes the backup of one point of the log. Where another process writes, the files of the last
// look may be gone.
func (b *backup) attempt() (err error) {
	if err := b.store.Refresh(); err != nil {
		return err
	}
	if err := b.choose(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.release()) }()
	if err := b.comparable(); err != nil {
		return err
	}
	b.done = 0
	for _, f := range b.source.Files {
		if err := b.segment(f); err != nil {
			return err
		}
		b.advance(0)
	}
	return b.commit()
}

// takes returns an error if the directory has files of something that is no backup.
func (b *backup) takes(names []string) error {
	var u *seglog.UnfinishedError
	err := seglog.ReadUnfinished(b.fsys, b.dir)
	if b.first = errors.As(err, &u) && u.Work == seglog.BackupWork; err != nil && !b.first {
		return seglog.Known(fs.ErrExist, "%s: a backup needs a directory of its own", strings.TrimPrefix(err.Error(), "copal: "))
	}
	if slices.Contains(names, seglog.BackupName) {
		return nil
	}
	for _, name := range names {
		if !seglog.Worthless(name) && name != seglog.UnfinishedName {
			return seglog.Known(fs.ErrExist, "%s holds %s, and is no backup: a backup needs a directory of its own", b.dir, name)
		}
	}
	return nil
}

// look reads the content of the directory.
func (b *backup) look() error {
	b.oldSum = noManifest
	err := b.store.Inside(func() error { b.of = b.log.StoreID; return nil })
	if err != nil {
		return err
	}
	if b.restores {
		return nil
	}
	names, err := b.fsys.List(b.dir)
	if err == nil {
		err = b.takes(names)
	}
	if err != nil {
		return err
	}
	if !b.first && !slices.Contains(names, seglog.ManifestName) {
		if err := seglog.NoteUnfinished(b.fsys, b.dir, seglog.Unfinished{Work: seglog.BackupWork, Source: b.log.Dir}); err != nil {
			return err
		}
		b.first = true
	}
	if !slices.Contains(names, seglog.BackupName) {
		return b.note(noManifest) // from here on the files in it are ours
	}
	path := filepath.Join(b.dir, seglog.BackupName)
	text, _, err := files.Read(b.fsys, path, record.MaxHeaderBytes)
	if err != nil {
		return err
	}
	mark, err := parseBackup(text)
	if err != nil {
		return seglog.FormatError(path, 0, err)
	}
	// A store gets its identity with the first write. A backup from before has no segment.
	holds := slices.ContainsFunc(names, func(name string) bool { _, segment := record.ParseFileName(name); return segment })
	if mark.store != b.of && holds {
		return seglog.Known(fs.ErrExist, "%s is a backup of another store, %016x: this one needs a directory of its own", b.dir, mark.store)
	}
	if b.old, err = seglog.ReadManifest(b.fsys, b.dir); err != nil {
		return err
	}
	if b.old != nil {
		b.oldSum = sumOf(b.old.Encode())
	}
	if b.at != nil && b.old != nil && !b.first {
		return seglog.Known(fs.ErrExist, "%s has a backup: one of a moment of the past needs a directory of its own", b.dir)
	}
	if b.oldSum != mark.manifest && b.oldSum != mark.next {
		return seglog.Known(fs.ErrExist, "the manifest in %s is not the one that the last backup wrote: has it been used as a store? Make the backup in another directory", b.dir)
	}
	b.sweep(b.old) // the files that an earlier run left
	return nil
}

// backupMark is the content of BACKUP.
type backupMark struct {
	store          uint64
	manifest, next string // checksums of the manifest that is there, and the one that is about to be
}

// encode writes
//
//	copal backup 1 store 77aa00000000beef manifest 41cbbb75 next 5dfd7fdf 1f0c9a3e
func (m backupMark) encode() []byte {
	return record.Seal(fmt.Appendf(nil, "%s store %016x manifest %s next %s", record.Title("backup"), m.store, m.manifest, m.next))
}

func parseBackup(text []byte) (m backupMark, err error) {
	body, err := record.Unseal(text, "backup")
	if err != nil {
		return m, err
	}
	f := record.NewFields(body)
	m.store, m.manifest, m.next = f.Fixed("store"), f.Word("manifest"), f.Word("next")
	return m, f.End()
}

// sumOf is the checksum at the end of a manifest.
func sumOf(text []byte) string { return string(text[len(text)-9 : len(text)-1]) }

// note writes BACKUP, durably.
func (b *backup) note(next string) error {
	m := backupMark{b.of, b.oldSum, next}
	return files.Replace(b.fsys, filepath.Join(b.dir, seglog.BackupName), func(f vfs.File) error {
		_, err := f.WriteAt(m.encode(), 0)
		return err
	})
}

// choose takes the point of the log at which the backup ends.
func (b *backup) choose() error {
	readOnly := b.store.ReadOnly()
	err := b.begin(readOnly)
	if err != nil {
		return err
	}
	b.new = b.source.Manifest
	if b.new.Edit = 1; b.old != nil {
		b.new.Edit = b.old.Edit + 1
	}
	b.of, b.total = b.new.Store, 0
	for _, f := range b.source.Files {
		b.total += f.Bytes
	}
	b.report = Report{Seq: b.source.Seq, Bytes: b.total}
	if readOnly {
		return nil
	}
	if err := b.log.SyncTo(b.source.Seq); err != nil {
		return errors.Join(err, b.release())
	}
	return nil
}

// begin takes hold of the log up to its end, or up to the moment.
func (b *backup) begin(readOnly bool) (err error) {
	if b.at == nil {
		return b.store.Inside(func() error { b.source = b.log.Prefix(readOnly); return nil })
	}
	if b.past, err = b.store.OpenMoment(*b.at); err != nil {
		return err
	}
	b.source = b.past.Log().Prefix(true)
	cut(b.source, b.past.Log())
	return nil
}

// cut ends a prefix where the log of a moment ends: within a sealed segment, or before one.
func cut(p *seglog.Prefix, log *seglog.Log) {
	files := p.Files
	p.Files, p.Manifest.Segments, p.Seq = nil, nil, log.Last()
	for _, f := range files {
		seg := log.ByID(f.ID)
		if seg.Records == 0 {
			continue
		}
		if end := seg.End.Load(); end < f.Bytes {
			f.Bytes, f.Records, f.First, f.Last = end, seg.Records, seg.First, seg.Last
			f.ReadAt = seg.File.ReadAt
		}
		p.Files = append(p.Files, f)
		p.Manifest.Segments = append(p.Manifest.Segments, f.ManifestSegment)
	}
}

func (b *backup) release() (err error) {
	if b.source.Release(); b.past != nil {
		err = b.store.CloseMoment(b.past)
	}
	b.past = nil
	return err
}

// comparable checks that the log is a continuation of the backup.
func (b *backup) comparable() error {
	if b.old == nil {
		return nil
	}
	for _, e := range b.new.Segments {
		if was, ok := b.old.Find(e.ID); ok && (was.Salt != e.Salt || was.Bytes > e.Bytes) {
			return fmt.Errorf("copal: the log in %s differs from the one that was backed up to %s: segment %s differs", b.log.Dir, b.dir, e.ID)
		}
	}
	return nil
}

// segment brings a segment into the backup, durably except its name.
func (b *backup) segment(f seglog.PrefixFile) error {
	if err := b.ctx.Err(); err != nil {
		return err
	}
	path := filepath.Join(b.dir, f.ID.FileName())
	have, err := b.has(f.ID, path)
	if err != nil {
		return err
	}
	switch {
	case have == f.Bytes:
		b.advance(f.Bytes)
		return nil
	case have == 0 && f.ReadAt == nil && b.links && b.from.Link(f.Path, path) == nil:
		b.report.Linked += f.Bytes
		b.advance(f.Bytes)
		return nil
	}
	b.advance(have)
	if f.ReadAt == nil {
		file, err := b.from.Open(f.Path, vfs.ReadOnly)
		if err != nil {
			return err
		}
		defer file.Close()
		f.ReadAt = file.ReadAt
	}
	return b.copy(f, path, have)
}

// has returns how many bytes of a segment the backup has. A file that another program removed or
// cut off is made again.
func (b *backup) has(id record.SegmentID, path string) (int64, error) {
	if b.old == nil {
		return 0, nil
	}
	was, ok := b.old.Find(id)
	if !ok {
		return 0, nil
	}
	f, err := b.fsys.Open(path, vfs.ReadOnly)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	size, err := f.Size()
	if err = errors.Join(err, f.Close()); err == nil && size < was.Bytes {
		return 0, b.fsys.Remove(path)
	}
	return was.Bytes, err
}

// backupPiece is the number of bytes copied between two checks of the context.
const backupPiece = 1 << 20

// copy writes the missing bytes of the backup's file of a segment.
func (b *backup) copy(from seglog.PrefixFile, path string, have int64) (err error) {
	mode := vfs.Create
	if have > 0 {
		mode = vfs.ReadWrite
	}
	f, err := b.fsys.Open(path, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buf := make([]byte, min(backupPiece, from.Bytes-have))
	for at := have; at < from.Bytes; {
		if err := b.ctx.Err(); err != nil {
			return err
		}
		p := buf[:min(int64(len(buf)), from.Bytes-at)]
		n, err := from.ReadAt(p, at)
		switch {
		case n == len(p):
		case err != nil && err != io.EOF:
			return err
		default:
			return &seglog.CorruptError{File: from.Path, Offset: at + int64(n), Reason: "the file ends here"}
		}
		if _, err := f.WriteAt(p, at); err != nil {
			return err
		}
		at += int64(len(p))
		b.report.Copied += int64(len(p))
		b.advance(int64(len(p)))
	}
	if b.restores {
		if err := b.verify(from, path, f); err != nil {
			return err
		}
	}
	return f.Sync()
}

// verify reads a segment that was copied, record by record.
func (b *backup) verify(e seglog.PrefixFile, path string, f vfs.File) error {
	text := make([]byte, record.MaxHeaderBytes)
	n, _ := f.ReadAt(text, 0)
	h, head, err := record.ParseSegmentHeader(text[:n])
	if err == nil && (h.ID != e.ID || h.Salt != e.Salt) {
		err = fmt.Errorf("it is not the segment that the manifest names")
	}
	if err != nil {
		return seglog.FormatError(path, 0, err)
	}
	s := &seglog.Scanner{File: f, Salt: e.Salt, Offset: int64(head), End: e.Bytes}
	for s.Offset < e.Bytes {
		at, _, err := s.Next()
		var d *seglog.Damage
		if errors.As(err, &d) {
			return seglog.FormatError(path, at, d.Reason)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *backup) advance(n int64) {
	if b.done += n; b.progress != nil {
		b.progress(b.done, b.total)
	}
}

// commit makes the new manifest the backup's.
func (b *backup) commit() error {
	if err := b.ctx.Err(); err != nil {
		return err
	}
	if err := files.SyncDir(b.fsys, b.dir); err != nil {
		return err
	}
	if !b.restores {
		if err := b.note(sumOf(b.new.Encode())); err != nil {
			return err
		}
	}
	return seglog.WriteManifest(b.fsys, b.dir, b.new)
}

// sweep removes the segments that are not in a manifest which is in place; nil means none. Files
// that cannot be removed now do not count, and are removed the next time.
func (b *backup) sweep(m *seglog.Manifest) {
	if now, err := seglog.ReadManifest(b.fsys, b.dir); err != nil || (now == nil) != (m == nil) || now != nil && now.Edit != m.Edit {
		return // it is not known which one is in place
	}
	names, err := b.fsys.List(b.dir)
	if err != nil {
		return
	}
	for _, name := range names {
		id, ok := record.ParseFileName(name)
		if !ok {
			continue
		}
		if m != nil {
			if _, named := m.Find(id); named {
				continue
			}
		}
		b.fsys.Remove(filepath.Join(b.dir, name))
	}
}
