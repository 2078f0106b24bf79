package vfs

import (
	"fmt"
	"math/bits"
)

// Op is one operation on a file system, at a boundary of the crash model and in the injector's
// trace.
type Op struct {
	Kind    Kind
	Name    string
	NewName string // OpRename and OpLink only
	Off     int64  // OpTruncate: the new size
	Len     int64
}

func (o Op) String() string {
	switch o.Kind {
	case OpRename, OpLink:
		return fmt.Sprintf("%v %s to %s", o.Kind, o.Name, o.NewName)
	case OpTruncate:
		return fmt.Sprintf("truncate %s at %d", o.Name, o.Off)
	case OpRead, OpWrite, OpLoad, OpStore, OpPopulate, OpMap, OpMsync, OpAllocate:
		return fmt.Sprintf("%v %s [%d,%d)", o.Kind, o.Name, o.Off, o.Off+o.Len)
	default:
		return fmt.Sprintf("%v %s", o.Kind, o.Name)
	}
}

// Kind is a kind of operation, or by | several.
type Kind uint32

const (
	OpOpen   Kind = 1 << iota // Open of a file that is there
	OpCreate                  // Open with Create
	OpRename
	OpRemove
	OpList
	OpMkdir
	OpSyncDir
	OpLock
	OpRead
	OpWrite
	OpSize // File.Size
	OpTruncate
	OpSync
	OpAllocate
	OpMap
	OpLoad     // Region.Load
	OpStore    // Region.Store
	OpPopulate // Region.Populate
	OpMsync    // Region.Sync
	OpClose    // File.Close
	OpLink
	OpNamed // File.HasName: a look at the path

	// Mutating are the operations that change something or make it last, and can fail.
	Mutating = OpCreate | OpRename | OpLink | OpRemove | OpMkdir | OpSyncDir | OpLock |
		OpWrite | OpTruncate | OpSync | OpAllocate | OpStore | OpPopulate | OpMsync
	// Reading are the others that can fail.
	Reading = OpOpen | OpList | OpRead | OpSize | OpNamed | OpMap | OpLoad | OpClose
)

var kindNames = [...]string{"open", "create", "rename", "remove", "list", "mkdir", "syncdir", "lock", "read",
	"write", "size", "truncate", "sync", "allocate", "map", "load", "store", "populate", "msync", "close", "link", "named"}

// String names the first of the kinds.
func (k Kind) String() string {
	if i := bits.TrailingZeros32(uint32(k)); i < len(kindNames) {
		return kindNames[i]
	}
	return "none"
}
