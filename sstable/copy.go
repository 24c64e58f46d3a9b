package sstable

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/vfs"
)

// copyReadAhead is how much of a table CopyBlocks reads at once, in bytes.
const copyReadAhead = 256 << 10

// CopyBlocks copies all data blocks of r's table, as they are stored, into a table without entries; Finish then adds
// its own filters, properties and index. In one pass through the file it checks each block and reads its keys for the
// filters. It compresses nothing again and keeps the separators. If the file written to is a vfs.Sharer, it may share
// the blocks. If it is a vfs.CacheFollower, the copy uses no more page cache than the table does.
//
// each, which may be nil, is called after each block with its stored size; an error that
// it returns ends the copy. If the table is damaged, the error wraps sievedb.ErrCorruption.
func (w *Writer) CopyBlocks(r *Reader, each func(bytes int) error) error {
	switch {
	case w.err != nil:
		return w.err
	case w.done || w.props.Entries > 0:
		return w.fail(errors.New("sstable: CopyBlocks into a table that already has entries or is finished"))
	}
	it, err := r.NewIter(IterOptions{NoFillCache: true, ReadAhead: copyReadAhead})
	if err != nil {
		return w.fail(err)
	}
	defer it.Close()
	if p, ok := r.Properties(); ok {
		w.CoverSeq(p.LargestSeq)
	}
	shared, err := w.share(r.file, it.ix)
	if err != nil {
		return w.fail(err)
	}
	if f, ok := w.w.(vfs.CacheFollower); ok {
		f.FollowCache(r.file)
		defer f.FollowCache(nil)
	}
	for i := range it.ix.Len() {
		stored, err := it.storedBlock(i)
		if err == nil {
			err = w.copyBlock(&it.data, it.ix, i)
		}
		if err != nil {
			return w.fail(r.located(err, it.ix, i))
		}
		if it.ix.lone.Has(i) {
			w.lone = w.lone.With(i)
		}
		if err := w.appendStored(stored, it.ix, i, shared); err != nil {
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
// it. The bytes are valid until the next call.
func (it *Iter) storedBlock(i int) ([]byte, error) {
	sc := it.takeScratch()
	if err := it.readSpan(i, true, copyReadAhead, false); err != nil {
		return nil, err
	}
	raw, _, err := it.openInSpan(i, sc)
	if err != nil {
		return nil, err
	}
	it.at = i // to locate an error of the block iterator in Close
	it.data.init(it.r.cmp, sc.block, dataPart)
	return raw[:len(raw)+blockTrailerLen], nil
}

// copyBlock adds the keys of data block i to the filters and counts its entries.
func (w *Writer) copyBlock(it *blockIter, ix *index, i int) error {
	if i > 0 && it.First() && ix.Compare(w.cmp, i-1, base.UserKey(it.key), base.Trailer(it.key)) >= 0 {
		return base.Corruptf(dataPart, -1, "its first key does not sort after the separator before it")
	}
	for ok := it.First(); ok; ok = it.Next() {
		if ix.isWrongAlone(w.cmp, i, it.key, it.pos == 0, it.cur.valueEnd == it.block.entriesEnd) {
			return base.Corruptf(dataPart, -1, wrongAlone)
		}
		shared := base.SharedPrefixLen(w.lastKey, it.key)
		newUser, rises := w.place(it.key, shared)
		if !rises {
			return base.Corruptf(dataPart, -1, "entry %d of the table does not sort after the previous one", w.props.Entries)
		}
		if newUser {
			w.addToFilters(base.UserKey(it.key))
		}
		if err := w.refs.Count(it.key, it.Value()); err != nil {
			return err
		}
		w.count(it.key, it.Value())
		w.lastKey = append(w.lastKey[:shared], it.key[shared:]...)
	}
	if ix.lone.Has(i) && it.block.empty() {
		return base.Corruptf(dataPart, -1, wrongAlone)
	}
	if it.Err() == nil && w.props.Entries > 0 && ix.Compare(w.cmp, i, base.UserKey(w.lastKey), base.Trailer(w.lastKey)) < 0 {
		return base.Corruptf(dataPart, -1, "its last key sorts after its separator")
	}
	return it.Err()
}

// share makes the file begin with the data blocks that ix lists, if it can share them and they are
// contiguous from the beginning of src. It returns how many bytes of them need not be written.
func (w *Writer) share(src vfs.File, ix *index) (shared uint64, err error) {
	s, ok := w.w.(vfs.Sharer)
	if !ok || w.Size() > 0 {
		return 0, nil
	}
	end := uint64(0)
	for i := range ix.Len() {
		if h := ix.Handle(i); h.Offset == end {
			end = h.End()
		} else {
			return 0, nil
		}
	}
	n, err := s.ShareFrom(src, int64(end))
	w.written = uint64(n)
	return w.written, err
}

// appendStored appends data block i of ix as it is stored, with its trailer. It does not write
// those of its bytes that are among the first shared bytes of the file.
func (w *Writer) appendStored(stored []byte, ix *index, i int, shared uint64) error {
	w.lastOffset = w.props.DataBytes
	h := handle{Offset: w.lastOffset, Size: uint64(len(stored) - blockTrailerLen)}
	there := uint64(0)
	if shared > w.lastOffset {
		there = min(shared-w.lastOffset, uint64(len(stored)))
	}
	if err := w.writeThrough(stored[there:]); err != nil {
		return err
	}
	w.content.AddStored(stored)
	w.scratch = h.Append(w.scratch[:0])
	w.index.add(ix.Separator(i), w.scratch)
	w.props.DataBlocks++
	w.props.DataBytes += uint64(len(stored))
	return nil
}
