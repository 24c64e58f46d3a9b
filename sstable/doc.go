// Package sstable writes and reads tables: immutable files of entries in the
// order of internal keys, in LevelDB's format. A table is a sorted run on disk. A
// lookup consults its filter before it reads anything else of it.
//
// A Writer writes a table from entries in ascending order. A Reader finds single
// keys with Get, the path that the store is built for, and iterates over them
// with an Iter. A Reader may be used by any number of goroutines, but a Writer, an
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
//	    index is decoded into flat arrays when a lookup first passes the filter, and
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
// The contents of files are not trusted. Each block's checksum is verified on
// every read from disk, before decompression and parsing. Every length and offset
// is checked as well, and no allocation exceeds what the file's size justifies.
// Damage is reported as a *sievedb.CorruptionError with file, part and offset. A
// damaged filter is ignored, which costs reads but no answers (see FilterStatus).
//
// # How long the file stays open
//
// A Reader counts references: one from Open, dropped by Close; one for each
// open Iter; one for each read from disk while it runs; those taken with Ref.
// Dropping the last one closes the file. A Get that finds everything in memory
// takes no reference, and also works on a closed Reader. A Get that needs the disk
// then returns ErrReaderClosed, and its caller looks for the table's successors.
//
// # The bytes
//
// All integers are little-endian; varints are LevelDB's. Every block is followed
// by a trailer, which the size in a handle does not include.
//
//	+--------+-----+--------+---------+------------+-----------+-------+--------+
//	| data 0 | ... | data n | filters | properties | metaindex | index | footer |
//	+--------+-----+--------+---------+------------+-----------+-------+--------+
//
//	block trailer, 5 bytes
//	0  1  compression: 0 none, 1 Snappy, 2 Zstandard; read but never written:
//	      2 zlib, distinguished from Zstandard by its header, and 4 raw deflate,
//	      both from Minecraft worlds
//	1  4  CRC-32C, masked, of the stored block and the compression byte
//
//	block entry (data, index, metaindex, properties)
//	varint32  bytes of the key shared with the previous entry; 0 at a restart point
//	varint32  bytes of the key that follow here
//	varint32  bytes of the value
//	...       the key's bytes, then the value
//
//	block end
//	4 each    the offsets of the restart points, ascending, the first 0
//	4         their number
//
//	part        key                                  value
//	data        internal key                         user's value
//	index       internal key k, last of the block    handle of the data block
//	            <= k < first of the next
//	metaindex   "filter." and the policy's name      handle of the filter block
//	            "filter.sievedb.range." and the      handle of the range filter
//	            policy's name
//	            "filter.sievedb.properties"          handle; a varint: the last data
//	                                                 block's offset; 4 bytes each: the
//	                                                 masked CRC-32C of the first and
//	                                                 of the last internal key
//	properties  name                                 varint; see Properties
//
//	filter block (never compressed)
//	...     the filters
//	4 each  the offset of each filter
//	4       the offset of the array of offsets: the last filter's end
//	1       base_lg: filter i covers the data blocks that begin in
//	        [i<<base_lg, (i+1)<<base_lg)
//
//	footer, 48 bytes
//	0   <=20  handle of the metaindex: varint64 offset, varint64 size
//	    <=20  handle of the index
//	    ...   zeros up to 40
//	40  8     magic 0xdb4775248b80fb57
//
// The metaindex may list several filter blocks, and a block under several names.
// A Reader uses the first of ReaderOptions.Policies that is listed and whose block
// is sound, and keeps no other block. It ignores names of unknown policies.
//
// LevelDB writes base_lg 11, a filter for each 2 KiB of the file. A Writer makes
// one filter for the whole table, with the smallest base_lg (11 to 63) that
// shifts the last data block's offset to 0. Every reader of the format then uses
// filter 0 for every block, and a Reader can probe it before it knows the block.
//
// # A worked example
//
// Three entries, "ant" at sequence 3 with value "6", "ant" at sequence 1 with
// value "six", and "bee" deleted at sequence 2, at a restart interval of 2. The
// data block and the filter block, with their trailers:
//
//	00 0b 01                          shares 0, 11 bytes follow, value 1
//	61 6e 74 01 03 00 00 00 00 00 00  "ant", kind 1, sequence 3
//	36                                "6"
//	04 07 03                          shares "ant" and the kind; 7 follow, value 3
//	01 00 00 00 00 00 00              sequence 1
//	73 69 78                          "six"
//	00 0b 00                          a restart point shares nothing
//	62 65 65 00 02 00 00 00 00 00 00  "bee", kind 0, sequence 2
//	00 00 00 00 1c 00 00 00           restart points at 0 and 28
//	02 00 00 00                       two of them
//	00 74 3d c0 ef                    not compressed; checksum
//	08 00 04 00 02 49 93 80 06        filter 0: 64 bits, 6 probes
//	00 00 00 00                       filter 0 is at 0
//	09 00 00 00                       the array of offsets is at 9
//	0b                                base_lg 11
//	00 14 4e e4 cc                    not compressed; checksum
//
// testdata/three_entries.hex has the whole table in this form; a test compares both.
package sstable
