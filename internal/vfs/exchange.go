package vfs

import "errors"

// Exchange gives two directories, or two files, each other's name in one step. Where that cannot be done, the
// error is errors.ErrUnsupported, and nothing has changed.
func Exchange(fs FS, a, b string) error {
	x, ok := fs.(interface{ Exchange(a, b string) error })
	if !ok {
		return errors.ErrUnsupported
	}
	return x.Exchange(a, b)
}

// Exchange is the operation of the operating system.
func (osFS) Exchange(a, b string) error { return exchangeNames(a, b) }
