package crashtest

import (
	"fmt"
	"path/filepath"

	"github.com/copaldb/copal/internal/vfs"
)

// LoseUnsynced is a write-back that fails after the death of a process: the cache still shows the
// content of the files of a directory, and a later sync does not make it durable.
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
