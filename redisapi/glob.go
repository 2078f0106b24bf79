package redisapi

// glob reports whether text fits a pattern of Redis: * stands for any bytes, ? for one, [a-z] and
// [^a-z] for one of some, and \ takes the special meaning of what follows.
func glob(pattern, text []byte) bool {
	// A * that does not lead to a match is tried again with one more byte; only the last one has to
	// be, for what it takes an earlier one could not have had.
	star, rest := -1, 0
	p, t := 0, 0
	for t < len(text) {
		if p < len(pattern) {
			if pattern[p] == '*' {
				star, rest = p, t
				p++
				continue
			}
			if n, ok := one(pattern[p:], text[t]); ok {
				p += n
				t++
				continue
			}
		}
		if star < 0 {
			return false
		}
		rest++
		p, t = star+1, rest
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// one reports whether a byte fits the beginning of a pattern, which is not *, and how long that is.
func one(pattern []byte, c byte) (n int, ok bool) {
	switch pattern[0] {
	case '?':
		return 1, true
	case '[':
		return class(pattern, c)
	case '\\':
		if len(pattern) > 1 {
			return 2, pattern[1] == c
		}
	}
	return 1, pattern[0] == c
}

// class is one for [...]. One that is not closed ends with the pattern.
func class(pattern []byte, c byte) (n int, ok bool) {
	i := 1
	not := i < len(pattern) && pattern[i] == '^'
	if not {
		i++
	}
	for ; i < len(pattern) && pattern[i] != ']'; i++ {
		switch {
		case pattern[i] == '\\' && i+1 < len(pattern):
			i++
			ok = ok || pattern[i] == c
		case i+2 < len(pattern) && pattern[i+1] == '-':
			low, high := min(pattern[i], pattern[i+2]), max(pattern[i], pattern[i+2])
			ok = ok || low <= c && c <= high
			i += 2
		default:
			ok = ok || pattern[i] == c
		}
	}
	return min(i+1, len(pattern)), ok != not
}

// literal is what all texts begin with that fit a pattern.
func literal(pattern []byte) []byte {
	for i, c := range pattern {
		switch c {
		case '*', '?', '[', '\\':
			return pattern[:i]
		}
	}
	return pattern
}
