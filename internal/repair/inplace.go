package repair

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// InPlace puts a repaired store in the place of the damaged one, which is kept.
//
//  1. Repair dir into dir.repaired. When all of that is durable, dir.repaired stays unfinished.
//  2. Exchange the two directories, in one step where the platform can. Otherwise the damaged one gets the name of
//     step 3 first, and the new one its name then. Sync the directory above.
//  3. Rename dir.repaired, which is the damaged store now, to dir.damaged. Sync the directory above.
//  4. Remove the note that dir is unfinished.
//
// A crash leaves one of these states, and the next call goes on. Before step 2 dir is the damaged
// store, and dir.repaired is made again. After it dir is unfinished, with the note; the missing
// steps of 3 and 4 are done. Without an exchange a crash can leave no dir at all, and dir.repaired
// takes its place then. The lock of the damaged store is held until the end, but for renames
// without an exchange.

// suffixes of the names beside a store that is repaired in place.
const (
	repairedSuffix = ".repaired"
	damagedSuffix  = ".damaged"
)

// InPlace repairs the store in dir, and returns where the damaged one is now.
func InPlace(ctx context.Context, dir string, opts Options) (report Report, damaged string, err error) {
	if opts.FS == nil {
		opts.FS = vfs.OS()
	}
	x := &exchange{fsys: opts.FS, dir: dir, into: dir + repairedSuffix}
	placed, err := x.placed()
	if err != nil {
		return report, "", err
	}
	if !placed {
		report, err = repairTo(ctx, dir, x.into, opts, x.place)
		return report, x.aside, err
	}
	if err := x.goOn(); err != nil {
		return report, "", err
	}
	opts.DryRun = true // this call must report the losses
	report, err = Repair(ctx, x.aside, "", opts)
	return report, x.aside, err
}

type exchange struct {
	fsys      vfs.FS
	dir, into string
	aside     string // of the damaged store, at last
}

// placed reports whether an earlier call has come to step 2.
func (x *exchange) placed() (bool, error) {
	here, err := x.isOurs(x.dir)
	if here || err != nil {
		return here, err
	}
	if _, err := x.fsys.List(x.dir); !errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	made, err := x.isOurs(x.into)
	if !made || err != nil {
		return false, err
	}
	m, err := seglog.ReadManifest(x.fsys, x.into)
	return m != nil, err
}

// isOurs reports whether a directory is the new store.
func (x *exchange) isOurs(dir string) (bool, error) {
	err := seglog.ReadUnfinished(x.fsys, dir)
	var u *seglog.UnfinishedError
	if errors.As(err, &u) {
		return u.Unfinished == seglog.Unfinished{Work: seglog.RepairWork, Source: x.dir}, nil
	}
	return false, err
}

// place does the steps from the second on. Release gives back the lock of the damaged store.
func (x *exchange) place(made *seglog.Making, release func()) (begun bool, err error) {
	if x.aside, _, err = x.names(); err != nil {
		return false, err
	}
	switch err := vfs.Exchange(x.fsys, x.dir, x.into); {
	case errors.Is(err, errors.ErrUnsupported):
		release()
		made.Leave()
		if err := x.fsys.Rename(x.dir, x.aside); err != nil {
			return false, seglog.NoSpace(err)
		}
		return true, x.goOn()
	case err != nil:
		return false, seglog.NoSpace(err)
	}
	defer made.Leave()
	return true, x.goOn()
}

// goOn does the remaining steps once the damaged store has left its place.
func (x *exchange) goOn() error {
	vacant, taken, err := x.names()
	if err != nil {
		return err
	}
	x.aside = taken
	here, err := x.isOurs(x.dir)
	switch _, missing := x.fsys.List(x.into); {
	case err != nil:
		return err
	case !here: // without an exchange
		err = x.rename(x.into, x.dir)
	case missing == nil:
		x.aside = vacant
		if err = files.SyncParent(x.fsys, x.dir); err == nil { // the exchange
			err = x.rename(x.into, vacant)
		}
	default:
		err = files.SyncParent(x.fsys, x.dir)
	}
	if err != nil {
		return seglog.NoSpace(err)
	}
	return seglog.EndUnfinished(x.fsys, x.dir)
}

func (x *exchange) rename(from, to string) error {
	if err := x.fsys.Rename(from, to); err != nil {
		return err
	}
	return files.SyncParent(x.fsys, x.dir)
}

// names returns the first of dir.damaged, dir.damaged-2 and so on that nothing has, and the one before it.
func (x *exchange) names() (vacant, taken string, err error) {
	names, err := x.fsys.List(filepath.Dir(x.dir))
	if err != nil {
		return "", "", fmt.Errorf("copal: %w", err)
	}
	vacant = x.dir + damagedSuffix
	for n := 2; slices.Contains(names, filepath.Base(vacant)); n++ {
		taken, vacant = vacant, fmt.Sprintf("%s%s-%d", x.dir, damagedSuffix, n)
	}
	return vacant, taken, nil
}
