package importing

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// ProgressName is a file in the store's directory that has the progress of an import, from the
// first sync until the import ends. It is written after a sync of the store. So a resumed import
// repeats the later entries, which changes nothing.
const ProgressName = "IMPORT"

// saveEvery is about how many bytes of entries may have to be read again.
const saveEvery = 64 << 20

// importProgress is the content of the file.
type importProgress struct {
	File   string `json:"file"` // its whole path, "-" for standard input
	Format string `json:"format"`
	Head   uint32 `json:"head"` // CRC-32C of its first 4 KiB, or of all bytes of a shorter one
	Bytes  int    `json:"headBytes"`
	Items  int64  `json:"items"` // that were dealt with
}

const headBytes = 4 << 10

// progressNow returns the progress of this run. Every format gives its entries in the same order
// each time.
func (in *Intake) progressNow() importProgress {
	p := importProgress{File: in.Path, Format: in.format.Name, Items: in.done}
	if abs, err := files.Path(in.Path); err == nil && in.Path != "-" {
		p.File = abs
	}
	p.Bytes = min(len(in.head), headBytes)
	p.Head = crc32.Checksum(in.head[:p.Bytes], crc32.MakeTable(crc32.Castagnoli))
	return p
}

// work returns the note that the store has while it has a part of the import.
func (in *Intake) work() seglog.Unfinished {
	return seglog.Unfinished{Work: seglog.ImportWork, Source: in.progressNow().File}
}

// findProgress finds the number of items to skip.
func (in *Intake) findProgress() error {
	switch {
	case !in.Resume:
		return nil
	case in.Far:
		return errResumeFar
	}
	text, _, err := files.Read(vfs.OS(), in.progressPath(), 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		in.warn("there is nothing to resume, so the import begins at the beginning")
		return nil
	}
	var was importProgress
	if err == nil {
		err = json.Unmarshal(text, &was)
	}
	if err != nil {
		return fmt.Errorf("%s: %w; without --resume the import begins at the beginning", in.progressPath(), err)
	}
	now := in.progressNow()
	if was.Bytes > len(in.head) || was.File != now.File || was.Format != now.Format ||
		was.Head != crc32.Checksum(in.head[:was.Bytes], crc32.MakeTable(crc32.Castagnoli)) {
		return fmt.Errorf("it was another import that was interrupted: of %s, as %s; without --resume this one begins at the beginning", was.File, was.Format)
	}
	in.skip = was.Items
	return nil
}

// errResumeFar is for a store on a server, which has no place for the file.
var errResumeFar = cli.UsageError("--resume needs a directory that no server has open: on a server nothing says how far an import is; done again from the beginning, it gives the same")

func (in *Intake) progressPath() string { return cli.Inside(in.Dir, ProgressName) }

// save notes the progress of the import when enough has come since the last time.
func (in *Intake) save() error {
	if in.unsaved < saveEvery {
		return nil
	}
	return in.saveNow()
}

// saveNow makes the writes durable, and notes the progress. The batch is empty.
func (in *Intake) saveNow() error {
	in.unsaved = 0
	if in.Far {
		return in.To.Sync(in.ending())
	}
	if err := in.DB.Sync(); err != nil || in.format.Live {
		return err
	}
	text, err := json.Marshal(in.progressNow())
	if err != nil {
		return err
	}
	return files.Replace(vfs.OSWithMode(in.FileMode.Bits()), in.progressPath(), func(f vfs.File) error {
		_, err := f.WriteAt(append(text, '\n'), 0)
		return err
	})
}

// stopped notes the progress of an import that ends early.
func (in *Intake) stopped(err error) error {
	if in.Far {
		return fmt.Errorf("%w; the server has what was read before that, of the last %d entries perhaps a part, and the import done again from the beginning gives the same", err, BatchEntries)
	}
	if in.done <= in.skip {
		return err
	}
	if failed := in.saveNow(); failed != nil {
		return errors.Join(err, failed)
	}
	if in.format.Live {
		return fmt.Errorf("%w; what was read before that is in the store", err)
	}
	return fmt.Errorf("%w; what stands before that is in the store, and --resume goes on there", err)
}

// forgetProgress removes the file of an import that has ended.
func (in *Intake) forgetProgress() error {
	if in.Far {
		return nil
	}
	if err := os.Remove(in.progressPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
