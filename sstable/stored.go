package sstable

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/util"
)

// A collection moves most values of a value table as they are: each is a data block of its own, which need not be
// decompressed and compressed again.

// StoredValue returns the data block with the value of lk's key and exactly its sequence number, as it is stored and
// with its trailer, checked, in memory of lk. ok is false if the table has no such block, if it is not compressed as kind,
// or if it has not the length of a block with that key and a value of length bytes alone: the caller uses Get then.
func (r *Reader) StoredValue(lk *Lookup, kind Compression, length uint64) (stored []byte, ok bool, err error) {
	ix := r.index.Load()
	if ix == nil {
		if ix, _, err = r.loadIndex(); err != nil {
			return nil, false, err
		}
	}
	i := ix.find(r.cmp, lk.userKey, lk.trailer)
	seq, _ := base.SplitTrailer(lk.trailer)
	trailer := base.MakeTrailer(seq, base.KindSet)
	if i == ix.Len() || !ix.lone.Has(i) || ix.Compare(r.cmp, i, lk.userKey, trailer) != 0 {
		return nil, false, nil
	}
	if !r.Ref() {
		return nil, false, ErrReaderClosed
	}
	defer r.Unref()
	sc := lk.takeScratch()
	sc.block = Block{} // it may be in the memory that is read into
	if stored, err = r.readStored(sc.stored, ix.Handle(i), dataPart); err != nil {
		return nil, false, base.InFile(err, r.name, -1)
	}
	sc.stored = stored
	n := len(stored) - blockTrailerLen
	got, ok := codec.DecodedLen(stored[n], stored[:n])
	ok = ok && Compression(stored[n]) == kind && got == lengthAlone(len(lk.userKey)+base.TrailerLen, length)
	return stored, ok, nil
}

// lengthAlone returns the length of a block with one entry, whose internal key and value have these lengths.
func lengthAlone(ikey int, value uint64) uint64 {
	const ends = 1 + 2*4 // no shared bytes, the restart point and the number of them
	return uint64(ends+util.UvarintLen(uint64(ikey))+ikey+util.UvarintLen(value)) + value
}

// AddStored adds an entry whose data block StoredValue returned, with a value of that length, to a value table. It does not
// retain the slices.
func (w *Writer) AddStored(ikey, stored []byte, length uint64) error {
	switch {
	case w.err != nil:
		return w.err
	case w.done || !w.opts.Values:
		return w.fail(errors.New("sstable: AddStored after Finish, or to a table that is no value table"))
	}
	shared := base.SharedPrefixLen(w.lastKey, ikey)
	newUser, ok := w.place(ikey, shared)
	if !ok {
		return w.fail(errors.Newf("sstable: entry %d does not sort after the previous one", w.props.Entries))
	}
	if w.pending.exists {
		w.indexPending(ikey)
	}
	if newUser {
		w.addToFilters(base.UserKey(ikey))
	}
	w.count(ikey, nil)
	w.props.RawValueBytes += length
	w.lastKey = append(w.lastKey[:shared], ikey[shared:]...)
	w.lastOffset = w.Size()
	w.pending = pendingBlock{handle{Offset: w.lastOffset, Size: uint64(len(stored) - blockTrailerLen)}, true, true}
	w.content.AddStored(stored)
	w.props.DataBlocks++
	w.props.DataBytes += uint64(len(stored))
	return w.writeThrough(stored)
}
