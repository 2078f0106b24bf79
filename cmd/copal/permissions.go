package main

import (
	"fmt"
	"io/fs"
	"strconv"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/vfs"
)

// permissions are those of a file, in octal digits as chmod takes them. Without a value they are 0600.
type permissions fs.FileMode

func (p *permissions) bits() fs.FileMode { return fs.FileMode(*p) | vfs.OwnerOnly }

func (p *permissions) String() string { return fmt.Sprintf("%04o", uint32(p.bits())) }

func (p *permissions) Type() string { return "mode" }

func (p *permissions) Set(text string) error {
	n, err := strconv.ParseUint(text, 8, 32)
	if err != nil || n&^0o666 != 0 || n&0o600 != 0o600 {
		return usageError{"permissions are octal digits, such as 0600 or 0640; the owner reads and writes, and nobody executes"}
	}
	*p = permissions(n)
	return nil
}

// withMode has the store make its files with the permissions that the command line names.
func (a *app) withMode() copal.Option { return copal.WithFileMode(a.fileMode.bits()) }
