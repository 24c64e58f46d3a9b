package rangefilter

import (
	"bytes"
	"fmt"
)

// Extractor extracts prefixes from keys. The zero Extractor is FixedPrefix(0). Extractors are comparable values.
//
// A key that is too short or has too few separators has no prefix. Such keys are in no filter, and in no range for
// which a filter is queried: all keys between two keys with the same prefix have that prefix too.
type Extractor struct {
	separated bool
	separator byte
	n         int // bytes, or separators
}

// FixedPrefix extracts the first n bytes of a key. If n is 0 or less, all keys have the same
// empty prefix. Shorter keys have no prefix.
func FixedPrefix(n int) Extractor { return Extractor{n: max(n, 0)} }

// SeparatedPrefix extracts a key up to and including its count-th separator; a count below 1
// counts as 1. Keys with fewer separators have no prefix.
func SeparatedPrefix(separator byte, count int) Extractor {
	return Extractor{separated: true, separator: separator, n: max(count, 1)}
}

// Name is part of the name of the filters made with e and never changes: "fixed:8" for eight
// bytes, "upto:2f:2" for two slashes.
func (e Extractor) Name() string {
	if e.separated {
		return fmt.Sprintf("upto:%02x:%d", e.separator, e.n)
	}
	return fmt.Sprintf("fixed:%d", e.n)
}

// Prefix returns key's prefix, which shares memory with key; ok is false if key has none.
func (e Extractor) Prefix(key []byte) (prefix []byte, ok bool) {
	if !e.separated {
		if len(key) < e.n {
			return nil, false
		}
		return key[:e.n:e.n], true
	}
	end := 0
	for range e.n {
		i := bytes.IndexByte(key[end:], e.separator)
		if i < 0 {
			return nil, false
		}
		end += i + 1
	}
	return key[:end:end], true
}

// Common returns the common prefix of all keys k with lower <= k < upper; ok is false if they may have different
// prefixes. They have the same one if lower has it and upper either has it too or is the first string after all strings
// that have it. The prefix shares memory with lower.
func (e Extractor) Common(lower, upper []byte) (prefix []byte, ok bool) {
	prefix, ok = e.Prefix(lower)
	return prefix, ok && endsWithin(upper, prefix)
}

// endsWithin reports whether all strings s with prefix <= s < upper begin with prefix.
func endsWithin(upper, prefix []byte) bool {
	if bytes.HasPrefix(upper, prefix) || bytes.Compare(upper, prefix) < 0 {
		return true
	}
	// The first string after those with the prefix is the prefix without its trailing ff
	// bytes and with the last remaining byte incremented; after ff bytes alone there is none.
	n := len(prefix)
	for n > 0 && prefix[n-1] == 0xff {
		n--
	}
	return n == 0 || len(upper) == n && bytes.HasPrefix(upper, prefix[:n-1]) && upper[n-1] == prefix[n-1]+1
}

// withoutZeros returns upper without trailing zeros if no key with a prefix is in between: for
// fixed:2, the keys below "b\x00" are the keys below "b". A bound that was incremented like a
// number, such as "b\x00" from "a\xff", is then the first string after a prefix.
func (e Extractor) withoutZeros(upper []byte) []byte {
	for n := len(upper); !e.separated && n > 0 && n <= e.n && upper[n-1] == 0; n-- {
		upper = upper[:n-1]
	}
	return upper
}
