// Package sstable writes and reads tables: immutable files of entries in the order of internal keys, in LevelDB's
// format. A table is a sorted run on disk. A lookup consults its filter before it reads anything else of it.
//
// A Writer writes a table from entries in ascending order. A Reader finds single keys with Get, the path that the store
// is built for, and iterates over them with an Iter. A Reader may be used by any number of goroutines, but a Writer, an
// Iter or a Lookup by only one at a time.
//
// # What a lookup touches
//
//		Lookup ──► whole-table filter ──► index ──► filter of a block ──► data block
//		 (hash       pinned since          decoded    range, of tables      in a slot
//		  once)      Open                  once       LevelDB wrote         of the cache
//		                │ no                               │ no
//		                ▼                                  ▼
//		            not here: nothing read             not here
//
//	  - Open reads footer, metaindex, filter and index, usually in one read. The
//	    index is decoded into a blocks.List when a lookup first passes the filter, and
//	    read then if Open did not already read it. If the caller passes the keys that
//	    the table must begin and end with, Open rejects a file that is another table;
//	    see ReaderOptions.
//	  - Each Reader owns one cache slot for each data block. A hit is a load of
//	    that slot; a miss reads exactly the block and its trailer.
//	  - On a hit, Get allocates nothing, takes no lock, and rebuilds no keys.
//	  - Values that Get returns point into the cached block or into memory that the
//	    Lookup borrowed to decompress it. They are valid until the Lookup is used
//	    again or released, even if the cache evicts the block.
//
// # What is trusted
//
// The contents of files are not trusted. Each block's checksum is verified on every read from disk, before
// decompression and parsing. Every length and offset is checked as well, and no allocation exceeds what the file's size
// justifies. Damage is reported as a *sievedb.CorruptionError with file, part and offset. A damaged filter is ignored,
// which costs reads but no answers (see FilterStatus).
//
// # How long the file stays open
//
// A Reader counts references: one from Open, dropped by Close; one for each open Iter; one for each read from disk
// while it runs; those taken with Ref. Dropping the last one closes the file. A Get that finds everything in memory
// takes no reference, and also works on a closed Reader. A Get that needs the disk then returns ErrReaderClosed, and
// its caller looks for the table's successors. CloseFile closes the file although there are references, when the store
// is closed; reads from disk then return ErrClosed.
//
// # The bytes
//
// docs/format.md has the bytes of every part, with worked examples; testdata/three_entries.hex is a whole table.
//
// The metaindex may list several filter blocks, and a block under several names.
// A Reader uses the first of ReaderOptions.Policies that is listed and whose block
// is sound, and keeps no other block. It ignores names of unknown policies.
//
// LevelDB writes base_lg 11, a filter for each 2 KiB of the file. A Writer makes one filter for the whole table, with
// the smallest base_lg (11 to 63) that shifts the last data block's offset to 0. Every reader of the format then uses
// filter 0 for every block, and a Reader can probe it before it knows the block.
package sstable
