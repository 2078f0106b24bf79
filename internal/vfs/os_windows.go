package vfs

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// Windows differs in three places: a file must be opened in a way that lets it be
// removed meanwhile, byte-range locks are mandatory, and directories are durable
// by themselves (NTFS journals names), so that there is nothing to sync.

// openFile is os.OpenFile with FILE_SHARE_DELETE added, and follows no link: the store removes and
// replaces files that readers still have open.
func openFile(name string, flag int, _ fs.FileMode) (*os.File, error) {
	if err := irregular(name); err != nil && flag&os.O_EXCL == 0 {
		return nil, err
	}
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	access, disposition := uint32(windows.GENERIC_READ), uint32(windows.OPEN_EXISTING)
	share := uint32(windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE)
	if flag&(os.O_RDWR|os.O_WRONLY) != 0 {
		access |= windows.GENERIC_WRITE
	}
	switch {
	case flag&os.O_EXCL != 0:
		disposition = windows.CREATE_NEW
	case flag&os.O_CREATE != 0:
		disposition = windows.OPEN_ALWAYS
		share &^= windows.FILE_SHARE_DELETE // a lock keeps its name
	}
	h, err := windows.CreateFile(path, access, share, nil, disposition, windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return os.NewFile(uintptr(h), name), nil
}

// lockedRange lies far beyond the text of the file: a locked byte cannot be read by others, and the
// text names the process that holds the lock.
func lockedRange() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: 1 << 30} }

func lockFile(f *os.File) error {
	const how = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := onFD(f, nil, func(fd uintptr) error {
		return windows.LockFileEx(windows.Handle(fd), how, 0, 1, 0, lockedRange())
	})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return errLockHeld
	}
	return err
}

func unlockFile(f *os.File) error {
	return onFD(f, nil, func(fd uintptr) error {
		return windows.UnlockFileEx(windows.Handle(fd), 0, 1, 0, lockedRange())
	})
}

func openDir(dir string) (*os.File, error) { return os.Open(dir) }

func syncDir(*os.File) error { return nil }

func isNotDirectory(err error) bool { return errors.Is(err, windows.ERROR_DIRECTORY) }

func isNoSpace(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}

// lockDir has nothing to add to the lock of the file here.
func lockDir(*os.File) error { return nil }

func unlockDir(*os.File) {}

func processExists(int) bool { return true } // as far as is known here
