package sstable

import "github.com/sievedb/sievedb/internal/base"

// Stretches divides the table's data into stretches of about stepBytes, and calls fn for each, in order, with a user
// key, begin, and with its size in the file, in bytes. No key of the stretch is less than begin, and no earlier key is
// greater. begin is nil for the first stretch. The keys must not be changed; they stay valid. Stretches reads the index
// if it is not in memory.
func (r *Reader) Stretches(stepBytes uint64, fn func(begin []byte, bytes uint64)) error {
	ix, err := r.needIndex()
	if err != nil {
		return err
	}
	var begin []byte
	bytes := uint64(0)
	for i := range ix.Len() {
		if bytes += uint64(ix.Size(i)) + blockTrailerLen; bytes >= stepBytes || i == ix.Len()-1 {
			fn(begin, bytes)
			begin, bytes = base.UserKey(ix.Separator(i)), 0
		}
	}
	return nil
}

// CheckRemainder reads the iterator's data block to its end, and returns an error unless the keys ascend from the
// current one on and none is greater than the block's separator. If one goroutine stops in the middle of a table and
// another continues from there by the index, this ensures that no entry between the two is missed. The iterator must be
// Valid; afterwards it must be positioned again or closed.
func (it *Iter) CheckRemainder() error {
	separator := it.ix.Separator(it.at)
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
		return it.located(base.Corruptf(dataPart, -1, "its last key sorts after its separator in the index"))
	}
	return nil
}

func (it *Iter) located(err error) error { return it.r.located(err, it.ix, it.at) }
