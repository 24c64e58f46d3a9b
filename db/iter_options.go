package db

// IterOptions bound an iterator. Between bounds of which the upper one is not after the
// lower one there is no key. A nil *IterOptions is the zero value. With both bounds set
// it asks the filters of Options.Filters.RangePolicies; PrefixBounds returns those of a prefix.
type IterOptions struct {
	// LowerBound is the first key that the iterator may show; nil: no bound.
	LowerBound []byte
	// UpperBound is the first key that it may not show any more; nil: no bound.
	UpperBound []byte
	// NoFillCache keeps the blocks read out of the block cache, for scans that
	// will not come back. A long walk in order keeps them out by itself once the
	// cache is full, or a sixteenth of it was read, where the tables between the bounds take more than
	// half of the cache.
	NoFillCache bool
}

// PrefixBounds returns the bounds of the keys that begin with prefix, under the
// BytewiseComparer: the first key behind them is the upper one, nil where there is
// none since prefix has no byte below ff. The slices are new.
func PrefixBounds(prefix []byte) *IterOptions {
	o := &IterOptions{LowerBound: append([]byte{}, prefix...)}
	for n := len(prefix); n > 0; n-- {
		if prefix[n-1] < 0xff {
			o.UpperBound = append([]byte{}, prefix[:n]...)
			o.UpperBound[n-1]++
			break
		}
	}
	return o
}
