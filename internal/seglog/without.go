package seglog

// Without removes the elements that are gone from a list, in its memory. It is slices.DeleteFunc,
// of which a program contains one copy for each type of slice, but one of Without for all pointers.
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
