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
// with its trailer, checked, if it is compressed as kind and has the length of a block with that key and a value of
// length bytes alone. It does not decode that. Otherwise it returns the value, if the block has it. Both are in memory
// of lk. If neither is there, both are nil, and the error of Get says why.
func (r *Reader) StoredValue(lk *Lookup, kind Compression, length uint64) (stored, value []byte, err error) {
	ix := r.index.Load()
	if ix == nil {
		if ix, _, err = r.loadIndex(); err != nil {
			return nil, nil, err
		}
	}
	i := ix.find(r.cmp, lk.userKey, lk.trailer)
	seq, _ := base.SplitTrailer(lk.trailer)
	trailer := base.MakeTrailer(seq, base.KindSet)
	if i == ix.Len() || !ix.lone.Has(i) || ix.Compare(r.cmp, i, lk.userKey, trailer) != 0 {
		return nil, nil, nil
	}
	if !r.Ref() {
		return nil, nil, ErrReaderClosed
	}
	defer r.Unref()
	sc, h := lk.takeScratch(), ix.Handle(i)
	sc.block = Block{} // it may be in the memory that is read into
	if stored, err = r.readStored(codec.Large(sc.stored, int(h.Size)+blockTrailerLen), h, dataPart); err != nil {
		return nil, nil, err
	}
	r.demand.Count(h.Offset, r.limit)
	sc.stored = stored
	got, ok := codec.DecodedLen(stored[h.Size], stored[:h.Size])
	if ok && Compression(stored[h.Size]) == kind && got == lengthAlone(len(lk.userKey)+base.TrailerLen, length) {
		return stored, nil, nil
	}
	return nil, r.valueIn(sc, ix, i, lk, trailer, length), nil
}

// valueIn returns the value of that trailer and length in data block i, which is in sc.stored; nil if it is not there.
func (r *Reader) valueIn(sc *scratch, ix *index, i int, lk *Lookup, trailer, length uint64) []byte {
	n := len(sc.stored) - blockTrailerLen
	data, err := decompress(Compression(sc.stored[n]), sc.stored[:n], sc.decoded, dataPart)
	if err != nil {
		return nil
	}
	if Compression(sc.stored[n]) != NoCompression {
		sc.decoded = data
	}
	if sc.block, err = newBlock(data, dataPart); err != nil {
		return nil
	}
	var res Result
	done, err := r.searchWhole(&sc.block, ix, i, lk, &res)
	if err != nil || !done || !res.Found || res.Trailer != trailer || uint64(len(res.Value)) != length {
		return nil
	}
	return res.Value
}

// lengthAlone returns the length of a block with one entry, whose internal key and value have these lengths.
func lengthAlone(ikey int, value uint64) uint64 {
	const ends = 1 + 2*4 // no shared bytes, the restart point and the number of them
	return uint64(ends+util.UvarintLen(uint64(ikey))+ikey+util.UvarintLen(value)) + value
}

// AddStored adds an entry whose data block StoredValue returned, with a value of that length, to a value table. It does
// not retain the slices.
func (w *Writer) AddStored(ikey, stored []byte, length uint64) error {
	switch {
	case w.err != nil:
		return w.err
	case w.done || !w.opts.Values:
		return w.fail(errors.New("sstable: AddStored after Finish, or to a table that is no value table"))
	case !base.ValidInternalKey(ikey) || base.Kind(ikey[len(ikey)-base.TrailerLen]) != base.KindSet || len(stored) <= blockTrailerLen:
		return w.fail(errors.New("sstable: AddStored wants the internal key of a value, and its block with the trailer"))
	}
	shared := base.SharedPrefixLen(w.lastKey, ikey)
	newUser, ok := w.place(ikey, shared)
	if !ok {
		return w.fail(errors.Newf("sstable: entry %d does not sort after the previous one", w.props.Entries))
	}
	w.register(ikey, nil, newUser)
	w.props.RawValueBytes += length
	w.lastKey = append(w.lastKey[:shared], ikey[shared:]...)
	w.content.AddStored(stored)
	w.endBlock(handle{Offset: w.Size(), Size: uint64(len(stored) - blockTrailerLen)}, true)
	return w.writeThrough(stored)
}
