//go:build amd64 || arm64

package warm

//go:noescape
func each(at *uintptr, n int)

//go:noescape
func lines(at uintptr, n int)
