// Package foreign recognizes the databases of other storage engines, so that they are not opened,
// repaired or destroyed as if they were LevelDB's. It only reads.
//
// Pebble and RocksDB are derived from LevelDB, and their directories detect like LevelDB's: the names of logs, tables
// and MANIFESTs are the same, and the MANIFEST of a database without tables contains nothing that LevelDB does not
// write. Badger's tables have the names of LevelDB's too. The engines differ as follows:
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
//	                                                         with "Bdgr", which counts as two
//	SQLite    "SQLite format 3" in its first bytes
//	bbolt     0xED0CDAED at offset 16 of a file
//	LMDB      0xBEEFC0DE at offset 16 of a file (12 if a
//	          32-bit program wrote it)
//
// # Decision
//
// A user may have left an OPTIONS file or a table of RocksDB in a directory of LevelDB's, and a
// damaged directory of LevelDB's must stay repairable. Therefore:
//
//  1. If CURRENT names a MANIFEST with only LevelDB's tags, that MANIFEST and its tables decide,
//     and other files do not matter. If the MANIFEST names no table, the directory has no table
//     of LevelDB's, and there is no CLOSED file of ours, two signs of one engine decide.
//  2. Otherwise a proof anywhere in the directory decides, then a table of LevelDB's, then two
//     signs.
//  3. The last three engines keep a database in one file. Such a file decides if it is the path
//     itself, or if it is in a directory without a file of LevelDB's.
package foreign
