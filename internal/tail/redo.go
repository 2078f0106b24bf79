package tail

import (
	"errors"
	"fmt"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/laps"
	"github.com/copaldb/copal/internal/vfs"
)

// Bytes that recovery has found in an open segment, beyond those known to be durable, are rewritten
// before they count as durable.
//
// The page cache may show bytes that the disk does not have: a sync of the last process, or a
// write-back after its death, has failed, and the kernel has marked the pages clean. A sync proves
// nothing about such a page, whatever it returns. Asking the kernel to drop it does not help, as it
// keeps mapped pages. Nor does overwriting it in place: on ext4 the blocks of a reserved extent
// count as unwritten until a write to them has succeeded. After a failed one the pages are taken
// for written, so a second one that succeeds leaves zeros on the disk.
//
// So the file is copied to a new one, with the bytes that were only in the ring. The copy is synced
// and takes the file's name, and the directory is synced. It is the same segment, byte for byte. A
// crash leaves the old file or the new one.
//
// Bytes not known to be durable are verified while they are copied: after a failed write-back the
// kernel may forget them at any time, and a copy of the zeros that it shows then would count as
// durable.
//
// This is done once, by the first write or the first call that asks for durability. Until then the
// mark has the place up to which the log is durable.
//
// Damage is final: bytes that were shown are gone, and every later copy would lack them, too. So is
// a failed sync of the directory, or of a file in place. Any other failure concerns a copy that
// does not count, or a read that proves nothing about the bytes: nothing has changed, and the next
// call tries again.
//
// Where the disk has no room for the copy, and no sync is known to have failed, a log may settle
// for less, so that writes that give back room work on a full disk (SettleInPlace). It writes the
// bytes that were only in the ring to the file, and syncs it in place. It syncs the directory, too:
// a process that was killed on the way may have renamed a copy, and that is the file that was
// synced.

// Copy is the replacement of a file.
type Copy struct {
	Path  string                  // of the file
	Write func(to vfs.File) error // writes the whole content, and verifies the part not known to be durable
	File  vfs.File                // the copy, when it has the path
}

// Redo makes copies beside the files, durable, and puts them in the places of those, in order, also
// durably. A crash leaves each file or its copy. take calls rename once, which does that, and if it
// succeeds has the copies' Files; take must prevent readers from opening only one of two files
// meanwhile. If Redo fails there are no copies beside the files any more. Unless the log has failed
// a later call may try again.
func (l *Tails) Redo(copies []Copy, take func(rename func() error) error) error {
	err := l.makeCopies(copies)
	if err == nil {
		err = take(func() error { return l.renameCopies(copies) })
	}
	if err != nil {
		return fmt.Errorf("rewriting the records of an earlier process: %w", errors.Join(err, l.dropCopies(copies)))
	}
	return l.SyncDir()
}

func (l *Tails) makeCopies(copies []Copy) (err error) {
	for i := range copies {
		c := &copies[i]
		if c.File, err = files.Make(l.Owner.FS, c.Path+files.TempSuffix, c.Write); err != nil {
			return err
		}
	}
	return nil
}

func (l *Tails) renameCopies(copies []Copy) error {
	for _, c := range copies {
		if err := l.Owner.FS.Rename(c.Path+files.TempSuffix, c.Path); err != nil {
			return err
		}
	}
	return nil
}

func (l *Tails) dropCopies(copies []Copy) error {
	var errs []error
	for _, c := range copies {
		if c.File != nil {
			errs = append(errs, c.File.Close(), files.Remove(l.Owner.FS, c.Path+files.TempSuffix))
		}
	}
	return errors.Join(errs...)
}

// Fill writes the bytes that were only in the ring to a file; their offsets count from base on.
func Fill(f vfs.File, base int64, over laps.Overlay) error {
	for _, p := range over {
		if _, err := f.WriteAt(p.Bytes, base+p.At); err != nil {
			return fmt.Errorf("writing the bytes of the ring to the log: %w", err)
		}
	}
	return nil
}

// SettleInPlace writes the bytes that were only in the ring to a file, and syncs it. It sets the
// length again, so that the sync writes that, too: a write-back that has failed may have left a
// shorter file on the disk.
func (l *Tails) SettleInPlace(f vfs.File, path string, base int64, over laps.Overlay) error {
	if err := Fill(f, base, over); err != nil {
		return err
	}
	n, err := f.Size()
	if err == nil {
		err = errors.Join(f.Truncate(n+1), f.Truncate(n))
	}
	if err != nil {
		return err
	}
	return l.Sync(f, path)
}
