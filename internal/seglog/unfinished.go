package seglog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// Work that makes a store takes a while, and may be killed. The file UNFINISHED in the directory
// names the work and its source. It is durable before any other file of the work exists, and is
// removed when everything else is durable. So a directory with the file is never taken for a
// damaged store, and the same work knows which files it may remove.
//
// A restore, a repair and the first backup make a store in one piece: until the file is gone there is none. An import
// and a copy write to a store, which opens and has a part of the source.

// Files of a directory in which work has not ended.
const (
	UnfinishedName = "UNFINISHED"
	UnfinishedTemp = UnfinishedName + files.TempSuffix
)

// Work is a kind of work that makes a store.
type Work string

// The kinds of work.
const (
	RestoreWork Work = "restore"
	RepairWork  Work = "repair"
	BackupWork  Work = "backup"
	ImportWork  Work = "import"
	CopyWork    Work = "copy"
)

// IsPartial reports whether the work writes to a store that opens meanwhile.
func (w Work) IsPartial() bool { return w == ImportWork || w == CopyWork }

// Unfinished is the content of UNFINISHED.
type Unfinished struct {
	Work   Work
	Source string // as the work knows it: a path from the root on, an address, or "-"
}

// maxUnfinished is more than a path takes, each byte of it escaped.
const maxUnfinished = 16 << 10

// encode writes
//
//	copal unfinished 1 work restore source /mnt/backup 5a2c9be7
func (u Unfinished) encode() []byte {
	return record.Seal(fmt.Appendf(nil, "%s work %s source %s", record.Title("unfinished"), u.Work, escapeSource(u.Source)))
}

func parseUnfinished(text []byte) (u Unfinished, err error) {
	body, err := record.Unseal(text, "unfinished")
	if err != nil {
		return u, err
	}
	f := record.NewFields(body)
	u.Work = Work(f.Word("work"))
	source := f.Word("source")
	if err := f.End(); err != nil {
		return u, err
	}
	if u.Source, err = unescapeSource(source); err == nil && (u.Work == "" || source == "" || escapeSource(u.Source) != source) {
		err = fmt.Errorf("%w: source %q", record.ErrSyntax, source)
	}
	return u, err
}

// escapeSource writes spaces, "%" and bytes that are not printable ASCII as % and two digits.
func escapeSource(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c > ' ' && c < 0x7f && c != '%' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02x", c)
		}
	}
	return b.String()
}

func unescapeSource(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		c, err := strconv.ParseUint(s[min(i+1, len(s)):min(i+3, len(s))], 16, 8)
		if err != nil {
			return "", fmt.Errorf("%w: source %q", record.ErrSyntax, s)
		}
		b.WriteByte(byte(c))
		i += 2
	}
	return b.String(), nil
}

// UnfinishedError names the work that has not ended in a directory.
type UnfinishedError struct {
	Dir string
	Unfinished
}

func (e *UnfinishedError) Error() string {
	source := "of " + e.Source
	switch {
	case e.Source == e.Dir:
		source = "in place"
	case e.Source == "-":
		source = "of standard input"
	}
	have := "it is no store yet"
	if e.Work.IsPartial() {
		have = "it has a part"
	}
	return fmt.Sprintf("copal: %s is unfinished: its %s %s was interrupted, or is still running, and %s. The same %s, run again, ends it", e.Dir, e.Work, source, have, e.Work)
}

// Is makes errors.Is(err, ErrUnfinished) true.
func (e *UnfinishedError) Is(target error) bool { return target == ErrUnfinished }

// ReadUnfinished returns an *UnfinishedError if work has not ended in dir, and nil if there is none.
func ReadUnfinished(fsys vfs.FS, dir string) error {
	path := filepath.Join(dir, UnfinishedName)
	text, _, err := files.Read(fsys, path, maxUnfinished)
	if errors.Is(err, fs.ErrNotExist) || vfs.IsNotDirectory(err) {
		return nil
	}
	if err != nil {
		return NoSpace(err)
	}
	u, err := parseUnfinished(text)
	if err != nil {
		return FormatError(path, 0, fmt.Errorf("%w. Work that made this store was interrupted. Begin it again in another directory. After an import or a copy, remove the file", err))
	}
	return &UnfinishedError{dir, u}
}

// NoUnfinished returns an error if a directory with these names is no store because work has not ended there.
func NoUnfinished(fsys vfs.FS, dir string, names []string) error {
	if !slices.Contains(names, UnfinishedName) {
		return nil
	}
	err := ReadUnfinished(fsys, dir)
	if u, ok := errors.AsType[*UnfinishedError](err); ok && u.Work.IsPartial() {
		return nil
	}
	return err
}

// NoteUnfinished writes the file, durably.
func NoteUnfinished(fsys vfs.FS, dir string, u Unfinished) error {
	err := files.Replace(fsys, filepath.Join(dir, UnfinishedName), func(f vfs.File) error {
		_, err := f.WriteAt(u.encode(), 0)
		return err
	})
	if err != nil {
		return NoSpace(err)
	}
	return nil
}

// EndUnfinished removes the file, durably, if it is there.
func EndUnfinished(fsys vfs.FS, dir string) error {
	if err := files.Remove(fsys, filepath.Join(dir, UnfinishedName)); err != nil {
		return NoSpace(err)
	}
	if err := files.SyncDir(fsys, dir); err != nil {
		return NoSpace(err)
	}
	return nil
}

// A Making is a directory in which a store is being made. It is locked.
type Making struct {
	fsys vfs.FS
	dir  string
	lock io.Closer
}

// CheckMaking returns an error unless dir is missing or empty, or has only files that an
// interrupted run of the same work has left.
func CheckMaking(fsys vfs.FS, dir string, u Unfinished) error {
	names, err := fsys.List(dir)
	if err != nil || !slices.Contains(names, UnfinishedName) {
		return WantEmpty(fsys, dir)
	}
	err = ReadUnfinished(fsys, dir)
	was, ok := errors.AsType[*UnfinishedError](err)
	if !ok {
		return err
	}
	if was.Unfinished != u {
		return Known(fs.ErrExist, "%s holds what an interrupted %s of %s has left: end that, or remove the directory", dir, was.Work, was.Source)
	}
	for _, name := range names {
		if _, segment := record.ParseFileName(name); !segment && !isOurs(name) && !Worthless(name) {
			return Known(fs.ErrExist, "%s holds %s, which the interrupted %s has not made", dir, name, was.Work)
		}
	}
	m, err := ReadManifest(fsys, dir)
	if err != nil {
		return err
	}
	if m != nil && m.Edit != 1 { // by a version that does not know the file
		return Known(fs.ErrExist, "%s holds a store that was written to since the %s was interrupted", dir, was.Work)
	}
	return nil
}

// Make begins work in dir, and removes the files that an interrupted run of the same work has left
// there.
func Make(fsys vfs.FS, dir string, u Unfinished) (*Making, error) {
	if err := CheckMaking(fsys, dir, u); err != nil {
		return nil, err
	}
	lock, err := LockDir(fsys, dir)
	if err != nil {
		return nil, err
	}
	m := &Making{fsys, dir, lock}
	if err = CheckMaking(fsys, dir, u); err == nil { // no other process changes it now
		err = m.begin(u)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return m, nil
}

func (m *Making) begin(u Unfinished) error {
	if err := files.SyncParent(m.fsys, m.dir); err != nil { // an interrupted run may have made the directory
		return NoSpace(err)
	}
	if err := ReadUnfinished(m.fsys, m.dir); err != nil {
		return m.clear()
	}
	return NoteUnfinished(m.fsys, m.dir, u)
}

// clear removes everything but the note and the lock, the manifest first.
func (m *Making) clear() error {
	names, err := m.fsys.List(m.dir)
	if err != nil {
		return NoSpace(err)
	}
	for _, name := range append([]string{ManifestName}, names...) {
		if _, segment := record.ParseFileName(name); (segment || isOurs(name)) && name != UnfinishedName {
			if err := files.Remove(m.fsys, filepath.Join(m.dir, name)); err != nil {
				return NoSpace(err)
			}
		}
	}
	return nil
}

// End ends work whose files are all durable, and unlocks the directory.
func (m *Making) End() error {
	if err := EndUnfinished(m.fsys, m.dir); err != nil {
		return err
	}
	m.lock.Close() // despite its error: the store is complete
	return nil
}

// Abandon removes the files that were made, as far as possible, and the note only if no other file
// stays.
func (m *Making) Abandon() {
	if m.clear() == nil && files.SyncDir(m.fsys, m.dir) == nil { // else a power cut may bring back a part alone
		m.fsys.Remove(filepath.Join(m.dir, UnfinishedName))
	}
	m.Leave()
}

// Leave unlocks the directory without changing it.
func (m *Making) Leave() { m.lock.Close() }
