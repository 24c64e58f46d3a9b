// Package foreign recognizes the databases of other storage engines, so that none of
// them is opened, repaired or destroyed as if it were LevelDB's. It only reads.
//
// Pebble and RocksDB began as LevelDB, and their directories look like LevelDB's: the
// names of logs, tables and MANIFESTs are the same, and the MANIFEST of a database that
// has no table yet holds nothing that LevelDB does not write. Badger's tables have the
// names of LevelDB's too. Where they differ:
//
//	engine    proof                                          sign
//	--------  ---------------------------------------------  -----------------------------
//	RocksDB   edit tags 100 and above in the MANIFEST; the   OPTIONS-N that begins as its
//	          magic at the end of a table                    options; IDENTITY; LOG that
//	                                                         begins with its version
//	Pebble    the same tags; the magic at the end of a       OPTIONS-N with its version;
//	          table                                          marker.NAME.N.VALUE
//	Badger                                                   KEYREGISTRY, N.vlog, N.mem,
//	                                                         DISCARD; MANIFEST that begins
//	                                                         with "Bdgr", which counts twice
//	SQLite    "SQLite format 3" in its first bytes
//	bbolt     0xED0CDAED at offset 16 of a file
//	LMDB      0xBEEFC0DE at offset 16 of a file (12 where
//	          it was written by a 32-bit program)
//
// # What counts
//
// Somebody may have left an OPTIONS file or a table of RocksDB in a directory of
// LevelDB's; and a directory of LevelDB's that is damaged must stay repairable. So:
//
//  1. Where CURRENT names a MANIFEST that holds LevelDB's tags alone, that MANIFEST and
//     the tables that it names decide, and other files do not matter. If it names none, no
//     table of the directory is LevelDB's, and no Close of ours vouches for the
//     directory, two signs of one engine decide.
//  2. Otherwise a proof anywhere in the directory decides; then a table of LevelDB's;
//     then two signs.
//  3. The last three engines keep a database in one file. Such a file decides when it is
//     the path, and in a directory that holds no file of LevelDB's.
package foreign
