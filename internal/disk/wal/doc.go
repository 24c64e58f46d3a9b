// Package wal implements the log format: records of any length, each complete or absent, in a file that is only
// appended to. The write-ahead log and the MANIFEST are both such logs. A Writer makes one. A Reader reads it and
// distinguishes a log that a crash cut short from a log that was damaged.
//
// Writer and Reader each serve one goroutine at a time. They do not depend on a file system: a
// Writer needs a File, a Reader an io.ReaderAt and a size.
//
// The bytes are LevelDB's (its doc/log_format.md); docs/format.md describes them with examples. A block of 32 KiB
// consists of chunks. The masked CRC-32C of a chunk covers its kind and payload, but not its length: a damaged length
// is noticed only because the checksum of the wrong bytes fails. Writers divide a record only at the end of a block.
// BufferSplit is the exception, by which Reader.Split recognizes its record.
//
// # The tail rule
//
// The format does not mark where synced bytes end, so a reader has to judge the end of a log. Let
// P be the end of the last complete record. After P there is
//
//   - nothing, only zeros, or too little for a header: the end of the log;
//   - a chunk of an unknown kind whose length fits and whose checksum is valid. A newer version
//     wrote it, whatever follows: the Reader stops with a base.NewerError;
//   - bytes that do not decode. The Reader then looks ahead, at every byte, for a later record:
//     chunks with valid checksums that join to a complete record, which
//     ReaderOptions.Plausible accepts as one of this log.
//
// The result determines the kind of the tail:
//
//	found   before it                           kind         newest log
//	no      -                                   TailTorn     accepted
//	yes     a whole 512-byte sector of zeros    TailHole     accepted
//	yes     a chunk whose header is zeros       TailHole     accepted
//	yes     none of them, or one flipped bit    TailDamaged  corruption
//
// A torn tail is what a crash leaves of the last append. Damage to the very last record looks the same (Tail.BitFlip
// distinguishes one kind that does not). A hole is what a power cut leaves that wrote later pages before earlier ones:
// none of them had been synced. Everything else was completely written and has changed since.
//
// Three rules refine the second row. Zeros count only outside chunks with valid checksums, which were evidently
// written. They also count if they fill the remainder of the sector in which the faulty chunk begins: the sector's
// front was synced before, so less than a sector may be missing. And if one changed bit explains the bytes that do not
// decode, it is damage even if a value full of zeros is there, unless that bit would be the only one of its sector.
//
// The third row is about logs that are appended through memory (vfs.LogFile): the header of the first record
// of a Write is stored last, so a killed process may leave seven zeros with any part of the Write behind them,
// such as later records. A power cut may leave the sector of the header, or of a part, as before.
//
// In a log that is not the newest, every tail but a clean one is corruption: its writer synced it before it began the
// next. ReaderOptions.AllowTornEnd accepts a cut there, for logs of writers that do not sync at that point, and for a
// MANIFEST. A caller that knows that there was no crash leaves ReaderOptions.Last unset for the newest log too.
//
// # The cost of the look-ahead
//
// The look-ahead reads once from P to the record found, or to the end of the log. It tries a byte as the beginning of a
// chunk only if the kind is valid and the length fits the block. A try costs one multiplication, whatever the length,
// because the checksums of the block are kept as running sums. So the work is proportional to the bytes skipped, even
// in a hostile log that is salvaged piece by piece with Skip. The search for a flipped bit examines at most as many
// bytes in total as the log has, plus a block; after that, BitFlip stays false. Memory is at most a block, its sums,
// and the record being joined, which never exceeds the log.
//
// # Reading a MANIFEST
//
// Use ReaderOptions{AllowTornEnd: true} without Last. A last record that was cut short then ends
// the log with io.EOF and Tail().Kind == TailTorn. Accept that only after checking that the files
// which the MANIFEST names all exist with their sizes, because the lost edit may have been
// synced. Everything else is a *base.CorruptionError, including a flipped bit in the last record.
package wal
