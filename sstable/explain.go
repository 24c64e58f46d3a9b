package sstable

// ReadIndex is LoadIndex, but also returns how many bytes it read from disk: 0 if the index was in memory.
func (r *Reader) ReadIndex() (bytesRead uint64, err error) {
	_, n, err := r.loadIndex()
	return uint64(n), err
}

// BlockBytes returns the size in the file, including the trailer, of the data block that a Get searches for the key, or
// of the first one if it searches two. It returns 0 if there is none, or if the index is not in memory.
func (r *Reader) BlockBytes(lk *Lookup) uint64 {
	ix := r.index.Load()
	if ix == nil {
		return 0
	}
	i := ix.find(r.cmp, lk.userKey, lk.trailer)
	if i >= ix.Len() {
		return 0
	}
	return uint64(ix.Size(i)) + blockTrailerLen
}
