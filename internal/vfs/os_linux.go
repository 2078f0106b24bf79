package vfs

import (
	"errors"
	"math"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Linux has all that the seam asks for. Mapping needs a 64-bit address space to
// be of use to a log, so a 32-bit build takes the pwrite way.

const canMap = ^uint(0)>>63 == 1

// syncFile leaves out fsync's time stamps; size and extents are in.
func syncFile(f *os.File) error {
	return onFD(f, unix.EINTR, func(fd uintptr) error { return unix.Fdatasync(int(fd)) })
}

// allocate keeps the size, so that a reserved file reads as it was written and has no tail of
// zeros. Space beyond the process's limit on file sizes is not reserved: with the size kept, ext4
// does not check that limit.
func allocate(f *os.File, off, n int64) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err == nil && uint64(off)+uint64(n) > limit.Cur {
		return unix.EFBIG
	}
	err := onFD(f, unix.EINTR, func(fd uintptr) error {
		return unix.Fallocate(int(fd), unix.FALLOC_FL_KEEP_SIZE, off, n)
	})
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return errors.ErrUnsupported
	}
	return err
}

func freeBytes(dir string) (bytes int64, known bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return freeIn(&st)
}

// freeIn counts in the unit of blocks, which need not be the unit of transfers. A file system
// without blocks, as one in memory without a limit, does not report how many it has.
func freeIn(st *unix.Statfs_t) (bytes int64, known bool) {
	if st.Blocks == 0 || st.Frsize <= 0 {
		return 0, false
	}
	return int64(min(st.Bavail, math.MaxInt64/uint64(st.Frsize))) * int64(st.Frsize), true
}

// exchangeNames is refused by some file systems and by old kernels, with one of several errors.
func exchangeNames(a, b string) error {
	err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	switch err {
	case nil:
		return nil
	case unix.ENOSYS, unix.EINVAL, unix.EOPNOTSUPP:
		return errors.ErrUnsupported
	}
	return &os.LinkError{Op: "exchange", Old: a, New: b, Err: err}
}

func prefetch(f *os.File, off, n int64) {
	onFD(f, unix.EINTR, func(fd uintptr) error { return unix.Fadvise(int(fd), off, n, unix.FADV_WILLNEED) })
}

// cacheID needs the number of the mount that is never given again (Linux 6.8): an unmount drops
// pages that could not be written, and a mount has another cache.
func cacheID(dir string) string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	const mountIDUnique = 0x4000 // STATX_MNT_ID_UNIQUE
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, dir, 0, mountIDUnique, &st) != nil || st.Mask&mountIDUnique == 0 {
		return ""
	}
	return strings.TrimSpace(string(boot)) + "/" + strconv.FormatUint(st.Mnt_id, 16)
}

// fileID is the number of the inode and, because that may be given again, when the file was made. FAT keeps that as
// local time, so it changes with the machine's time zone.
func fileID(f *os.File) string {
	var st unix.Statx_t
	err := onFD(f, unix.EINTR, func(fd uintptr) error {
		return unix.Statx(int(fd), "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &st)
	})
	if err != nil || st.Mask&unix.STATX_INO == 0 {
		return ""
	}
	id := strconv.FormatUint(st.Ino, 16)
	var fs unix.Statfs_t
	if st.Mask&unix.STATX_BTIME != 0 && onFD(f, unix.EINTR, func(fd uintptr) error { return unix.Fstatfs(int(fd), &fs) }) == nil && fs.Type != unix.MSDOS_SUPER_MAGIC {
		id += bornMark + strconv.FormatInt(st.Btime.Sec, 16) + "." + strconv.FormatUint(uint64(st.Btime.Nsec), 16)
	}
	return id
}

type mappedRegion struct {
	b    []byte
	kept int // bytes of b that are mapped
}

func mapFile(f *os.File, off int64, n int, writable bool) (Region, error) {
	prot := unix.PROT_READ
	if writable {
		prot |= unix.PROT_WRITE
	}
	r := &mappedRegion{kept: n}
	err := onFD(f, unix.EINTR, func(fd uintptr) error {
		p, err := unix.MmapPtr(int(fd), off, nil, uintptr(n), prot, unix.MAP_SHARED)
		if err == nil {
			r.b = unsafe.Slice((*byte)(p), n)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	notePlace(f.Name(), off, r.b)
	return r, nil
}

// trim unmaps the pages after the first n bytes. They take address space, of which some machines
// have little.
func (r *mappedRegion) trim(n int) {
	page := os.Getpagesize()
	if n = (n + page - 1) / page * page; 0 < n && n < r.kept && unix.MunmapPtr(unsafe.Pointer(&r.b[n]), uintptr(r.kept-n)) == nil {
		r.kept = n
	}
}

// adviseRandom keeps reads of a file that is mapped from reading ahead, which may be megabytes for each
// record that is asked for.
func adviseRandom(f *os.File, r Region) {
	if m, ok := r.(*mappedRegion); ok {
		unix.Madvise(m.b, unix.MADV_RANDOM) // it is advice
	}
	onFD(f, unix.EINTR, func(fd uintptr) error { return unix.Fadvise(int(fd), 0, 0, unix.FADV_RANDOM) })
}

func (r *mappedRegion) Bytes() []byte { return r.b }

// Load and Store slice first: copy alone would drop bytes that do not fit.

func (r *mappedRegion) Load(off int, p []byte) error { return guardedCopy(p, r.b[off:off+len(p)]) }

func (r *mappedRegion) Store(off int, p []byte) error { return guardedCopy(r.b[off:off+len(p)], p) }

// guardedCopy makes an error of the signal that touching a page may be: one that lies
// beyond the end of a file which was cut, cannot be read, or has no room on the disk.
func guardedCopy(to, from []byte) (err error) {
	defer Caught(Catch(), nil, &err)
	copy(to, from)
	return nil
}

// Populate touches each page where the kernel is older than the call (Linux 5.14).
func (r *mappedRegion) Populate(off, n int) error {
	from := off &^ (os.Getpagesize() - 1)
	pages := r.b[from : off+n]
	const populateWrite = 23 // MADV_POPULATE_WRITE
	err := unix.Madvise(pages, populateWrite)
	for err == unix.EINTR || err == unix.EAGAIN {
		err = unix.Madvise(pages, populateWrite)
	}
	if err != unix.EINVAL {
		return os.NewSyscallError("madvise", err)
	}
	for i := 0; i < len(pages); i += os.Getpagesize() {
		if err := guardedCopy(pages[i:i+1], pages[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

func (r *mappedRegion) Sync() error {
	if r.b == nil {
		return os.ErrClosed
	}
	for {
		if err := unix.Msync(r.b, unix.MS_SYNC); err != unix.EINTR {
			return os.NewSyscallError("msync", err)
		}
	}
}

func (r *mappedRegion) Close() error {
	b := r.b
	r.b = nil
	if b == nil {
		return os.ErrClosed
	}
	forgetPlace(b)
	return os.NewSyscallError("munmap", unix.MunmapPtr(unsafe.Pointer(&b[0]), uintptr(r.kept)))
}

// pidNamespace names the namespace in which this process has its number.
func pidNamespace() string {
	name, _ := os.Readlink("/proc/self/ns/pid")
	return name
}
