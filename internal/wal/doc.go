// Package wal is the log format: records of any length, each whole or absent,
// in a file that is only appended to. The write-ahead log and the MANIFEST are
// both such logs. A Writer makes one, a Reader reads it and tells a log that a
// crash cut short from a log that was damaged.
//
// Writer and Reader each serve one goroutine at a time. They depend on no file
// system: a Writer asks for a File, a Reader for an io.ReaderAt and a size.
//
// # The bytes
//
// A log is a row of blocks of 32 KiB, the last one usually cut short. A record
// is cut into chunks so that no chunk crosses a block's border:
//
//	|<----------- block 0 ----------->|<-- block 1 -->|<----- block 2 ----->|
//	+--------+------------------------+---------------+-------------+-+-----+
//	| full A | first B                | middle B      | last B      |0| ... |
//	+--------+------------------------+---------------+-------------+-+-----+
//
// Each chunk is
//
//	offset  size  meaning
//	0       4     masked CRC-32C of bytes 6 to 7+n, little-endian
//	4       2     n, the payload's length in bytes, little-endian
//	6       1     kind: 1 full, 2 first, 3 middle, 4 last
//	7       n     payload
//
// The checksum covers the kind and the payload, not the length: a damaged
// length shows only because the checksum of the wrong bytes fails. A block's
// last six bytes or fewer cannot hold a header; they are written as zeros and
// never looked at. Seven bytes left hold a first chunk without payload. A record
// may be empty: a full chunk without payload. Kind 0 with length 0 is space that
// a writer reserved and did not fill: zeros up to the log's end are its end.
//
// Writers divide a record only where a block ends, except BufferSplit, whose record can so be
// recognised (Reader.Split).
//
// This is LevelDB's format (its doc/log_format.md) and never changes. In that
// document's example, records of 1000, 97270 and 8000 bytes make
//
//	block 0  full A 1000, first B 31754
//	block 1  middle B 32761
//	block 2  last B 32755, 6 zero bytes
//	block 3  full C 8000
//
// # The tail rule
//
// The format has no mark of where synced bytes end, so the end of a log must be
// judged. Let P be the end of the last whole record. Behind P there is
//
//   - nothing, zeros only, or too little for a header: the log's end;
//   - bytes that do not decode. The Reader then looks ahead, at every byte, for
//     a later record: chunks with good checksums that join to a whole record
//     which ReaderOptions.Plausible takes for one of this log.
//
// What it finds sorts the tail into three:
//
//	found   before it                           kind         newest log
//	no      -                                   TailTorn     accepted
//	yes     a whole 512-byte sector of zeros    TailHole     accepted
//	yes     no such sector, or one flipped bit  TailDamaged  corruption
//
// A torn tail is what a crash leaves of the last append; damage to the very last
// record looks the same (Tail.BitFlip tells the one kind that does not). A hole
// is what a power cut leaves that wrote later pages before earlier ones: none of
// it had been synced. Anything else was written whole and has changed since.
//
// Three things sharpen the second row. Zeros count only outside chunks with good
// checksums, which were evidently written. They count as well if they fill the
// rest of the sector in which the chunk at fault begins: its front was synced
// before, so that less than a sector may be missing. And where one changed bit
// explains the bytes that do not decode, it is damage although a value full of
// zeros stands there; unless that bit would be the only one of its sector.
//
// In a log that is not the newest, every tail but a clean one is corruption:
// its writer synced it before it began the next. ReaderOptions.AllowTornEnd
// accepts a cut there, for logs of writers that do not sync at that point, and
// for a MANIFEST. Whoever knows that there was no crash reads the newest log as one
// that is not the newest.
//
// # The look-ahead's price
//
// It reads from P to the record found, or to the log's end, once. A byte is
// tried as a chunk's begin only if a kind stands in the right place and the
// length fits the block; such a try costs one multiplication, whatever the
// length, because the block's checksums are kept as running sums (sums). So the
// work is proportional to the bytes passed over, in a hostile log too, and so it
// is when a hostile log is salvaged piece by piece with Skip. The search for a
// flipped bit walks no more bytes in all than the log has, and a block; once a
// salvage has used that up, BitFlip stays false. Memory is at most a block, its
// sums, and the record being joined, which never exceeds the log.
//
// # Reading a MANIFEST
//
// Read it with ReaderOptions{AllowTornEnd: true} and Last unset. A last record
// that was cut short then ends the log with io.EOF and Tail().Kind == TailTorn;
// accept that only after checking that the files which the MANIFEST names all
// exist with their sizes, since the lost edit may have been synced. Everything
// else is a *base.CorruptionError, a flipped bit in the last record included.
package wal
