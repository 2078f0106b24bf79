//go:build !unix

package serving

// descriptorLimit is not known here.
func descriptorLimit() (limit int, known bool) { return 0, false }
