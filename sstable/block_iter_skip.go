package sstable

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/util"
)

// skipped is the result of skipTo.
type skipped int

const (
	skipUnsure skipped = iota // the iterator did not move; the caller must step
	skippedTo                 // at the target's place; the caller must call landed
	skippedAll                // all of the interval is before the target
)

// skipTo moves from a restart point to the first entry of its interval that is not before
// the target, as steps would, for bytewise keys. It rebuilds the key of only that entry.
//
// It works as Block.getBytewise does. Let u be the target's user key, and m the number of bytes that it has in common
// with the previous user key, which is before u. An entry that shares more than m bytes is before u as well. One that
// shares at most m bytes begins like u, and its suffix decides. If it is the first entry not before u, its shared bytes
// are those of u. Rare or malformed entries are left to the steps.
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
			if m == prevLen { // the previous user key is u or a prefix of it
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
				it.pos = p
				it.cur = entry{shared: shared, suffix: suffix, value: value, valueEnd: valueEnd}
				return skippedTo
			}
		}
		prevLen, p = nextLen, valueEnd
	}
	return skippedAll
}
