package rangefilter

import (
	"bytes"
	"fmt"
)

// Extractor extracts prefixes from keys. The zero Extractor is FixedPrefix(0). Extractors
// are comparable values.
//
// A key that is too short or has too few separators has no prefix. Such keys go into no
// filter, and are in no range that a filter is asked for: all keys between two with the same
// prefix have that prefix too.
type Extractor struct {
	separated bool
	separator byte
	n         int // bytes, or separators
}

// FixedPrefix extracts the first n bytes of a key. With n of 0 or less all keys have the same,
// empty prefix. Shorter keys have none.
func FixedPrefix(n int) Extractor { return Extractor{n: max(n, 0)} }

// SeparatedPrefix extracts a key up to and including its count-th separator; a count below 1
// counts as 1. Keys with fewer separators have no prefix.
func SeparatedPrefix(separator byte, count int) Extractor {
	return Extractor{separated: true, separator: separator, n: max(count, 1)}
}

// Name is part of the names of the filters made with e, for good: "fixed:8" for eight
// bytes, "upto:2f:2" for two slashes.
func (e Extractor) Name() string {
	if e.separated {
		return fmt.Sprintf("upto:%02x:%d", e.separator, e.n)
	}
	return fmt.Sprintf("fixed:%d", e.n)
}

// Prefix returns key's prefix, which is the beginning of key itself; ok is false for a
// key that has none.
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

// Common returns the prefix of every key k, lower <= k < upper; ok is false if they need not
// have the same one. They have it if lower has it, and upper has it as well or is the first
// string after all strings that have it. The prefix is the beginning of lower itself.
func (e Extractor) Common(lower, upper []byte) (prefix []byte, ok bool) {
	prefix, ok = e.Prefix(lower)
	return prefix, ok && endsWithin(upper, prefix)
}

// endsWithin reports whether all strings from prefix on and below upper begin with
// prefix.
func endsWithin(upper, prefix []byte) bool {
	if bytes.HasPrefix(upper, prefix) || bytes.Compare(upper, prefix) < 0 {
		return true
	}
	// The first string behind them is the prefix without its last bytes ff, the last
	// one of the others raised by one; behind ff alone there is none.
	n := len(prefix)
	for n > 0 && prefix[n-1] == 0xff {
		n--
	}
	return n == 0 || len(upper) == n && bytes.HasPrefix(upper, prefix[:n-1]) && upper[n-1] == prefix[n-1]+1
}

// withoutZeros returns upper without zeros at its end that no key with a prefix is
// below: of fixed:2, those below "b\x00" are those below "b". A bound that is counted
// up as a number, from "a\xff", is the first string behind a prefix then.
func (e Extractor) withoutZeros(upper []byte) []byte {
	for n := len(upper); !e.separated && n > 0 && n <= e.n && upper[n-1] == 0; n-- {
		upper = upper[:n-1]
	}
	return upper
}
