package seglog

import (
	"errors"
	"fmt"

	"github.com/copaldb/copal/internal/vfs"
)

// ErrSyncDir marks the error of a directory's sync, after which it is not known which of its
// names will be there after a power cut.
var ErrSyncDir = errors.New("sync of the directory")

func SyncDir(fsys vfs.FS, dir string) error {
	if err := fsys.SyncDir(dir); err != nil {
		return fmt.Errorf("%w: %w", ErrSyncDir, err)
	}
	return nil
}
