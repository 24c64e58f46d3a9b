package sstable

import "github.com/sievedb/sievedb/internal/base"

// Stretches divides the table's data into stretches of about stepBytes, in order, and
// calls fn for each with a user key and its size in the file, in bytes: no key of the
// stretch is before that user key, and none of those before the stretch is behind it. The
// first stretch's is nil. The keys must not be changed, and stay valid. It reads the index
// if it is not in memory.
func (r *Reader) Stretches(stepBytes uint64, fn func(begin []byte, bytes uint64)) error {
	ix := r.index.Load()
	if ix == nil {
		var err error
		if ix, _, err = r.loadIndex(); err != nil {
			return err
		}
	}
	var begin []byte
	bytes := uint64(0)
	for i := range ix.n {
		if bytes += uint64(ix.sizes[i]) + blockTrailerLen; bytes >= stepBytes || i == ix.n-1 {
			fn(begin, bytes)
			begin, bytes = base.UserKey(ix.separator(i)), 0
		}
	}
	return nil
}

// CheckRest reads the data block that the iterator stands in to its end, and returns an
// error unless its keys ascend from the present one on and none of them is behind the
// block's separator. Whoever stops in the middle of a table, for somebody else to go on
// there by the index, knows then that no entry is overlooked between the two. The iterator
// is Valid before, and at the end of the block or invalid afterwards.
func (it *Iter) CheckRest() error {
	separator := it.ix.separator(it.at)
	last := append([]byte(nil), it.Key()...)
	for it.data.Next() {
		if base.CompareInternal(it.r.cmp, last, it.Key()) >= 0 {
			return it.located(base.Corruptf(dataPart, -1, "its keys do not ascend"))
		}
		last = append(last[:0], it.Key()...)
	}
	if it.failed() {
		return it.err
	}
	if base.CompareInternal(it.r.cmp, last, separator) > 0 {
		return it.located(base.Corruptf(dataPart, -1, "its last key is behind what the index says of it"))
	}
	return nil
}

func (it *Iter) located(err error) error { return it.r.located(err, it.ix, it.at) }
