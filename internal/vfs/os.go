package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
)

// The production file system: package os, plus the four things it lacks that a
// log needs: a lock that dies with its holder, a sync that skips time stamps,
// reserved space and mapping. Each platform supplies those as plain
// functions (os_linux.go, os_unix.go, os_windows.go …); this file decides when
// they are called and how their errors read.
//
// Left out on purpose: retries of a failed sync (the second one lies), buffering,
// and any judgement about an error. That is the store's business.

// OS returns the file system of the machine. Files that it makes are of their owner alone.
func OS() FS { return osFS{OwnerOnly} }

// OwnerOnly are the permissions of a file that its owner alone may read and write.
const OwnerOnly fs.FileMode = 0o600

// OSWithMode is OS with other permissions of the files that are made, whatever the umask. In a directory that is
// made, those that may read a file may search it.
func OSWithMode(mode fs.FileMode) FS { return osFS{mode} }

type osFS struct{ mode fs.FileMode }

func (s osFS) dirMode() fs.FileMode { return s.mode | s.mode&0o444>>2 }

var openFlags = [...]int{
	ReadOnly:  os.O_RDONLY,
	ReadWrite: os.O_RDWR,
	Create:    os.O_RDWR | os.O_CREATE | os.O_EXCL,
}

func (s osFS) Open(name string, mode Mode) (File, error) {
	f, err := OpenRegular(name, openFlags[mode], s.mode)
	if err != nil {
		return nil, err
	}
	return &osFile{File: f, writable: mode != ReadOnly}, nil
}

// OpenRegular opens the regular file that has the name itself, as os.OpenFile does, or makes it. A directory that a
// stranger may write to can have anything under the name of a file: a symbolic link would have another file read or
// cut, and a pipe has its opener wait for ever. Either is an error, as is a socket, a device, and a directory.
func OpenRegular(name string, flag int, mode fs.FileMode) (*os.File, error) {
	f, err := openFile(name, flag, mode)
	if err != nil {
		if flag&os.O_EXCL == 0 && irregular(name) != nil {
			err = irregular(name)
		}
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = refuse(name, info)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if flag&os.O_CREATE != 0 && mode != OwnerOnly && info.Size() == 0 {
		f.Chmod(mode) // from which the umask may have taken; some file systems have no permissions
	}
	return f, nil
}

// irregular is the error for a name that something else than a regular file has, nil if nothing has it.
func irregular(name string) error {
	info, err := os.Lstat(name)
	if err != nil {
		return nil
	}
	return refuse(name, info)
}

// refuse returns the error for a name that is no regular file. Windows has more kinds, such as
// files that are fetched when they are read.
func refuse(name string, info fs.FileInfo) error {
	var kind string
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		kind = "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		kind = "a named pipe"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	case mode&fs.ModeDevice != 0:
		kind = "a device"
	case mode.IsDir():
		kind = "a directory"
	default:
		return nil
	}
	return pathError("open", name, fmt.Errorf("%w, but %s", ErrIrregular, kind))
}

// ErrIrregular is the error for a name of a link, a directory or a device where a file is expected.
var ErrIrregular = errors.New("it is no file")

func (osFS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }

func (osFS) Remove(name string) error { return os.Remove(name) }

func (osFS) Link(oldName, newName string) error { return os.Link(oldName, newName) }

func (osFS) List(dir string) ([]string, error) {
	f, err := openDir(dir) // os.ReadDir links 8 KB more, for sorting
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, errors.Join(err, f.Close())
}

func (s osFS) MkdirAll(dir string) error {
	dir = filepath.Clean(dir)
	info, err := os.Stat(dir)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return pathError("mkdir", dir, errNotDir)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent := filepath.Dir(dir)
	if parent == dir {
		return err
	}
	if err := s.MkdirAll(parent); err != nil {
		return err
	}
	switch err := os.Mkdir(dir, s.dirMode()); {
	case err == nil && s.mode != OwnerOnly:
		os.Chmod(dir, s.dirMode())
	case err != nil && !errors.Is(err, fs.ErrExist):
		return err
	}
	return s.SyncDir(parent)
}

func (osFS) SyncDir(dir string) error {
	d, err := openDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(syncDir(d), d.Close())
}

func (osFS) CacheID(dir string) string { return cacheID(dir) }

func (osFS) Free(dir string) (bytes int64, known bool) { return freeBytes(dir) }

// Lock writes the holder's number over the last holder's and only then cuts the
// rest off, so that the first line is always a number. Failure to write it is
// not failure to lock: a store on a full disk must still open.
func (s osFS) Lock(name string) (Lock, error) {
	f, err := OpenRegular(name, os.O_RDWR|os.O_CREATE, s.mode)
	if err != nil {
		return nil, err
	}
	switch err := lockFile(f); {
	case err == errLockHeld:
		defer f.Close()
		return nil, lockedBy(name, f)
	case err != nil:
		f.Close()
		return nil, pathError("lock", name, err)
	}
	dir, err := openDir(filepath.Dir(name))
	if err != nil {
		return nil, errors.Join(err, unlockFile(f), f.Close())
	}
	if lockDir(dir) == errLockHeld { // where directories cannot be locked, the file's lock must do
		defer f.Close()
		defer dir.Close()
		return nil, lockedBy(name, f)
	}
	text := pidText()
	if _, err := f.WriteAt(text, 0); err == nil {
		f.Truncate(int64(len(text)))
	}
	return &osLock{f, dir}, nil
}

// errLockHeld is the error of a platform's lockFile when another holder has it.
var errLockHeld = errors.New("lock is held")

type osLock struct {
	f   *os.File
	dir *os.File // locked, too, if possible, in case another program removes the file
}

func (l *osLock) SyncDir() error { return syncDir(l.dir) }

// Close unlocks before it closes: a child process forked at this moment has a
// copy of the descriptor, and with it would keep the lock until its exec.
func (l *osLock) Close() error {
	unlockDir(l.dir)
	return errors.Join(unlockFile(l.f), l.f.Close(), l.dir.Close())
}

// pidText is the number of this process and, on the second line, the namespace that it is of.
func pidText() []byte {
	text := fmt.Appendf(nil, "%d\n", os.Getpid())
	if space := pidNamespace(); space != "" {
		text = fmt.Appendf(text, "%s\n", space)
	}
	return text
}

// lockedBy reads the holder of a lock from its file.
func lockedBy(name string, f io.ReaderAt) *LockedError {
	e := &LockedError{Name: name}
	var buf [96]byte
	n, _ := f.ReadAt(buf[:], 0)
	line, rest, whole := bytes.Cut(buf[:n], []byte("\n"))
	if pid, err := strconv.Atoi(string(line)); err == nil && whole {
		e.PID = pid
		if line, _, whole = bytes.Cut(rest, []byte("\n")); whole {
			e.Space = string(line)
		}
	}
	return e
}

type osFile struct {
	*os.File
	writable bool
	self     atomic.Pointer[fs.FileInfo] // nil before HasName was asked
}

func (f *osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f *osFile) ID() string { return fileID(f.File) }

// HasName stats the file itself once, because its identity does not change.
func (f *osFile) HasName(name string) (bool, error) {
	named, err := os.Lstat(name) // a link to this file is no name of it
	if errors.Is(err, fs.ErrNotExist) || IsNotDirectory(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	self := f.self.Load()
	if self == nil {
		info, err := f.Stat()
		if err != nil {
			return false, err
		}
		self = &info
		f.self.Store(self)
	}
	return os.SameFile(*self, named), nil
}

func (f *osFile) Sync() error { return f.wrap("sync", syncFile(f.File)) }

func (f *osFile) Allocate(off, n int64) error { return f.wrap("allocate", allocate(f.File, off, n)) }

// Prefetch asks for n bytes at off, which will be read soon. It is a hint, and does not wait.
func (f *osFile) Prefetch(off, n int64) { prefetch(f.File, off, n) }

// Map refuses a range that does not lie within the file, since touching bytes beyond its end is a
// signal instead of an error.
func (f *osFile) Map(off int64, n int) (Region, error) {
	if !canMap || mappingOff() {
		return nil, f.wrap("map", errors.ErrUnsupported)
	}
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if off < 0 || n <= 0 || off > size-int64(n) {
		return nil, f.wrap("map", errRange)
	}
	r, err := mapFile(f.File, off, n, f.writable)
	if err != nil {
		return nil, f.wrap("map", err)
	}
	return r, nil
}

func (f *osFile) View(n int64) (View, error) {
	if !canMap || mappingOff() {
		return nil, f.wrap("map", errors.ErrUnsupported)
	}
	r, err := mapFile(f.File, 0, int(n), false)
	if err != nil {
		return nil, f.wrap("map", err)
	}
	adviseRandom(f.File, r)
	return osView{r}, nil
}

type osView struct{ r Region }

func (v osView) Load(off int64, p []byte) error { return v.r.Load(int(off), p) }

func (v osView) Bytes() []byte { return v.r.Bytes() }

func (v osView) Trim(n int64) {
	if r, ok := v.r.(interface{ trim(n int) }); ok {
		r.trim(int(n))
	}
}

func (v osView) Close() error { return v.r.Close() }

// mappingOff is the user's switch, which memory honours too, so that a whole test
// run takes the way of a platform that cannot map.
func mappingOff() bool { return os.Getenv("COPAL_NO_MMAP") == "1" }

func (f *osFile) wrap(op string, err error) error {
	if _, named := errors.AsType[*fs.PathError](err); named || err == nil {
		return err
	}
	return pathError(op, f.Name(), err)
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

var (
	errNotDir = errors.New("not a directory")
	errIsDir  = errors.New("is a directory")
	errRange  = errors.New("range is not within the file")
)

// onFD lends f's descriptor to do, without the race against Close that f.Fd()
// has, and repeats a call that a signal interrupted.
func onFD(f *os.File, interrupted error, do func(fd uintptr) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	err = conn.Control(func(fd uintptr) {
		for {
			if failure = do(fd); failure == nil || failure != interrupted {
				return
			}
		}
	})
	if err != nil {
		return fs.ErrClosed // there is no other reason, but it has no public name
	}
	return failure
}
