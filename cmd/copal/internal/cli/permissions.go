package cli

import (
	"fmt"
	"io/fs"
	"strconv"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/vfs"
)

// Permissions are permissions of files, in octal digits as chmod takes them. The default is 0600.
type Permissions fs.FileMode

// Bits returns the permissions, with those of the owner.
func (p *Permissions) Bits() fs.FileMode { return fs.FileMode(*p) | vfs.OwnerOnly }

func (p *Permissions) String() string { return fmt.Sprintf("%04o", uint32(p.Bits())) }

func (p *Permissions) Type() string { return "mode" }

func (p *Permissions) Set(text string) error {
	n, err := strconv.ParseUint(text, 8, 32)
	if err != nil || n&^0o666 != 0 || n&0o600 != 0o600 {
		return UsageError("permissions are octal digits, such as 0600 or 0640; the owner reads and writes, and nobody executes")
	}
	*p = Permissions(n)
	return nil
}

// WithMode has the store make its files with the permissions that the command line names.
func (a *App) WithMode() copal.Option { return copal.WithFileMode(a.FileMode.Bits()) }
