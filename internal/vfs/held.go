package vfs

import (
	"path/filepath"
	"sync"
)

// Held is a file system with a directory that stays open, because its lock is held. SyncDir of that
// directory opens nothing: a process without descriptors, or without rights to the path, still makes
// its names durable.
//
// The kernel reports a failed sync of an open directory once. So the first failure is the answer to
// every later SyncDir of it: a caller whose names the failed sync should have saved learns of it, too.
type Held struct {
	FS
	dir  string
	lock Lock

	mu     sync.Mutex // one sync at a time; guards failed
	failed error
}

// Hold takes the lock of a name, as FS.Lock does.
func Hold(fs FS, name string) (*Held, error) {
	lock, err := fs.Lock(name)
	if err != nil {
		return nil, err
	}
	return &Held{FS: fs, dir: filepath.Dir(name), lock: lock}, nil
}

// SyncDir makes the names in a directory durable.
func (h *Held) SyncDir(dir string) error {
	if filepath.Clean(dir) != h.dir {
		return h.FS.SyncDir(dir)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failed == nil {
		h.failed = h.lock.SyncDir()
	}
	return h.failed
}

// Close gives back the lock.
func (h *Held) Close() error { return h.lock.Close() }
