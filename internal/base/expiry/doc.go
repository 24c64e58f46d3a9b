// Package expiry says which values of a store may expire, and when.
//
// # Envelopes
//
// The keys under some prefixes, which the user chooses, have values with an envelope: all of
// them, whether they expire or not. The MANIFEST records the prefixes, so that no reader takes an
// envelope for a value. To LevelDB the envelope is a part of the value.
//
//	offset  size  meaning
//	     0     1  0xfe, which begins no text in UTF-8
//	     1     6  when the value expires, in milliseconds since 1970, little-endian; 0: never
//	     7     2  the lower half of the masked CRC-32C of the first 7 bytes, little-endian
//	     9        the value
//
// The check distinguishes envelopes from values that were written before the prefix was chosen,
// or by another program. Such a value is an error for the reader of its key, ErrNoEnvelope.
//
// # Time
//
// A Policy reads the clock that the user gives it, and never goes back: its time is the latest
// that the clock has shown. So what has expired once stays hidden. Snapshots and iterators keep
// the time of their creation. It is read after the state that they read from, or under the lock
// of the list of snapshots, so it is never before that of a compaction whose result they see.
// The MANIFEST records the time with each edit, and the next opening continues from there.
//
// All functions are safe for concurrent use.
package expiry
