package sstable

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
)

// CheckLookup returns an error unless a lookup of the current entry's key, with its sequence number, finds it. It
// searches only for the first and the last entry of each restart interval, in the block that the iterator holds, and
// returns nil for the others. If all of them are found and the keys of the whole table ascend, the others are found
// too: a lookup chooses the block, and then the interval, by comparing keys with the separators of the index and with
// the keys at restart points, so what lies between two keys that lead to an interval also leads there. The filters are
// different: see FilterSet.Denies. The iterator must be Valid. lk is memory that the call may use.
//
// A search for each entry would begin at the restart point each time, which takes a time quadratic in the size of a
// block that has only one.
func (it *Iter) CheckLookup(lk *Lookup) error {
	d := &it.data
	if d.pos != d.block.restart(d.restart) && d.cur.valueEnd != d.limit {
		return nil
	}
	if it.ix.isWrongAlone(it.r.cmp, it.at, d.key, d.pos == 0, d.cur.valueEnd == d.block.entriesEnd) {
		return it.located(base.Corruptf(dataPart, -1, wrongAlone))
	}
	lk.Init(base.UserKey(d.key), base.Trailer(d.key)>>8)
	if it.r.Denies(lk) {
		return errDeniesKey
	}
	if !it.indexLeadsHere(lk) {
		return errNotFoundAgain
	}
	if f := it.r.filter; f != nil && !f.whole {
		if may, _ := f.mayContainAt(lk, it.ix.Offset(it.at)); !may {
			return errDeniesKey
		}
	}
	f, err := d.block.get(it.heldPivots(), it.r.cmp, lk.userKey, lk.trailer)
	if err != nil {
		return it.located(err)
	}
	if !f.ok || f.trailer != base.Trailer(d.key) {
		return errNotFoundAgain
	}
	return nil
}

var (
	errDeniesKey     = errors.Sentinel("its filter denies a key of the table")
	errNotFoundAgain = errors.Sentinel("a lookup does not find a key of the table")
)

// indexLeadsHere reports whether a lookup comes to the block that the iterator is on. It may begin in an earlier one,
// and goes on as long as the separators have its user key: see blocks.List.Continues. Then the entries of the blocks
// before this one are all before the target, because the keys ascend, and need no search: a table can have any number
// of such keys. The separators ascend too, so those between two with the same user key have it as well.
func (it *Iter) indexLeadsHere(lk *Lookup) bool {
	i := it.ix.find(it.r.cmp, lk.userKey, lk.trailer)
	return i == it.at || i < it.at && it.ix.Continues(it.r.cmp, i, lk.userKey) && it.ix.Continues(it.r.cmp, it.at-1, lk.userKey)
}

// heldPivots returns the pivots of the block that the iterator is on, or nil if a lookup there uses none.
func (it *Iter) heldPivots() *pivots {
	if it.ix.pivots == nil || it.sliced != nil {
		return nil
	}
	pv := &it.ix.pivots[it.at]
	if pv.shape.Load() == 0 {
		pv.make(&it.data.block)
	}
	return pv
}
