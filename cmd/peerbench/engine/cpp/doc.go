// Package cpp has drivers for the C++ stores LevelDB and RocksDB, through their C interfaces.
//
// They are in the program only if it is built with cgo and with the tags leveldb and rocksdb, which
// need the libraries' headers; make setup offers to install Debian's packages. Without them, the
// drivers have LeftOut set.
//
// Both libraries have the same C interface with different names. So store.h declares one table of
// functions, calls.h fills it for either library, and leveldb.c and rocksdb.c add the differences:
// options, Get and Flush. Every call of an engine crosses from Go to C once. So does every move of
// an iterator, which returns key and value too.
package cpp

import "github.com/sievedb/sievedb/cmd/peerbench/engine"

// Drivers returns both drivers. Those of engines that are not in the program have LeftOut set.
func Drivers() []engine.Driver { return []engine.Driver{leveldbDriver(), rocksdbDriver()} }
