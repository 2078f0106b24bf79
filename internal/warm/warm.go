// Package warm asks the processor to bring memory near that will be read soon, so that several reads wait for
// memory together and not one after the other. It is a hint: it reads nothing, so an address may be of memory
// that is not there any more, and where the processor is not known nothing happens.
//
// It serves walks in order, which know many keys ahead: a walk over a million entries takes 1.7 times as long
// without it (docs/decisions/017-order.md). For a single read or write it brought less than a tenth.
package warm

// LineBytes is what comes near at once: a cache line of most processors.
const LineBytes = 64

// Each asks for the line at each of the addresses.
func Each(at []uintptr) {
	if len(at) > 0 {
		each(&at[0], len(at))
	}
}

// Range asks for n lines from an address on.
func Range(at uintptr, n int) { lines(at, n) }
