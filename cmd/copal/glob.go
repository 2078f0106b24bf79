package main

import "bytes"

// A pattern is compared with a key byte by byte: * stands for any bytes, none among them,
// ? for one, [a-z] for one of those, [^a-z] for one of the others, and \ takes the
// meaning from what follows it. They are the patterns of Redis, in which no byte, as a slash
// in those of files, is left out.

// matches reports whether key is one that pattern stands for.
func matches(pattern, key []byte) bool {
	star, mark := -1, 0 // where the last * is, and up to where of key it reaches
	p, k := 0, 0
	for k < len(key) {
		if p < len(pattern) && pattern[p] == '*' {
			star, mark = p, k
			p++
			continue
		}
		if n, ok := matchOne(pattern[p:], key[k]); ok {
			p, k = p+n, k+1
			continue
		}
		if star < 0 {
			return false
		}
		mark++
		p, k = star+1, mark
	}
	return len(bytes.Trim(pattern[p:], "*")) == 0
}

// matchOne compares the first element of pattern, which is no *, with a byte. n is its length.
func matchOne(pattern []byte, b byte) (n int, ok bool) {
	if len(pattern) == 0 {
		return 0, false
	}
	switch pattern[0] {
	case '?':
		return 1, true
	case '\\':
		if len(pattern) > 1 {
			return 2, pattern[1] == b
		}
	case '[':
		return matchClass(pattern, b)
	}
	return 1, pattern[0] == b
}

// matchClass compares [...] with a byte. One that is not closed goes to the end of the pattern.
func matchClass(pattern []byte, b byte) (n int, ok bool) {
	i := 1
	not := i < len(pattern) && pattern[i] == '^'
	if not {
		i++
	}
	next := func() byte {
		if pattern[i] == '\\' && i+1 < len(pattern) {
			i++
		}
		i++
		return pattern[i-1]
	}
	for i < len(pattern) && pattern[i] != ']' {
		low := next()
		high := low
		if i+1 < len(pattern) && pattern[i] == '-' && pattern[i+1] != ']' {
			i++
			high = next()
		}
		ok = ok || min(low, high) <= b && b <= max(low, high)
	}
	return min(i+1, len(pattern)), ok != not
}

// literal is what each key begins with that pattern stands for.
func literal(pattern []byte) []byte {
	var prefix []byte
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '*', '?', '[':
			return prefix
		case '\\':
			if i+1 < len(pattern) {
				i++
			}
		}
		prefix = append(prefix, pattern[i])
	}
	return prefix
}
