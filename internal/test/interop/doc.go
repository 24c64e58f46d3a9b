// Package interop proves that SieveDB's files are LevelDB's, with other programs: LevelDB 1.23 in C++, goleveldb, and
// RocksDB's tools. It is a separate module, so that users of the library do not download goleveldb.
//
// An Engine is one of the programs, a DB one database that it has open; SieveDB is an Engine among
// the others. A test lets one engine write a database, a second one read, check and change it, and
// the first one check the result, and compares each of them with a Model, a sorted map in memory.
//
// # What runs where
//
// goleveldb runs wherever Go does. LevelDB is driven through leveldb/driver.cc, which BuildDriver compiles against the
// system's libleveldb; RocksDB's sst_dump and ldb are run as they are installed. Make setup installs them on Debian.
// Where they are missing, the tests that need them are skipped with the reason, and the test binary says so once on
// standard error; with SIEVEDB_REQUIRE_ALL set it fails. Where they are installed but do not build or run, tests fail.
// The golden directories under testdata/golden, made by makegolden, are checked by package golden everywhere.
//
// # Flags of the tests
//
//	-interop.random=50   random databases for each pair of engines and direction
//	-interop.seed=0      seed of the first of them; the others count up; 0: choose
//	-interop.histories=100   random histories of engines and repair tools
//	-interop.historyseed=1   seed of the first of them; the others count up
//
// # How a process's death is imitated
//
// The LevelDB driver really ends with _exit. goleveldb and SieveDB live in the
// test's process: Kill copies the directory while it is open, which is what the
// file system holds at that moment and so what a killed process would leave.
package interop
