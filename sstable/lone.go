package sstable

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/util"
)

// A lone block is a data block with one entry, whose value is large, and whose internal key is also the separator in
// the index. So an iterator that shows only keys, and a lookup that needs no value, do not read it. The metaindex,
// which Open reads anyway, says which blocks are lone (blocks.Lone), after the mark of the first and last key (see
// bounds). Tables of other programs have none.

const (
	// loneValue is the size in bytes from which a value that is alone makes its block lone. Separators that need not be
	// the key take some 30 bytes less in the index, for smaller values a measurable part of the data.
	loneValue = 16 << 10
	// loneKeyShare is how many times a key must fit its value, for the index to have the whole key.
	loneKeyShare = 64
)

// makesLone reports whether a block with only one entry is lone, given the lengths of its internal key and its value.
func makesLone(key, value int) bool { return value >= loneValue && key <= value/loneKeyShare }

// isWrongAlone reports whether a table should not say that data block i is lone, given one of its entries. last is
// whether the block ends with it.
func (ix *index) isWrongAlone(c *base.Comparer, i int, ikey []byte, first, last bool) bool {
	return ix.lone.Has(i) && (!first || !last || ix.Compare(c, i, base.UserKey(ikey), base.Trailer(ikey)) != 0)
}

const wrongAlone = "the table says that the block has one entry, whose key is the separator in the index, and that is not so"

// skips reports whether the iterator does not read data block i.
func (it *Iter) skips(i int) bool { return it.opts.KeysOnly && it.ix.lone.Has(i) }

// loadKey is load for a lone block. It puts the block iterator on a block with the entry's key and an empty value.
// The block does not count towards reading ahead.
func (it *Iter) loadKey(i int) {
	it.inOrder = max(it.inOrder-1, 0)
	sc := it.takeScratch()
	b := append(sc.joined[:0], 0) // nothing is shared
	b = append(util.AppendUvarint32(b, uint32(it.ix.SeparatorLen(i))), 0)
	b = it.ix.AppendSeparator(b, i)
	end := len(b)
	b = util.AppendFixed32(util.AppendFixed32(b, 0), 1) // one restart point
	sc.joined, it.at = b, i
	it.data.init(it.r.cmp, Block{data: b, numRestarts: 1, entriesEnd: end}, dataPart)
}

// getAlone is getInBlock for a lookup that needs no value, in lone block i, whose entry is at or after the target. ok
// is false if the block must be read after all, to report a kind of entry that a newer version wrote.
func (r *Reader) getAlone(ix *index, i int, lk *Lookup, res *Result) (ok bool) {
	if ix.CompareUser(r.cmp, i, lk.userKey) != 0 {
		return true
	}
	trailer := ix.Trailer(i)
	if _, kind := base.SplitTrailer(trailer); kind > base.KindRef {
		return false
	}
	res.Trailer, res.Found = trailer, true
	return true
}
