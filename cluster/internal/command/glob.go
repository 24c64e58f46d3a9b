package command

// MatchGlob reports whether all of s matches a pattern as those of KEYS: * is any bytes, ? is one, [a-c] and
// [^a-c] are sets, and \ takes the next byte as it is. After a mismatch only the last * is tried
// with more bytes, so the time is at most the product of both lengths.
func MatchGlob(pattern, s []byte) bool {
	p, i := 0, 0
	star, starAt := -1, 0 // the pattern after the last *, and the position in s from which it is tried
	for i < len(s) {
		if p < len(pattern) && pattern[p] == '*' {
			p++
			star, starAt = p, i
			continue
		}
		if next, ok := matchOne(pattern, p, s[i]); ok {
			p, i = next, i+1
			continue
		}
		if star < 0 {
			return false
		}
		starAt++
		p, i = star, starAt
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p >= len(pattern)
}

// matchOne matches one byte with the pattern at p, and returns the position after that.
func matchOne(pattern []byte, p int, b byte) (next int, ok bool) {
	if p >= len(pattern) {
		return p, false
	}
	switch pattern[p] {
	case '?':
		return p + 1, true
	case '[':
		return matchSet(pattern, p+1, b)
	case '\\':
		if p+1 < len(pattern) {
			p++
		}
	}
	return p + 1, pattern[p] == b
}

// matchSet matches one byte with the set that begins at p, after its bracket. As in Redis, a set
// without an end ends with the pattern.
func matchSet(pattern []byte, p int, b byte) (next int, ok bool) {
	negated := p < len(pattern) && pattern[p] == '^'
	if negated {
		p++
	}
	for ; p < len(pattern) && pattern[p] != ']'; p++ {
		switch {
		case pattern[p] == '\\' && p+1 < len(pattern):
			p++
			ok = ok || pattern[p] == b
		case p+2 < len(pattern) && pattern[p+1] == '-':
			low, high := pattern[p], pattern[p+2]
			ok = ok || min(low, high) <= b && b <= max(low, high)
			p += 2
		default:
			ok = ok || pattern[p] == b
		}
	}
	return min(p+1, len(pattern)), ok != negated
}
