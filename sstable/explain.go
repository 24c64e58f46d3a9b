package sstable

// ReadIndex is LoadIndex that tells how many bytes it read from disk: 0 where they were
// in memory.
func (r *Reader) ReadIndex() (bytesRead uint64, err error) {
	if r.index.Load() != nil {
		return 0, nil
	}
	_, n, err := r.loadIndex()
	return uint64(n), err
}

// BlockBytes returns what the data block that a Get searches for the key takes in the
// file, its trailer included; the first one, where it needs two. It is 0 where there is
// none, or the index is not in memory.
func (r *Reader) BlockBytes(lk *Lookup) uint64 {
	ix := r.index.Load()
	if ix == nil {
		return 0
	}
	i := ix.find(r.cmp, lk.userKey, lk.trailer)
	if i >= ix.n {
		return 0
	}
	return uint64(ix.sizes[i]) + blockTrailerLen
}
