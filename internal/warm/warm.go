package warm

// LineBytes is the length of a cache line of most processors.
const LineBytes = 64

// Each asks for the line at each of the addresses.
func Each(at []uintptr) {
	if len(at) > 0 {
		each(&at[0], len(at))
	}
}

// Range asks for n lines from an address on.
func Range(at uintptr, n int) { lines(at, n) }
