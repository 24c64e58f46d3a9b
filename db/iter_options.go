package db

import "github.com/sievedb/sievedb/internal/base/keyspace"

// IterOptions bound an iterator. If the upper bound is not after the lower one, there are no
// keys between them. A nil *IterOptions is the zero value. With both bounds set, the iterator
// uses the filters of Options.Filters.RangePolicies; PrefixBounds returns the bounds of a prefix.
type IterOptions struct {
	// LowerBound is the first key that the iterator may show; nil: no bound.
	LowerBound []byte
	// UpperBound is the first key that it does not show; nil: no bound.
	UpperBound []byte
	// NoFillCache keeps the blocks that the iterator reads out of the block cache, for scans that will not be repeated.
	// A long walk in order does so by itself once the cache is full, or once it has read a sixteenth of the cache's
	// size if the tables between the bounds are larger than half of the cache.
	NoFillCache bool
	// KeysOnly makes Value return nil. Values are not copied then. Those of 16 KiB or more, and of
	// 64 times the length of their keys, are not read or verified if they are alone in their data
	// blocks, for the table's index has the keys; with the default Tables.BlockSize all are alone.
	// Other blocks are read, verified and decompressed as a whole, as are all blocks of stores with
	// Options.Expiry, of followers, and of tables that other programs or earlier versions wrote.
	KeysOnly bool
}

// PrefixBounds returns the bounds of the keys that begin with prefix, under the BytewiseComparer. The upper one is the
// first key after them, nil if there is none because prefix has no byte below ff. The slices are new.
func PrefixBounds(prefix []byte) *IterOptions {
	return &IterOptions{LowerBound: append([]byte{}, prefix...), UpperBound: keyspace.After(prefix)}
}
