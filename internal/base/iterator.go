package base

// Iterator walks the entries of a run, or of several merged, in the order of
// internal keys. It is the one contract of block, table, memtable and merging
// iterators.
//
// A new iterator is not positioned. Each movement returns whether the iterator
// is at an entry then, as Valid does; false means the end on that side, or an
// error that Err tells. Next and Prev are called only while Valid: positions before
// the first entry and after the last are db.Iterator's, which needs one bit for them,
// where each run would pay with a branch in each step. An error
// stays until Close and makes the iterator invalid: it never skips what it
// could not read.
//
// Key and Value are called only while Valid. Their slices belong to the
// iterator, must not be changed, and hold until the next movement. An iterator
// is used by one goroutine at a time.
type Iterator interface {
	First() bool
	Last() bool
	// SeekGE moves to the first entry whose internal key is >= ikey.
	SeekGE(ikey []byte) bool
	// SeekLT moves to the last entry whose internal key is < ikey.
	SeekLT(ikey []byte) bool
	Next() bool
	Prev() bool
	Valid() bool
	// Key returns the internal key.
	Key() []byte
	Value() []byte
	// Err returns the first error met, nil at a clean end.
	Err() error
	// Close releases what the iterator holds and returns Err. It may be called
	// more than once.
	Close() error
}
