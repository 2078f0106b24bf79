package vfs

import "golang.org/x/sys/unix"

// Apple's kernel numbers its boots as Linux does.
func bootID() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}
