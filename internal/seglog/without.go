package seglog

// Without leaves out of a list what is gone, in the memory of the list. It is slices.DeleteFunc, of which a program has
// a copy for each type of a slice; of this it has one for all pointers.
func Without[E any](list []E, gone func(E) bool) []E {
	kept := list[:0]
	for _, e := range list {
		if !gone(e) {
			kept = append(kept, e)
		}
	}
	clear(list[len(kept):])
	return kept
}
