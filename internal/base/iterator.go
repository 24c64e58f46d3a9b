package base

// Iterator iterates over the entries of a run, or of several merged runs, in the order of
// internal keys. Block, table, memtable and merging iterators share this contract.
//
// A new iterator is not positioned. The positioning methods return whether the iterator is then at an entry, as Valid
// does; false means the end in that direction, or an error, which Err returns. Next and Prev must be called only while
// Valid is true. db.Iterator adds positions before the first entry and after the last; it needs one bit for them, while
// each run would need a branch in each step. An error is permanent and makes the iterator invalid: it never skips an
// entry that it could not read.
//
// Key and Value must be called only while Valid is true. Their slices belong to the iterator, must not be changed, and
// are valid until the next positioning call. An iterator must not be used concurrently.
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
	// Key returns the entry's internal key.
	Key() []byte
	Value() []byte
	// Err returns the first error, or nil at a regular end.
	Err() error
	// Close releases the iterator's resources and returns Err. It may be called more than once.
	Close() error
}
