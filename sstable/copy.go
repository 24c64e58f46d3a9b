package sstable

import (
	"github.com/cockroachdb/errors"
	"github.com/sievedb/sievedb/internal/base"
)

// copyReadAhead is how much of a table CopyBlocks reads at once, in bytes.
const copyReadAhead = 256 << 10

// CopyBlocks takes all data blocks of a table, as they are stored, into one that has
// not begun: Finish then adds filters, properties and index of its own. Each block is
// checked and its keys are read, for the filters, in one pass through the file, and
// nothing is compressed again. Separators stay what they are.
//
// each, which may be nil, is called after each block with the bytes that it takes; an
// error that it returns ends the copy. The error wraps base.ErrCorruption where the
// table is damaged.
func (w *Writer) CopyBlocks(r *Reader, each func(bytes int) error) error {
	switch {
	case w.err != nil:
		return w.err
	case w.done || w.props.Entries > 0:
		return w.fail(errors.New("sstable: CopyBlocks into a table that has begun"))
	}
	it, err := r.NewIter(IterOptions{NoFillCache: true, ReadAhead: copyReadAhead})
	if err != nil {
		return w.fail(err)
	}
	defer it.Close()
	for i := range it.ix.n {
		stored, err := it.storedBlock(i)
		if err == nil {
			err = w.copyBlock(&it.data, it.ix, i)
		}
		if err != nil {
			return w.fail(r.located(err, it.ix, i))
		}
		if err := w.appendStored(stored, it.ix.separator(i)); err != nil {
			return err
		}
		if each != nil {
			if err := each(len(stored)); err != nil {
				return w.fail(err)
			}
		}
	}
	return nil
}

// storedBlock returns data block i with its trailer, checked, and puts the block iterator on
// it. The bytes hold until the next call.
func (it *Iter) storedBlock(i int) ([]byte, error) {
	sc := it.takeScratch()
	if err := it.readSpan(i, true, copyReadAhead, false); err != nil {
		return nil, err
	}
	raw, _, err := it.openInSpan(i, sc)
	if err != nil {
		return nil, err
	}
	it.data.init(it.r.cmp, sc.block, dataPart)
	return raw[:len(raw)+blockTrailerLen], nil
}

// copyBlock takes the keys of data block i, which it walks.
func (w *Writer) copyBlock(it *blockIter, ix *index, i int) error {
	if i > 0 && it.First() && w.cmp.CompareInternal(ix.separator(i-1), it.Key()) >= 0 {
		return base.Corruptf(dataPart, -1, "its first key does not sort behind the separator before it")
	}
	for ok := it.First(); ok; ok = it.Next() {
		shared := base.SharedPrefixLen(w.lastKey, it.key)
		newUser, rises := w.place(it.key, shared)
		if !rises {
			return base.Corruptf(dataPart, -1, "entry %d of the table does not sort behind the one before it", w.props.Entries)
		}
		if newUser {
			for j := range w.filters {
				w.filters[j].add(base.UserKey(it.key))
			}
		}
		w.count(it.key, it.Value())
		w.lastKey = append(w.lastKey[:shared], it.key[shared:]...)
	}
	if it.Err() == nil && w.cmp.CompareInternal(w.lastKey, ix.separator(i)) > 0 {
		return base.Corruptf(dataPart, -1, "its last key sorts behind its separator")
	}
	return it.Err()
}

// appendStored appends a data block as it is stored, with its trailer.
func (w *Writer) appendStored(stored, separator []byte) error {
	w.lastOffset = w.Size()
	h := handle{offset: w.lastOffset, size: uint64(len(stored) - blockTrailerLen)}
	w.out = append(w.out, stored...)
	w.scratch = h.append(w.scratch[:0])
	w.index.add(separator, w.scratch)
	w.props.DataBlocks++
	w.props.DataBytes += uint64(len(stored))
	if len(w.out) < writeBufferBytes {
		return nil
	}
	return w.flushOut()
}
