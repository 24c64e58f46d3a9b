// Package sstable writes and reads tables: immutable files of entries in the
// order of internal keys, in LevelDB's format. A table is the run on disk; its
// filter is asked before anything else of it is read.
//
// A Writer makes a table from entries in rising order. A Reader finds single
// keys with Get, which is the path that the store is built for, and walks them
// with an Iter. Readers may be used from any goroutine; a Writer, an Iter and a
// Lookup belong to one at a time.
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
//	  - Open reads footer, metaindex, filter and index, in one piece as a rule. The
//	    index is decoded when a lookup first passes the filter, and read then if Open
//	    did not come across it, and held in flat arrays.
//	    Given the keys that the table must begin and end with, Open refuses a file
//	    that is another table; see ReaderOptions.
//	  - Each Reader owns one cache slot for each data block. A hit is a load of
//	    that slot; a miss reads exactly the block and its trailer.
//	  - Get allocates nothing on a hit, takes no lock, and rebuilds no keys.
//	  - Values that Get returns point into the cached block or into memory that the
//	    Lookup borrowed to decompress it, and are valid until the Lookup is used
//	    again or released, whatever the cache evicts.
//
// # What is trusted
//
// Nothing that comes from a file. Each block's checksum is verified on every
// read from disk, before decompression and before parsing; behind it every
// length and offset is checked all the same, and nothing is allocated that the
// file could not justify. What is wrong is a *sievedb.CorruptionError with file,
// part and offset. A filter that is damaged means "maybe": it costs reads, not
// answers (see FilterStatus).
//
// # How long the file stays open
//
// A Reader counts references: one from Open, dropped by Close; one for each
// open Iter; one for each read from disk while it runs; those taken with Ref.
// The file is closed with the last. A Get that finds all it needs in memory
// takes none and works on a closed Reader too; one that needs the disk then
// returns ErrReaderClosed, and its caller looks for the table's successors.
//
// # The bytes
//
// All integers are little-endian; varints are of LevelDB's kind. Every block is
// followed by a trailer, which a handle's size does not count.
//
//	+--------+-----+--------+---------+------------+-----------+-------+--------+
//	| data 0 | ... | data n | filters | properties | metaindex | index | footer |
//	+--------+-----+--------+---------+------------+-----------+-------+--------+
//
//	block trailer, 5 bytes
//	0  1  compression: 0 none, 1 Snappy, 2 Zstandard; read but never written:
//	      2 zlib, told from Zstandard by its header, and 4 raw deflate, both of
//	      game worlds
//	1  4  CRC-32C, masked, of the stored block and the compression byte
//
//	block entry (data, index, metaindex, properties)
//	varint32  bytes of the key shared with the entry before; 0 at a restart point
//	varint32  bytes of the key that follow here
//	varint32  bytes of the value
//	...       the key's bytes, then the value
//
//	block end
//	4 each    the offsets of the restart points, rising, the first 0
//	4         their number
//
//	part        key                                  value
//	data        internal key                         user's value
//	index       internal key k, last of the block    handle of the data block
//	            <= k < first of the next
//	metaindex   "filter." and the policy's name      handle of the filter block
//	            "filter.sievedb.range." and the      handle of the filter of ranges
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
// The metaindex may list several filter blocks, and one under several names. The
// first policy of ReaderOptions.Policies that is among them and whose block is
// sound is used; no other block is kept. Names that none of them has are passed
// over.
//
// LevelDB writes base_lg 11, a filter for each 2 KiB of the file. A Writer makes
// one filter for the whole table, with the smallest base_lg (11 to 63) that
// shifts the last data block's offset to 0: every reader of the format then asks
// filter 0 for every block, and a Reader can ask it before it knows the block.
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
// testdata/three_entries.hex has the whole table so; a test compares both.
package sstable
