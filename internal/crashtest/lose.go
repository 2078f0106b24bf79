package crashtest

import (
	"fmt"
	"path/filepath"

	"github.com/copaldb/copal/internal/vfs"
)

// LoseUnsynced is a write-back that fails after the death of a process: the cache goes on showing what the files of a
// directory hold, and a later sync does not bring it to the disk.
func LoseUnsynced(mem *vfs.Mem, dir string) {
	names, err := mem.List(dir)
	for _, name := range names {
		if name == "LOCK" {
			continue
		}
		f, failed := mem.Open(filepath.Join(dir, name), vfs.ReadWrite)
		if err = failed; err != nil {
			break
		}
		f.(interface{ LoseUnsynced() }).LoseUnsynced()
		f.Close()
	}
	if err != nil {
		panic(fmt.Sprintf("crashtest: a file system in memory fails: %v", err))
	}
}
