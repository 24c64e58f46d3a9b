package sstable

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/util"
)

// skipped is what skipTo came to.
type skipped int

const (
	skipUnsure skipped = iota // nothing moved; step tells
	skippedTo                 // at the target's place; landed is still to be asked
	skippedAll                // all of the interval is before the target
)

// skipTo goes from a restart point to the first entry of its interval that is not before
// the target, as steps would, for bytewise keys. It rebuilds the key of that entry alone.
//
// The reasons are those of Block.getBytewise: with u the target's user key and m the length
// of what the previous user key, which is before it, has in common with u, an entry that
// shares more than m bytes is before u as well; one that shares no more begins like u, and
// its suffix tells. Where that one is the first not to be before u, u has its beginning.
// What is rare, or wrong, is left to the steps.
func (it *blockIter) skipTo(u []byte, trailer uint64) skipped {
	data, p := it.block.data[:it.limit], it.cur.valueEnd
	m, prevLen, keyLen := 0, 0, 0 // of user keys the first two
	for p < len(data) {
		if p > len(data)-3 || (data[p]|data[p+1]|data[p+2])&0x80 != 0 {
			return skipUnsure
		}
		shared, unshared, suffix := int(data[p]), int(data[p+1]), p+3
		value := suffix + unshared
		valueEnd := value + int(data[p+2])
		if valueEnd > len(data) || shared > keyLen || unshared < base.TrailerLen {
			return skipUnsure
		}
		keyLen = shared + unshared
		nextLen := keyLen - base.TrailerLen
		if shared > m {
			if m == prevLen { // the one before is a prefix of u, or u
				return skipUnsure
			}
		} else {
			end := value - base.TrailerLen
			k := base.SharedPrefixLen(data[suffix:end], u[shared:])
			m = shared + k
			var notBefore bool
			switch {
			case suffix+k < end:
				notBefore = m == len(u) || data[suffix+k] > u[m]
			case m == len(u):
				notBefore = util.Fixed64(data[end:value]) <= trailer
			}
			if notBefore {
				it.key = append(append(it.key[:0], u[:shared]...), data[suffix:value]...)
				it.cur, it.pos = entry{shared: shared, suffix: suffix, value: value, valueEnd: valueEnd}, p
				return skippedTo
			}
		}
		prevLen, p = nextLen, valueEnd
	}
	return skippedAll
}
