package glob

import "bytes"

// Match reports whether all of text fits the pattern.
func Match(pattern, text []byte) bool {
	for len(pattern) > 0 && pattern[0] != '*' {
		if len(text) == 0 {
			return false
		}
		n, ok := one(pattern, text[0])
		if !ok {
			return false
		}
		pattern, text = pattern[n:], text[1:]
	}
	if len(pattern) == 0 {
		return len(text) == 0
	}
	for {
		for len(pattern) > 0 && pattern[0] == '*' {
			pattern = pattern[1:]
		}
		size, bytesOf, plain := part(pattern)
		if size == len(pattern) {
			return len(text) >= bytesOf && fits(pattern, text[len(text)-bytesOf:])
		}
		at := find(pattern[:size], bytesOf, plain, text)
		if at < 0 {
			return false
		}
		pattern, text = pattern[size:], text[at+bytesOf:]
	}
}

// Literal returns the longest beginning that all texts have that fit the pattern.
func Literal(pattern []byte) (prefix []byte) {
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

// part measures the pattern up to the next star: its size, the bytes of text that it takes, and whether each is a
// byte of the pattern itself.
func part(pattern []byte) (size, bytesOf int, plain bool) {
	for plain = true; size < len(pattern) && pattern[size] != '*'; bytesOf++ {
		plain = plain && pattern[size] != '?' && pattern[size] != '[' && pattern[size] != '\\'
		n, _ := one(pattern[size:], 0)
		size += n
	}
	return size, bytesOf, plain
}

// fits compares a part with a text of its length.
func fits(part, text []byte) bool {
	for _, c := range text {
		n, ok := one(part, c)
		if !ok {
			return false
		}
		part = part[n:]
	}
	return true
}

// one compares the first element of a pattern, which is no star, with a byte, and returns its size.
func one(pattern []byte, c byte) (n int, ok bool) {
	switch pattern[0] {
	case '?':
		return 1, true
	case '[':
		n, not, ok := class(pattern, func(low, high byte) bool { return low <= c && c <= high })
		return n, ok != not
	case '\\':
		if len(pattern) > 1 {
			return 2, pattern[1] == c
		}
	}
	return 1, pattern[0] == c
}

// class reads [...], up to the end of the pattern where it is not closed, and reports whether in is true for one of its
// ranges.
func class(pattern []byte, in func(low, high byte) bool) (n int, not, ok bool) {
	i := 1
	if not = i < len(pattern) && pattern[i] == '^'; not {
		i++
	}
	for ; i < len(pattern) && pattern[i] != ']'; i++ {
		low, high := pattern[i], pattern[i]
		switch {
		case low == '\\' && i+1 < len(pattern):
			i++
			low, high = pattern[i], pattern[i]
		case i+2 < len(pattern) && pattern[i+1] == '-':
			low, high = min(low, pattern[i+2]), max(low, pattern[i+2])
			i += 2
		}
		ok = in(low, high) || ok
	}
	return min(i+1, len(pattern)), not, ok
}

// find returns the first place of a part in a text, -1 without one.
func find(part []byte, bytesOf int, plain bool, text []byte) int {
	switch {
	case plain:
		return bytes.Index(text, part)
	case len(text) < bytesOf:
		return -1
	}
	var few [64]set
	list := sets(few[:0], part)
	if len(list) > len(few) {
		return findLong(list, text)
	}
next:
	for at := range len(text) - len(list) + 1 {
		for i := range list {
			if !list[i].has(text[at+i]) {
				continue next
			}
		}
		return at
	}
	return -1
}

// set has the bytes that an element of a pattern takes.
type set [4]uint64

func (s *set) add(low, high byte) {
	for c := int(low); c <= int(high); c++ {
		s[c>>6] |= 1 << (c & 63)
	}
}

func (s *set) has(c byte) bool { return s[c>>6]>>(c&63)&1 != 0 }

// sets appends those of a part.
func sets(list []set, part []byte) []set {
	for len(part) > 0 {
		var s set
		n := 1
		switch {
		case part[0] == '?':
			s = set{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}
		case part[0] == '[':
			var not bool
			n, not, _ = class(part, func(low, high byte) bool {
				if low != high || !s.has(low) {
					s.add(low, high)
				}
				return false
			})
			if not {
				s = set{^s[0], ^s[1], ^s[2], ^s[3]}
			}
		case part[0] == '\\' && len(part) > 1:
			n = 2
			s.add(part[1], part[1])
		default:
			s.add(part[0], part[0])
		}
		list, part = append(list, s), part[n:]
	}
	return list
}

// findLong is find by the algorithm Shift-And of Baeza-Yates and Gonnet (1992): bit i of state says whether the last
// bytes of the text fit the first i+1 elements.
func findLong(list []set, text []byte) int {
	words := (len(list) + 63) / 64
	var takes [256][]uint64 // for each byte, the elements that take it; made for those in the text
	state := make([]uint64, words)
	for at, c := range text {
		if takes[c] == nil {
			takes[c] = make([]uint64, words)
			for i := range list {
				if list[i].has(c) {
					takes[c][i>>6] |= 1 << (i & 63)
				}
			}
		}
		carry := uint64(1)
		for i, mask := range takes[c] {
			carry, state[i] = state[i]>>63, (state[i]<<1|carry)&mask
		}
		last := len(list) - 1
		if state[last>>6]>>(last&63)&1 != 0 {
			return at - last
		}
	}
	return -1
}
