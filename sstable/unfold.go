package sstable

// A key is stored as the difference to the previous one, so a block can have far more bytes of keys than bytes: a key
// of a megabyte, and then millions of entries of a few bytes that share it. A walk through it compares and copies those
// keys. So the long keys of a restart interval, unfolded, may have 1 MiB, or 64 times the bytes of the interval,
// whichever is more. Short keys need no bound, and are not counted: an entry has at least three bytes, four if it
// shares more than 127.
//
// It is a bound of intervals because a walk may come to one any number of times, in both directions, and must get the
// same answer each time. All readers that rebuild keys have it. Lookups in bytewise order rebuild none, and have none.
//
// A program that writes a restart point for every 16 keys, as LevelDB, goleveldb and RocksDB do by default, unfolds 16
// times at most; with one for every 64 keys a table always stays within the bound. Tables whose intervals are longer
// can exceed it only if their keys have several kilobytes, nearly all of them shared, and their values a few bytes.
const (
	// maxKeyLen is the length in bytes of the longest internal key that is read or written: that of the longest entry.
	// A lower one would protect nobody, because a key is never longer than its decoded block, and LevelDB and goleveldb
	// have no limit. A log with a key that no table can have would keep a database from being opened.
	maxKeyLen = maxBlockLen / 2

	plainKeyLen  = 2 * 0x7f // the length of the longest key that is rebuilt from one-byte lengths; longer ones count
	unfoldFree   = 1 << 20  // bytes of long keys that an interval may have whatever its size
	unfoldFactor = 64
)

// unfolded counts the bytes of the long keys of one restart interval. An entry to which a walk comes again is not
// counted again.
type unfolded struct {
	interval int // by its restart point
	bytes    uint64
	to       int // where the last counted entry ends
}

// add counts the key of an entry of that restart interval of size bytes, which ends at position end. It returns why the
// block is corrupt if the key exceeds the bounds, or "".
func (u *unfolded) add(keyLen, end, interval, size int) string {
	if keyLen > maxKeyLen {
		return badEntryLongKey
	}
	if interval != u.interval {
		*u = unfolded{interval: interval}
	}
	if end > u.to {
		u.bytes, u.to = u.bytes+uint64(keyLen), end
	}
	if unfoldsTooFar(u.bytes, size) {
		return badEntryUnfold
	}
	return ""
}

func unfoldsTooFar(keyBytes uint64, intervalBytes int) bool {
	return keyBytes > unfoldFree && keyBytes > unfoldFactor*uint64(intervalBytes)
}
